"""Guardrails at work: rules in code that look at input, output and calls, and what they say becomes a fact."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from placet.declare.context import ToolContext
from placet.declare.guardrail import (
    GuardrailFunctionOutput,
    GuardrailResult,
    InputGuardrail,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
)
from placet.facts.codec import Json, JsonObject, NotPlain, fresh, plain
from placet.facts.errors import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    UserError,
)
from placet.facts.events import GuardrailRecord, GuardrailsJudged
from placet.runtime.frame import Frame, Job, awaited

V = TypeVar("V")


def input_guardrails(frame: Frame) -> list[InputGuardrail]:
    """Those that still have to speak: of the agent with which the run began, and of the configuration."""
    run = frame.run
    if run.input_judged:
        return []
    own = frame.graph.at(run.starting_agent).input_guardrails
    return [*own, *frame.config.input_guardrails] if not frame.path else list(own)


async def judge_input(frame: Frame, guardrails: Sequence[InputGuardrail]) -> list[GuardrailRecord]:
    run = frame.run
    items = fresh(run.history[: run.input_length])
    return await _ask(frame, guardrails, items[0]["content"] if _is_text(items) else items)


def _is_text(items: Sequence[Any]) -> bool:
    return len(items) == 1 and items[0].get("role") == "user" and isinstance(items[0].get("content"), str)


async def judge_added_input(frame: Frame, items: list[JsonObject]) -> None:
    """A new message for a run that waits is judged like any input. One that trips is refused, and the run waits on."""
    own = frame.graph.at(frame.run.starting_agent).input_guardrails
    guardrails = [*own, *frame.config.input_guardrails]
    if not guardrails:
        return
    for record in await _ask(frame, guardrails, items[0]["content"] if _is_text(items) else items):
        if record.tripped:
            raise report_tripwire(frame, record)


Judging: TypeAlias = asyncio.Future[list[GuardrailRecord]] | None
"""Guardrails that speak while the model is being asked."""


class InputTripped(Exception):
    """A guardrail tripped while the model was being asked: its answer is not wanted any more."""

    def __init__(self, records: list[GuardrailRecord]) -> None:
        super().__init__("an input guardrail tripped")
        self.records = records


async def start_judging_input(frame: Frame, guardrails: Sequence[InputGuardrail]) -> Judging:
    """Let those guardrails speak that come before the first request, and begin to ask those that go beside it."""
    await frame.journal.commit()  # guardrails are user code
    first = await judge_input(frame, [each for each in guardrails if not each.run_in_parallel])
    beside = [each for each in guardrails if each.run_in_parallel]
    if not beside or any(record.tripped for record in first):
        frame.note(GuardrailsJudged("input", first))
        for record in first:
            if record.tripped:
                raise report_tripwire(frame, record)
        return None

    async def judge() -> list[GuardrailRecord]:
        return [*first, *await judge_input(frame, beside)]

    return asyncio.ensure_future(judge())


async def unless_tripped(judging: Judging, asking: Coroutine[Any, Any, V]) -> V:
    """What `asking` gives, unless the guardrails trip first: then it is cancelled. If it fails, they go on."""
    if judging is None:
        return await asking
    task = asyncio.ensure_future(asking)
    try:
        both: set[asyncio.Future[Any]] = {task, judging}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if judging.done() and not task.done():
            records = judging.result()
            if any(record.tripped for record in records):
                raise InputTripped(records)
        return await task
    finally:
        task.cancel()


async def judge_input_late(frame: Frame) -> None:
    """A drive that died between the first answer and the guardrails' word left them unheard: now they speak first."""
    waiting = input_guardrails(frame)
    if waiting and frame.run.responses:
        frame.note(GuardrailsJudged("input", await judge_input(frame, waiting)))
        await frame.journal.commit()


async def judge_output(frame: Frame, output: Any) -> None:
    """Let the output guardrails look at the final output; a tripwire ends the drive, and the run has not ended."""
    guardrails: list[OutputGuardrail] = [*frame.agent.output_guardrails]
    if not frame.path:
        guardrails += frame.config.output_guardrails
    if not guardrails:
        return
    await frame.journal.commit()
    records = await _ask(frame, guardrails, output)
    frame.note(GuardrailsJudged("output", records))
    for record in records:
        if record.tripped:
            raise OutputGuardrailTripwireTriggered(
                f"The output guardrail '{record.name}' stopped the run. What was done before stays in its state.",
                as_result(frame, record, source=_named(guardrails, record), agent=frame.agent, agent_output=output),
            )


def report_tripwire(frame: Frame, record: GuardrailRecord) -> InputGuardrailTripwireTriggered:
    return InputGuardrailTripwireTriggered(
        f"The input guardrail '{record.name}' stopped the run.", as_result(frame, record)
    )


def as_result(frame: Frame, record: GuardrailRecord, **more: Any) -> GuardrailResult:
    info = frame.journal.infos.of(frame.path, record, None)
    return GuardrailResult(record.name, GuardrailFunctionOutput(info, record.tripped), **more)


async def _ask(
    frame: Frame, guardrails: Sequence[InputGuardrail | OutputGuardrail], subject: Any
) -> list[GuardrailRecord]:
    agent = frame.agent
    result = await asyncio.gather(
        *(awaited(each.guardrail_function(frame.context, agent, subject)) for each in guardrails)
    )
    return [_record(frame, each.get_name(), given) for each, given in zip(guardrails, result, strict=True)]


def _record(frame: Frame, name: str, result: object) -> GuardrailRecord:
    if not isinstance(result, GuardrailFunctionOutput):
        raise UserError(f"Guardrail '{name}' returns a GuardrailFunctionOutput, not a {type(result).__name__}.")
    tripped = result.tripwire_triggered is not False  # silence is not consent
    return _noted(frame, name, tripped, result.output_info)


def _noted(frame: Frame, name: str, tripped: bool, info: Any, call: str | None = None) -> GuardrailRecord:
    """What goes into the log; the result of this drive keeps the object itself."""
    record = GuardrailRecord(name, tripped, _as_json(info))
    frame.journal.infos.keep(frame.path, record, info, call)
    return record


def _as_json(info: Any) -> Json:
    """A pydantic model or a dataclass as its fields; what has no JSON as its repr."""
    try:
        return plain(info, "output_info")
    except NotPlain:
        pass
    try:
        import pydantic_core

        return plain(pydantic_core.to_jsonable_python(info), "output_info")
    except Exception:  # noqa: BLE001  # whatever a foreign object's conversion raises: the rule has spoken
        return repr(info)[:1000]


def _named(guardrails: Sequence[InputGuardrail | OutputGuardrail], record: GuardrailRecord) -> object:
    return next((each for each in guardrails if each.get_name() == record.name), None)


# -- the guardrails of tools -------------------------------------------------------------------------------------------


async def judge_call(frame: Frame, job: Job, ctx: ToolContext[Any]) -> str | None:
    """What a tool's input guardrails put in the place of the call: a message, or None when they let it be."""
    guardrails = job.tool.tool_input_guardrails
    if not guardrails:
        return None
    await frame.journal.commit()
    data = ToolInputGuardrailData(ctx, frame.agent)
    return await _judge_tool(frame, job, guardrails, data)


async def judge_result(frame: Frame, job: Job, ctx: ToolContext[Any], value: object) -> object:
    """What a tool's output guardrails make of what the tool function returned."""
    data = ToolOutputGuardrailData(ctx, frame.agent, value)
    for each in job.tool.tool_output_guardrails:
        result = _tool_result(each.get_name(), await awaited(each.guardrail_function(data)))
        frame.note(_tool_fact(frame, each.get_name(), result, job.call.id, is_input=False))
        if result.behavior == "reject_content":
            return result.message or ""
        if result.behavior == "raise_exception":
            return Tripped(each.get_name(), result.output_info)
    return value


class Tripped:
    """An output guardrail of a tool stops the run, but not before what happened is written down."""

    def __init__(self, name: str, info: Any) -> None:
        self.name = name
        self.info = info


async def _judge_tool(
    frame: Frame, job: Job, guardrails: Sequence[ToolInputGuardrail], data: ToolInputGuardrailData
) -> str | None:
    for each in guardrails:
        name = each.get_name()
        result = _tool_result(name, await awaited(each.guardrail_function(data)))
        frame.note(_tool_fact(frame, name, result, job.call.id, is_input=True))
        if result.behavior == "reject_content":
            return result.message or ""
        if result.behavior == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(
                f"The guardrail '{name}' of tool '{job.tool.name}' stopped the run before the tool ran.",
                GuardrailResult(name, GuardrailFunctionOutput(result.output_info, True), job.call.id, each),
            )
    return None


def _tool_result(name: str, result: object) -> ToolGuardrailFunctionOutput:
    if not isinstance(result, ToolGuardrailFunctionOutput) or result.behavior not in (
        "allow",
        "reject_content",
        "raise_exception",
    ):
        raise UserError(f"Guardrail '{name}' returns a ToolGuardrailFunctionOutput, not a {type(result).__name__}.")
    return result


def _tool_fact(
    frame: Frame, name: str, result: ToolGuardrailFunctionOutput, call: str, *, is_input: bool
) -> GuardrailsJudged:
    record = _noted(frame, name, result.behavior != "allow", result.output_info, call)
    return GuardrailsJudged("tool_input" if is_input else "tool_output", [record], call)

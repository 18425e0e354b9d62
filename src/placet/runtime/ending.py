"""How a turn and a run end: on to the model, or out with a final output."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from placet.core.state import Call
from placet.declare.agent import FunctionToolResult, ToolsToFinalOutputResult
from placet.facts.codec import Json, NotPlain, fresh, plain
from placet.facts.errors import MaxTurnsExceeded, PlacetError, RunConflict, StoreError, UserError
from placet.facts.events import RunCancelled, RunEnded, RunStopped, TurnJudged
from placet.facts.items import final_text
from placet.runtime import error_handlers
from placet.runtime.execute import close_calls
from placet.runtime.frame import Frame, awaited
from placet.runtime.guardrails import judge_output
from placet.runtime.model_call import ask_model
from placet.runtime.output import parse_final
from placet.runtime.session_items import write_session

_HAS_A_RESULT = frozenset({"finished", "failed", "answered"})
"""Outcomes whose text may be a final output: those of rejected, denied, expired or superseded calls never are."""


async def judge_turn(frame: Frame) -> None:
    """All calls of the turn have ended. Once, over the outputs in the model's order: is this the end?"""
    run, behavior = frame.run, frame.agent.tool_use_behavior
    must_ask = run.agent != run.response_agent or run.has_new_input  # a handoff, or input was added
    if behavior == "run_llm_again" or must_ask:
        await ask_model(frame)
        return
    calls = [call for call in run.calls.values() if call.server is None]  # a yes to a provider is no result
    if callable(behavior):
        await frame.journal.commit()
        verdict = _checked(await awaited(behavior(frame.context, [_result(frame, call) for call in calls])))
        if verdict.is_final_output:
            await end_run(frame, _plain_final(verdict.final_output))
            return
        frame.note(TurnJudged())  # the function is asked once per turn: after a crash it is not asked again
    else:
        names = None if behavior == "stop_on_first_tool" else behavior["stop_at_tool_names"]
        last = next((call for call in calls if _is_final(frame, call, names)), None)
        if last is not None:
            await end_run(frame, last.output)
            return
    await ask_model(frame)


def _checked(verdict: object) -> ToolsToFinalOutputResult:
    if not isinstance(verdict, ToolsToFinalOutputResult):
        raise UserError(f"A tool_use_behavior function returns ToolsToFinalOutputResult, not {type(verdict).__name__}.")
    return verdict


def _is_final(frame: Frame, call: Call, names: Container[str] | None) -> bool:
    """Whether the run ends with what this call gave: that of any tool, or of one with these names."""
    is_tool = frame.agent.handoff_named(call.name) is None
    is_named = names is None or call.name in names or call.item.get("name") in names  # also without its group's name
    return is_tool and _has_a_result(call) and is_named


def _has_a_result(call: Call) -> bool:
    """Given up is no result either: a person said no to running an in-doubt call again."""
    was_refused = call.decision is not None and call.decision.verdict == "reject"
    if (
        call.outcome == "finished"
    ):  # what its tool function asked may have been declined: it went on, and this is its result
        return True
    return call.outcome in _HAS_A_RESULT and not was_refused


def _result(frame: Frame, call: Call) -> FunctionToolResult:
    kept = frame.journal.values.get(call.id, call.output)
    output = fresh(kept) if isinstance(kept, dict | list) and kept is call.output else kept
    return FunctionToolResult(frame.tool_of(call), call.name, output, call.outcome in ("finished", "failed"))


def _plain_final(output: Any) -> Json:
    try:
        return plain(output, "final_output")
    except NotPlain as error:
        raise UserError(f"The final output of a tool_use_behavior function must be plain JSON: {error}.") from error


async def conclude_run(frame: Frame) -> None:
    """The model answered without asking for anything."""
    await end_run(frame, final_text(frame.run.last_output) or "")


async def end_run(frame: Frame, output: Json) -> None:
    value = parse_final(frame.agent.output_type, output)[0] if isinstance(output, str) else fresh(output)
    await judge_output(frame, value)
    if frame.session is not None:
        await write_session(frame)
    if frame.all_hooks:
        await frame.journal.commit()
        for hooks in frame.all_hooks:
            await hooks.on_agent_end(frame.context, frame.agent, value)
    frame.note(RunEnded(output))


async def end_by_handler(frame: Frame, error: MaxTurnsExceeded) -> bool:
    """Whether the caller's handler turned the lack of turns, which is this run's own, into a final output."""
    return error.path == frame.path and await error_handlers.end_by_handler(frame, error, "max_turns")


CANCELLED = "This call was not carried out: the run was cancelled."


async def cancel_run(frame: Frame) -> None:
    """End what is open, each call with an output, and then the run."""
    await close_calls(frame, "cancelled", CANCELLED)
    await write_session(frame)
    frame.note(RunCancelled())


def note_stop(frame: Frame, error: BaseException) -> None:
    """Write down what stopped the drive. Foreign messages may hold what should not be stored: the type does.

    A store that could not do its work stops nothing: it comes back, and then the next process continues. Nor does a
    driver whose right has run out: the run is for the next driver.
    """
    if type(error) is StoreError or isinstance(error, RunConflict):
        return
    if not frame.path and not frame.journal.is_broken and not frame.run.has_ended and frame.run.started:
        code = error.code if isinstance(error, PlacetError) else "error"
        frame.note(RunStopped(code, str(error) if isinstance(error, PlacetError) else type(error).__name__))

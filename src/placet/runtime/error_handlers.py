"""What a caller answers in the place of an error that would end the run: `error_handlers={"max_turns": handler}`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from placet.declare.agent import Agent
from placet.declare.context import RunContextWrapper
from placet.declare.guardrail import GuardrailResult
from placet.declare.output_schema import OutputSchema
from placet.facts.codec import Json, JsonObject, NotPlain, encode, fresh, plain
from placet.facts.errors import MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError, UserError
from placet.facts.events import RunEnded
from placet.facts.items import ModelResponse, RunItem
from placet.runtime.frame import Frame, awaited
from placet.runtime.output import parse_final
from placet.runtime.result import RunResult, result_of
from placet.runtime.session_items import write_session

ErrorKind: TypeAlias = Literal["max_turns", "model_refusal", "invalid_final_output"]


class RunErrorData(msgspec.Struct, frozen=True):
    """The run as it stood when the error came."""

    input: list[JsonObject]
    new_items: list[RunItem]
    history: list[JsonObject]
    output: list[JsonObject]
    """What the run added to its input."""
    raw_responses: list[ModelResponse]
    last_agent: Agent[Any]


class RunErrorDetails(msgspec.Struct, frozen=True):
    """What a run had produced when an error ended it (`error.run_data`)."""

    input: list[JsonObject]
    new_items: list[RunItem]
    raw_responses: list[ModelResponse]
    last_agent: Agent[Any]
    context_wrapper: RunContextWrapper[Any]
    input_guardrail_results: list[GuardrailResult]
    output_guardrail_results: list[GuardrailResult]
    tool_input_guardrail_results: list[GuardrailResult] = []
    tool_output_guardrail_results: list[GuardrailResult] = []


def details_of(result: RunResult) -> RunErrorDetails:
    return RunErrorDetails(
        result.input,
        result.new_items,
        result.raw_responses,
        result.last_agent,
        result.context_wrapper,
        result.input_guardrail_results,
        result.output_guardrail_results,
        result.tool_input_guardrail_results,
        result.tool_output_guardrail_results,
    )


class RunErrorHandlerInput(msgspec.Struct, frozen=True):
    """What an error handler gets."""

    error: Exception
    context: RunContextWrapper[Any]
    history: list[JsonObject]
    run_data: RunErrorData


class RunErrorHandlerResult(msgspec.Struct, frozen=True):
    """The final output that takes the error's place."""

    final_output: Any
    include_in_history: bool = True
    """Taken for the sake of programs that say it: the history holds what was said, and never this."""


ErrorHandler: TypeAlias = Callable[
    [RunErrorHandlerInput], RunErrorHandlerResult | Awaitable[RunErrorHandlerResult | None] | None
]


class RunErrorHandlers(TypedDict, total=False):
    """By what would end the run."""

    max_turns: ErrorHandler
    """The model was asked as often as it may be (`MaxTurnsExceeded`)."""
    model_refusal: ErrorHandler
    """The model refused to answer (`ModelRefusalError`)."""
    invalid_final_output: ErrorHandler
    """The model's last answer is not what `output_type` asks for (`ModelBehaviorError`)."""


def check_handlers(given: object) -> None:
    """A handler that could never be called is refused where it is given."""
    kinds = get_args(ErrorKind)
    if not isinstance(given, Mapping) or not set(given) <= set(kinds):
        raise UserError(f"error_handlers is a dict of functions by kind of error ({', '.join(kinds)}), not {given!r}.")
    for kind, handler in given.items():
        if not callable(handler):
            raise UserError(
                f"error_handlers['{kind}'] is a function (data) that gives a final output, not {handler!r}."
            )


async def end_by_handler(frame: Frame, error: MaxTurnsExceeded | ModelBehaviorError, kind: ErrorKind) -> bool:
    """Whether the caller's handler turned the error into a final output."""
    handler = frame.error_handlers.get(kind)  # `check_handlers` has looked at it
    if handler is None:
        return False
    await frame.journal.commit()
    given = RunErrorHandlerInput(error, frame.context, fresh(frame.run.history), _data(frame))
    answer = await awaited(handler(given))
    if answer is None:
        return False
    output = _plain_output(frame.agent.output_type, _output_of(answer))
    await write_session(frame)
    frame.note(RunEnded(output))
    await frame.journal.commit()
    return True


def kind_of(error: ModelBehaviorError, *, is_final: bool) -> ErrorKind | None:
    """Which handler an unusable answer of the model is for. `is_final`: it would have been the final output."""
    if isinstance(error, ModelRefusalError):
        return "model_refusal"
    return "invalid_final_output" if is_final else None


def _data(frame: Frame) -> RunErrorData:
    result = result_of(frame)
    history = result.to_input_list()
    return RunErrorData(
        input=result.input,
        new_items=result.new_items,
        history=history,
        output=history[len(result.input) :],
        raw_responses=result.raw_responses,
        last_agent=result.last_agent,
    )


def _output_of(answer: object) -> object:
    """A handler may answer with a result, with a dict that has a final_output, or with the output itself."""
    if isinstance(answer, RunErrorHandlerResult):
        return answer.final_output
    if isinstance(answer, Mapping) and set(answer) == {"final_output"}:
        return answer["final_output"]
    return answer


def _plain_output(output_type: type[Any] | OutputSchema | None, output: object) -> Json:
    """As the log holds it: what `output_type` asks for is there as the JSON text that a model would have given."""
    dump = getattr(output, "model_dump", None)
    try:
        found = plain(dump(mode="json") if callable(dump) else output, "final_output")
    except NotPlain as error:
        raise UserError(f"The final output of an error handler must be plain JSON: {error}.") from error
    if output_type is None or output_type is str:
        return found
    text = found if isinstance(found, str) else encode(found).decode()
    problem = parse_final(output_type, text)[1]
    if problem is not None:
        raise UserError(f"The final output of an error handler cannot be used: {problem}.")
    return text

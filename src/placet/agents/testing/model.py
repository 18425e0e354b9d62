"""A scripted model for tests of programs: it speaks the SDK's protocol, and streams the events of the Responses API."""

from __future__ import annotations

import copy
import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypedDict

from placet import ModelResponse, Usage
from placet.agents.models._bridge import as_usage
from placet.agents.models.interface import Model, ModelTracing
from placet.agents.testing._events import events_of


class ModelScriptError(Exception):
    """The base of what is wrong with a script."""


class InvalidModelStep(ModelScriptError):
    """A step that no model could take."""

    def __init__(self, message: str, *, reason: str = "invalid_input", input_index: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.input_index = input_index


class UnexpectedModelCall(ModelScriptError):
    """The model was asked, and the script is at its end."""

    def __init__(self, message: str, *, call: ModelCall, call_index: int) -> None:
        super().__init__(message)
        self.call = call
        self.call_index = call_index


class UnconsumedModelSteps(ModelScriptError):
    """The script is longer than the run."""

    def __init__(self, message: str, *, remaining_steps: int) -> None:
        super().__init__(message)
        self.remaining_steps = remaining_steps


@dataclass(frozen=True)
class ModelCall:
    """A request that the model got."""

    system_instructions: str | None
    input: Any
    model_settings: Any
    tools: list[Any]
    output_schema: Any
    handoffs: list[Any]
    tracing: ModelTracing
    previous_response_id: str | None
    conversation_id: str | None
    prompt: Any | None
    streamed: bool


Responder: TypeAlias = Callable[[ModelCall], Any | Awaitable[Any]]


@dataclass
class ModelStep:
    """One answer: items, an error, a function of the request, or events of a stream."""

    output: Sequence[Any] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = "resp-789"
    request_id: str | None = None
    raw_usage: dict[str, Any] | None = None
    error: Exception | None = None
    responder: Responder | None = None
    stream_events: Sequence[Any] | Callable[[ModelCall], Any] | None = None
    retry_advice: Any = None

    @classmethod
    def raise_error(cls, error: Exception, *, retry_advice: Any = None) -> ModelStep:
        return cls(error=error, retry_advice=retry_advice)

    @classmethod
    def respond(cls, responder: Responder) -> ModelStep:
        return cls(responder=responder)

    @classmethod
    def stream(
        cls,
        events: Sequence[Any] | Callable[[ModelCall], Any],
        *,
        output: Sequence[Any] = (),
        usage: Usage | None = None,
        response_id: str | None = "resp-789",
    ) -> ModelStep:
        return cls(output=output, usage=usage or Usage(), response_id=response_id, stream_events=events)


class ModelStepSpec(TypedDict, total=False):
    """A step as a dict."""

    output: Sequence[Any]
    usage: Usage
    response_id: str | None
    request_id: str | None
    error: Exception
    responder: Responder


_STEP_FIELDS = {each.name for each in fields(ModelStep)}


class ScriptedModel(Model):
    """Answers with its steps, one after the other, and remembers what it was asked."""

    def __init__(
        self, steps: Iterable[Any] = (), *, emit_traces: bool = False, default_usage: Usage | None = None
    ) -> None:
        self._steps: deque[ModelStep] = deque()
        self._calls: list[ModelCall] = []
        self._default_usage = default_usage
        self._retry_advice: Any = None
        self.emit_traces = emit_traces
        self.extend(steps)

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        return tuple(self._calls)

    @property
    def remaining_steps(self) -> int:
        return len(self._steps)

    @property
    def first_call(self) -> ModelCall | None:
        return self._calls[0] if self._calls else None

    @property
    def last_call(self) -> ModelCall | None:
        return self._calls[-1] if self._calls else None

    def enqueue(self, step: Any) -> None:
        self.extend([step])

    def extend(self, steps: Iterable[Any]) -> None:
        self._steps.extend([_step(each, index) for index, each in enumerate(steps)])

    def set_default_usage(self, usage: Usage | None) -> None:
        self._default_usage = usage

    def get_retry_advice(self, request: Any) -> Any:
        return self._retry_advice

    def assert_complete(self) -> None:
        if self._steps:
            raise UnconsumedModelSteps(
                f"{len(self._steps)} scripted steps were not used.", remaining_steps=len(self._steps)
            )

    async def get_response(
        self, system_instructions: str | None, input: Any, *others: Any, **named: Any
    ) -> ModelResponse:
        step, _ = await self._take(_call(False, system_instructions, input, *others, **named))
        return self._response(step)

    async def stream_response(
        self, system_instructions: str | None, input: Any, *others: Any, **named: Any
    ) -> AsyncIterator[Any]:
        step, call = await self._take(_call(True, system_instructions, input, *others, **named))
        if step.stream_events is None:
            for event in events_of(self._response(step)):
                yield event
            return
        events = step.stream_events(call) if callable(step.stream_events) else step.stream_events
        if hasattr(events, "__aiter__"):
            async for event in events:
                yield event
        else:
            for event in events:
                yield event

    def _response(self, step: ModelStep) -> ModelResponse:
        usage = step.usage
        if self._default_usage is not None and as_usage(usage) == Usage():
            usage = self._default_usage
        return ModelResponse(list(step.output), as_usage(usage), step.response_id, step.request_id)

    async def _take(self, call: ModelCall) -> tuple[ModelStep, ModelCall]:
        self._calls.append(call)
        if not self._steps:
            kind = "streaming" if call.streamed else "non-streaming"
            raise UnexpectedModelCall(
                f"Unexpected {kind} model call #{len(self._calls)}: no scripted steps remain.",
                call=call,
                call_index=len(self._calls) - 1,
            )
        step = self._steps.popleft()
        if step.responder is not None:
            found = step.responder(call)
            step = _step(await found if inspect.isawaitable(found) else found, 0)
        self._retry_advice = step.retry_advice
        if step.error is not None:
            raise step.error
        return step, call


def _call(streamed: bool, system_instructions: str | None, input: Any, *others: Any, **named: Any) -> ModelCall:
    names = ("model_settings", "tools", "output_schema", "handoffs", "tracing")
    given = {**dict.fromkeys(names), **dict(zip(names, others, strict=False)), **named}
    known = {name: given.get(name) for name in (*names, "previous_response_id", "conversation_id", "prompt")}
    known |= {"tools": list(given["tools"] or []), "handoffs": list(given["handoffs"] or [])}
    return ModelCall(system_instructions, copy.deepcopy(input), streamed=streamed, **known)  # type: ignore[arg-type]


def _step(given: Any, index: int) -> ModelStep:
    if isinstance(given, ModelStep):
        return given
    if isinstance(given, Exception):
        return ModelStep(error=given)
    if isinstance(given, ModelResponse):
        return ModelStep(given.output, given.usage, given.response_id, given.request_id)
    if isinstance(given, Mapping) and not set(given) - _STEP_FIELDS:
        return ModelStep(**given)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return ModelStep(list(given))
    raise InvalidModelStep(f"Step {index} of a script is a ModelStep, a list of items or an error.", input_index=index)


def function_call(
    name: str,
    arguments: str | Mapping[str, Any],
    *,
    call_id: str,
    item_id: str | None = None,
    namespace: str | None = None,
) -> Any:
    """A call as a model makes it."""
    from openai.types.responses import ResponseFunctionToolCall

    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    extra = {key: each for key, each in (("id", item_id), ("namespace", namespace)) if each is not None}
    return ResponseFunctionToolCall(name=name, arguments=text, call_id=call_id, type="function_call", **extra)  # type: ignore[arg-type]


def assistant_message(text: str, *, item_id: str = "scripted-message") -> Any:
    """A message as a model gives it."""
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    part = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id=item_id, type="message", role="assistant", content=[part], status="completed")

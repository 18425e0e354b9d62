"""The provider's script: what it does with each request that asks a model, whichever API the request came by.

A step is a list of items in the shape of the Responses API, a `ModelStep`, one of the functions below, or a function of
the request that returns one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from placet.facts.errors import UserError
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.testing.provider.gate import Gate
from placet.testing.provider.recording import ProviderRequest
from placet.testing.scripted import ModelStep

Stop: TypeAlias = Literal["max_output_tokens", "content_filter"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, without any wire's shape."""

    output: Sequence[Any] = ()  # Any: items as dicts, or objects of the `openai` package
    response_id: str | None = None
    usage: Usage | None = None
    stopped: Stop | None = None
    """The answer is incomplete, for this reason."""
    failure: tuple[str, str] | None = None
    """The response was begun and failed: code and message. Only the Responses API has such responses."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body: what a newer version of the API may add."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A body, or the events of a stream, exactly as given: for shapes that no script can describe."""

    body: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """What the client sees instead of the answer."""

    shows: Literal["status", "cut", "silence", "not_json", "empty"]
    status: int = 500
    message: str = ""
    code: str | None = None
    kind: str = "server_error"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderStep:
    """What happens to one request: whether it is taken, what is answered, and how that travels."""

    answer: Answer | Raw | None = None
    """None: the service does not take the request. Otherwise it keeps the answer, even if a fault hides it."""
    fault: Fault | None = None
    cut_after: int | None = None
    """The connection ends after so many events of the stream."""
    pause: float = 0.0
    piece: int | None = None
    """Bytes sent at once."""
    gate: Gate | None = None
    gate_before: int = 0
    kept: bool = True
    """The service remembers the request and its answer."""
    error: tuple[str, str | None] | None = None
    """Where the stream is cut, it says why: message and code."""


Step: TypeAlias = "ProviderStep | ModelStep | Sequence[Any] | Callable[[ProviderRequest], Step]"
Output: TypeAlias = "ProviderStep | ModelStep | Sequence[Any]"


def as_step(step: Step, request: ProviderRequest) -> ProviderStep:
    """The step in full; a function is asked."""
    for _ in range(10):
        if not callable(step):
            return _plain_step(step)
        step = step(request)
    raise UserError("A step of the provider's script is a function that keeps returning functions.")


def _plain_step(step: Output) -> ProviderStep:
    if isinstance(step, ProviderStep):
        return step
    if isinstance(step, ModelStep):
        if step.raises is not None:
            raise UserError(
                "A provider cannot raise into its client: write a fault such as server_error() or connection_cut() "
                "in place of ModelStep(raises=…)."
            )
        return ProviderStep(Answer(step.output, step.response_id, step.usage))
    if isinstance(step, ModelResponse):
        return ProviderStep(Answer(step.output, step.response_id, step.usage))
    if isinstance(step, str | bytes | dict):
        raise UserError(f"A step of the provider's script is a list of items, a ModelStep or a fault, not {step!r}.")
    return ProviderStep(Answer(step))


def _taken(step: Output | None) -> ProviderStep:
    return ProviderStep() if step is None else _plain_step(step)


# -- answers ----------------------------------------------------------------------------------------------------------


def incomplete(output: Sequence[Any], reason: Stop = "max_output_tokens") -> ProviderStep:
    """The model was stopped: what it had said, and why it said no more."""
    return ProviderStep(Answer(output, stopped=reason))


def failed(message: str = "The model failed.", *, code: str = "server_error") -> ProviderStep:
    """A response that was begun and then failed, with status 200: only the Responses API answers so."""
    return ProviderStep(Answer(failure=(code, message)))


def raw(body: Any) -> ProviderStep:
    """This body, or these events of a stream (a list), unchecked and as they are."""
    return ProviderStep(Raw(body))


def held(output: Output, gate: Gate, *, before_event: int = 0) -> ProviderStep:
    """The answer waits for the gate: before its first byte, or before an event of its stream."""
    return replace(_plain_step(output), gate=gate, gate_before=before_event)


def slow(output: Output, *, seconds: float = 0.001, piece: int = 7) -> ProviderStep:
    """The answer comes in small pieces of bytes, with a pause before each."""
    return replace(_plain_step(output), pause=seconds, piece=piece)


def stream_cut(output: Output, *, after: int = 3, kept: bool = True) -> ProviderStep:
    """The stream ends in the middle, after so many events; an answer that is not streamed, in the middle of its body.

    The service has its answer all the same, unless `kept` says no.
    """
    return replace(_plain_step(output), cut_after=after, kept=kept)


def stream_error(
    output: Output, *, after: int = 3, message: str = "The server had an error.", code: str | None = "server_error"
) -> ProviderStep:
    """The stream turns into an error after so many events; the service forgets what it had begun to say."""
    return replace(_plain_step(output), cut_after=after, kept=False, error=(message, code))


# -- faults: with `answered` the service takes the request and answers, and the client never hears of it ---------------


def rate_limited(retry_after: float | None = None, *, message: str = "Too many requests.") -> ProviderStep:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    fault = Fault("status", 429, message, "rate_limit_exceeded", "rate_limit_error", headers)
    return ProviderStep(fault=fault)


def server_error(
    status: int = 500,
    *,
    message: str = "The server had an error.",
    retry_after: float | None = None,
    answered: Output | None = None,
) -> ProviderStep:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return replace(_taken(answered), fault=Fault("status", status, message, None, "server_error", headers))


def conversation_locked(*, status: int = 400) -> ProviderStep:
    """Somebody else's response in the conversation is not complete yet."""
    message = "Another response is being made in this conversation. Try again in a few seconds."
    return ProviderStep(fault=Fault("status", status, message, "conversation_locked", "invalid_request_error"))


def no_answer(*, answered: Output | None = None) -> ProviderStep:
    """The connection stands, and nothing comes, until the client gives up."""
    return replace(_taken(answered), fault=Fault("silence"))


def connection_cut(*, answered: Output | None = None) -> ProviderStep:
    """The connection ends before the first byte of an answer: before the request was taken, or after."""
    return replace(_taken(answered), fault=Fault("cut"))


def not_json(*, answered: Output | None = None) -> ProviderStep:
    """Status 200 with a body that is not JSON, such as a proxy's error page."""
    return replace(_taken(answered), fault=Fault("not_json", 200))


def empty_body(*, answered: Output | None = None) -> ProviderStep:
    """Status 200 and nothing else."""
    return replace(_taken(answered), fault=Fault("empty", 200))

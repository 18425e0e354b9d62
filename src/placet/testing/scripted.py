"""A model that answers from a script and remembers what it was asked: for tests, demos and benchmarks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from placet.facts.codec import JsonObject
from placet.facts.events import Usage
from placet.facts.items import ModelResponse, text_of
from placet.ports import ModelRequest, RawEvent, Reconciled, StreamPart


def function_call(
    name: str, arguments: str | Mapping[str, Any] | None = None, *, call_id: str | None = None, **extra: Any
) -> JsonObject:
    """A call as a model makes it.

    `arguments` may be a mapping or the JSON text itself, malformed if a test wants that.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    item: JsonObject = {"type": "function_call", "name": name, "arguments": text, **extra}
    if call_id is not None:
        item["call_id"] = call_id
    return item


def assistant_message(text: str, *, item_id: str | None = None) -> JsonObject:
    item: JsonObject = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    if item_id is not None:
        item["id"] = item_id
    return item


def reasoning(text: str, *, item_id: str = "rs_1") -> JsonObject:
    return {"type": "reasoning", "id": item_id, "summary": [{"type": "summary_text", "text": text}]}


@dataclass(slots=True)
class ModelStep:
    """One answer of the script: items, or an error."""

    output: Sequence[Any] = ()
    response_id: str | None = None
    """By default resp_1, resp_2, … in the order of the answers."""
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    raises: BaseException | None = None
    """Raise this instead of answering."""
    delivered: bool | None = False
    """With `raises`, what a server conversation shows afterwards: the request was taken (True), it was not (False),
    cannot be told (None)."""


Step: TypeAlias = ModelStep | BaseException | Sequence[Any] | Callable[[ModelRequest], ModelStep]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A request that the model got."""

    input: list[JsonObject]
    previous_response_id: str | None
    conversation_id: str | None
    request: ModelRequest


class ScriptedModel:
    """Answers with its steps, one after the other.

    A step may be a `ModelStep`, a list of items, an error, or a function of the request.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps: list[Step] = list(steps)
        self._has_functions = any(callable(step) for step in steps)
        self._next = 0
        self._answers = 0
        self._unsettled: tuple[list[JsonObject], bool | None] | None = None
        self.calls: list[RecordedCall] = []

    @property
    def leaves_input_alone(self) -> bool:
        """Its requests need no copies, unless a step is a function: that may do anything with them."""
        return not self._has_functions

    def add(self, *steps: Step) -> None:
        self._steps.extend(steps)
        self._has_functions = any(callable(step) for step in self._steps)

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        self.calls.append(RecordedCall(request.input, request.previous_response_id, request.conversation_id, request))
        step = self._take(request)
        if step.raises is not None:
            self._unsettled = (request.input, step.delivered)
            raise step.raises
        self._answers += 1
        return ModelResponse(list(step.output), step.usage, step.response_id or f"resp_{self._answers}")

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """The same answer, with each text word by word before it."""
        response = await self.get_response(request)
        for item in response.output:
            if isinstance(item, dict) and item.get("type") == "message":
                for word in text_of(item).split(" "):
                    yield RawEvent({"type": "response.output_text.delta", "delta": word})
        yield response

    async def find_request(self, request: ModelRequest) -> Reconciled | None:
        """What the conversation shows of the last request that failed: as its step says."""
        if self._unsettled is None:
            return None
        _, delivered = self._unsettled
        return None if delivered is None else Reconciled(taken=delivered)

    def assert_complete(self) -> None:
        """All steps were used."""
        left = len(self._steps) - self._next
        assert left == 0, f"{left} of {len(self._steps)} scripted steps were not used"

    def _take(self, request: ModelRequest) -> ModelStep:
        if self._next >= len(self._steps):
            raise AssertionError(
                f"The script has {len(self._steps)} steps, and the model was asked once more, "
                f"with {len(request.input)} items: "
                f"{json.dumps(request.input)[-400:]}"
            )
        step = self._steps[self._next]
        self._next += 1
        if isinstance(step, ModelStep):
            return step
        if isinstance(step, BaseException):
            return ModelStep(raises=step)
        return step(request) if callable(step) else ModelStep(step)

"""A strict provider: answers from a script, keeps what a server would keep, and complains of everything that is not
exactly what it should have been sent.

It shares no code with the runtime, so that the two can be held against each other.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

from placet import ModelRequest, ModelResponse, RawEvent, Reconciled, RequestNotTaken, Usage
from tests.generated.script import Failure, Script

Item: TypeAlias = dict[str, Any]

INPUT: Item = {"role": "user", "content": "Begin."}
RESPONSE_BEFORE = "resp_before"
CONVERSATION = "conv_1"


class Refused(AssertionError):
    """What was sent is not what a strict provider takes."""


class StrictProvider:
    """The model of one run."""

    def __init__(self, script: Script, *, client_may_forget: bool = False) -> None:
        self._script = script
        self._client_may_forget = client_may_forget
        """The client may die with an answer in its hands: then it asks once more, from where it stood before."""
        self._before: dict[str, Any] | None = None
        self._taken: tuple[list[Item], ModelResponse | None] = ([], None)
        """The newest request that was taken, and the answer to it."""
        self.forgotten = 0
        """How many answers were given in vain."""
        self._failures: list[Failure] = list(script.turns[0].failures)
        self._lost: tuple[list[Item], Reconciled | None] | None = None
        self._responses = 0
        self._held: list[Item] = []
        """The history, as the client keeps it or as the server does: what was taken and answered."""
        self._settled = 0
        """How much of it the client has already shown: that may not change any more."""
        self._is_open = False
        """The conversation took input and has not answered it yet."""
        self._last_id = RESPONSE_BEFORE if script.delivery == "chained" else None
        self.answered = 0
        """How many turns the client got an answer for."""
        self.carried: list[list[Any]] = []
        """For each of them but the first, the outputs that the answered (or taken) request carried."""
        self.last_failure: Failure | None = None
        self.complaints: list[str] = []
        self.requests: list[tuple[list[Item], str | None, str | None]] = []
        """What was answered or taken, for comparisons."""
        self.lookups = 0

    # -- the port -----------------------------------------------------------------------------------------------------

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0)
        response = self._respond(request)
        await asyncio.sleep(0)
        return response

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield RawEvent({"type": "response.created"})
        response = self._respond(request)
        yield RawEvent({"type": "response.output_text.delta", "delta": "…"})
        await asyncio.sleep(0)
        yield response

    async def find_request(self, request: ModelRequest) -> Reconciled | None:
        await asyncio.sleep(0)
        self.lookups += 1
        if self._lost is None and self._client_may_forget:
            taken, response = self._taken
            return Reconciled(taken=True, response=response) if request.input == taken else Reconciled(taken=False)
        if self._script.delivery != "conversation" or self._lost is None:
            raise self._complaint("was asked about a lost request although there is none")
        lost, answer = self._lost
        if request.input != lost or request.conversation_id != CONVERSATION:
            raise self._complaint(f"was asked about {request.input}, and what was lost is {lost}")
        if answer is not None and answer.response is not None:
            self._advance()
        return copy.deepcopy(answer)

    # -- what the truth is, for a person who has to settle a request --------------------------------------------------

    @property
    def lost_was_taken(self) -> bool:
        return self.last_failure == "unknown_taken"

    def will_fail(self) -> bool:
        return bool(self._failures)

    # -- answering ----------------------------------------------------------------------------------------------------

    def _respond(self, request: ModelRequest) -> ModelResponse:
        self._go_back_for_a_client_that_forgot(request)
        if self.answered >= len(self._script.turns):
            raise self._complaint("was asked again after its last answer")
        self._check(request)
        failure = self._failures.pop(0) if self._failures else None
        self.last_failure = failure
        match failure:
            case None:
                self._before = self._standing()
                self._take(request)
                response = self._answer()
                self._advance()
                return response
            case "refused":
                raise RequestNotTaken("come back later")
            case "lost" | "unknown_lost":
                self._lose(request, None if failure == "unknown_lost" else Reconciled(taken=False))
            case "lost_taken" | "unknown_taken":
                self._take_in_conversation(request)
                self._lose(request, None if failure == "unknown_taken" else Reconciled(taken=True))
            case "lost_answered":
                self._take(request)
                self._lose(request, Reconciled(taken=True, response=self._answer()))
            case "nonsense":
                self._take_in_conversation(request)
        self._responses += 1
        return ModelResponse([], Usage(requests=1), f"resp_{self._responses}")

    def _lose(self, request: ModelRequest, answer: Reconciled | None) -> None:
        self._lost = (request.input, answer)
        self._responses += 1  # an answer that never arrived has an id too
        raise ConnectionError("the connection broke")

    def _take_in_conversation(self, request: ModelRequest) -> None:
        """Elsewhere, what was taken without an answer is a branch that nobody goes on from."""
        if self._script.delivery == "conversation":
            self._take(request)

    def _take(self, request: ModelRequest) -> None:
        self.requests.append((copy.deepcopy(request.input), request.previous_response_id, request.conversation_id))
        self._taken = (copy.deepcopy(request.input), None)
        outputs = [item["output"] for item in self._new(request) if item.get("type") == "function_call_output"]
        if self._script.delivery == "own":
            self._held = copy.deepcopy(request.input)
            self._settled = len(self._held)
        else:
            self._held += copy.deepcopy(request.input)
        if self.answered and len(self.carried) < self.answered:
            self.carried.append(outputs)
        self._is_open = True

    def _answer(self) -> ModelResponse:
        self._responses += 1
        self._last_id = f"resp_{self._responses}"
        output = self._script.turns[self.answered].output()
        self._held += copy.deepcopy(output)
        self._is_open = False
        response = ModelResponse(output, Usage(requests=1), self._last_id)
        self._taken = (self._taken[0], response)
        return response

    def _advance(self) -> None:
        self._lost = None
        self.answered += 1
        if self.answered < len(self._script.turns):
            self._failures = list(self._script.turns[self.answered].failures)

    # -- a client that may forget -------------------------------------------------------------------------------------

    def _standing(self) -> dict[str, Any]:
        names = ("_held", "_settled", "_is_open", "_last_id", "_failures", "answered", "carried", "requests")
        return {name: copy.copy(getattr(self, name)) for name in names}

    def _go_back_for_a_client_that_forgot(self, request: ModelRequest) -> None:
        """Where the provider keeps no conversation, the answer that was given in vain is a branch that is abandoned."""
        if not self._client_may_forget or self._before is None or self._script.delivery == "conversation":
            return
        asked, previous, _ = self.requests[-1]
        if (request.input, request.previous_response_id) == (asked, previous):
            for name, value in self._before.items():
                setattr(self, name, value)
            self._before = None
            self.forgotten += 1

    # -- checking -----------------------------------------------------------------------------------------------------

    def _check(self, request: ModelRequest) -> None:
        delivery = self._script.delivery
        wanted_conversation = CONVERSATION if delivery == "conversation" else None
        wanted_previous = self._last_id if delivery in ("chained", "auto") else None
        if (request.conversation_id, request.previous_response_id) != (wanted_conversation, wanted_previous):
            raise self._complaint(
                f"was asked in {request.conversation_id} after {request.previous_response_id}, "
                f"not in {wanted_conversation} after {wanted_previous}"
            )
        new = self._new(request)
        if self._is_open:
            if new:
                raise self._complaint(f"holds the outputs already, and was sent {new}")
        elif self.answered == 0:
            if new != [INPUT]:
                raise self._complaint(f"should have been sent the input, and was sent {new}")
        else:
            self._check_outputs(new)
        if delivery == "own":
            self._check_pairs(request.input)

    def _new(self, request: ModelRequest) -> list[Item]:
        """What is new in the request; where the client keeps the history, the rest must be as it was."""
        if self._script.delivery != "own":
            return request.input
        old, new = request.input[: len(self._held)], request.input[len(self._held) :]
        settled, fresh = self._held[: self._settled], self._held[self._settled :]
        if old[: self._settled] != settled or list(map(unlabelled, old[self._settled :])) != list(
            map(unlabelled, fresh)
        ):
            raise self._complaint(f"knows the history as {self._held}, and was sent {old}")
        return new

    def _check_outputs(self, new: Sequence[Item]) -> None:
        """Exactly one output for each call of the last answer, in the order of the calls, and nothing else."""
        calls = [call.label for call in self._script.turns[self.answered - 1].calls]
        if [item.get("type") for item in new] != ["function_call_output"] * len(calls):
            raise self._complaint(f"waits for {len(calls)} outputs, and was sent {list(new)}")
        if self._script.delivery == "own":
            return  # there the labels are made unique: `_check_pairs` looks at them
        for label, item in zip(calls, new, strict=True):
            if not item["call_id"] or (label and item["call_id"] != label):
                raise self._complaint(f"waits for an output under {label!r}, and was sent {item}")

    def _check_pairs(self, items: Sequence[Item]) -> None:
        """Every call has a label of its own and exactly one output, after it."""
        waiting: list[str] = []
        seen: set[str] = set()
        for item in items:
            label = item.get("call_id", "")
            if item.get("type") == "function_call":
                if not label or label in seen:
                    raise self._complaint(f"was sent the label {label!r} twice, or an empty one")
                seen.add(label)
                waiting.append(label)
            elif item.get("type") == "function_call_output":
                if not waiting or waiting.pop(0) != label:
                    raise self._complaint(f"was sent an output under {label!r} out of order, twice, or without a call")
            elif waiting:
                raise self._complaint(f"was sent calls without outputs: {waiting}")
        if waiting:
            raise self._complaint(f"was sent calls without outputs: {waiting}")

    def _complaint(self, what: str) -> Refused:
        self.complaints.append(f"at turn {self.answered + 1} the provider {what}")
        return Refused(self.complaints[-1])


def unlabelled(item: Item) -> Item:
    """The item without its label, if it is a call: a repeated or missing one is replaced when it is first sent."""
    return {**item, "call_id": None} if item.get("type") == "function_call" else item

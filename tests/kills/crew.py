"""What the tests of sudden death share: agents with gated, parallel and nested calls that recover in each of the ways
that there are, a model that notices what is missing from its history, and a reviewer who looks before answering.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from placet import Agent, DidNotHappen, Happened, ModelResponse, PlacetError, ToolContext, Usage, function_tool
from placet.desk import Desk, DeskRequest
from placet.facts.codec import JsonObject
from placet.facts.ids import key_of_request
from placet.ports import ModelRequest, StreamPart
from placet.testing import assistant_message, function_call
from tests.desk.scenes import Witness

REJECTED = 4
"""The number of the call that reviewers refuse."""
ONCE = ("pay 1", "book 3", "ship 5", "pay 7", "book 8")
"""Effects that happen exactly once, however often their workers die."""
AT_LEAST_ONCE = ("note 2", "look 6")
"""Effects of tools that say that they are safe to repeat."""
BRIEFLY = 0.004
"""How long a body works before and after its effect."""


def call(tool: str, number: int) -> JsonObject:
    return function_call(tool, {"number": number}, call_id=f"c{number}")


class Watchful:
    """A model without a memory that takes its history for all there is, and tells the witness what is wrong with it."""

    leaves_input_alone = True

    def __init__(self, witness: Witness, *turns: Sequence[JsonObject]) -> None:
        self._witness = witness
        self._turns = turns

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        made = [item["call_id"] for item in request.input if item.get("type") == "function_call"]
        answered = [item["call_id"] for item in request.input if item.get("type") == "function_call_output"]
        if sorted(map(str, made)) != sorted(map(str, answered)):
            self._witness.write(f"complaint: calls {made}, outputs {answered}")
        for item in request.input:
            self._judge(item)
        left = len(made)
        for turn in self._turns:
            if left == 0:
                return ModelResponse(list(turn), Usage(1), None)
            left -= len(turn)
        return ModelResponse([assistant_message("done")], Usage(1), None)

    def _judge(self, item: JsonObject) -> None:
        """The right output stands under each call."""
        if item.get("type") == "function_call_output":
            number = str(item["call_id"]).removeprefix("c")
            expected = {"done"} if number == "0" else {f"did {number}", "known"}
            if item["output"] not in (expected if number != str(REJECTED) else {"no"}):
                self._witness.write(f"complaint: {item}")

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


def lead(witness: Witness, seconds: float = BRIEFLY) -> Agent[Any]:
    async def work(kind: str, number: int, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(seconds)
        witness.write(f"{kind} {number} {ctx.idempotency_key}")
        await asyncio.sleep(seconds)
        return f"did {number}"

    async def look_it_up(ctx: ToolContext[Any], arguments: JsonObject) -> Happened | DidNotHappen:
        happened = any(line.endswith(f" {ctx.idempotency_key}") for line in witness.lines())
        return Happened(f"did {arguments['number']}") if happened else DidNotHappen()

    @function_tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any], number: int) -> str:
        return await work("pay", number, ctx)

    @function_tool(needs_approval=True)
    async def ship(ctx: ToolContext[Any], number: int) -> str:
        return await work("ship", number, ctx)

    @function_tool(needs_approval=True, recovery=look_it_up)
    async def book(ctx: ToolContext[Any], number: int) -> str:
        return await work("book", number, ctx)

    @function_tool(recovery="retry")
    async def note(ctx: ToolContext[Any], number: int) -> str:
        return await work("note", number, ctx)

    @function_tool(recovery="retry")
    async def look(ctx: ToolContext[Any], number: int) -> str:
        return await work("look", number, ctx)

    clerk = Agent("Clerk", tools=[ship, look], model=Watchful(witness, [call("ship", 5), call("look", 6)]))
    ask_clerk = clerk.as_tool(tool_name="ask_clerk", tool_description="Ask the clerk.")
    first = [
        call("pay", 1),
        call("note", 2),
        function_call("ask_clerk", {"input": "ship it"}, call_id="c0"),
        call("pay", REJECTED),
        call("book", 3),
    ]
    return Agent(
        "Lead",
        tools=[pay, note, book, ask_clerk],
        model=Watchful(witness, first, [call("pay", 7), call("book", 8)]),
    )


async def review(desk: Desk, witness: Witness, run_id: str | None = None) -> int:
    """Decide everything that waits, one by one; how much it was. What is in doubt is looked up in the witness."""
    asked = await desk.pending(run_id=run_id)
    for request in asked:
        try:
            await _decide(desk, witness, request)
        except PlacetError as error:  # somebody else decided, or it is void: the next look tells
            if error.code not in ("stale_approval", "not_pending", "run_finished"):
                raise
    return len(asked)


async def _decide(desk: Desk, witness: Witness, request: DeskRequest) -> None:
    if request.kind == "in_doubt":
        key = key_of_request(request.id).partition("#")[0]
        happened = any(line.endswith(f" {key}") for line in witness.lines())
        await desk.decide(request.id, "respond" if happened else "approve", by="reviewer", output=happened and "known")
    elif request.arguments == {"number": REJECTED}:
        await desk.decide(request.id, "reject", by="reviewer", message="no")
    else:
        await desk.decide(request.id, "approve", by="reviewer")


def problems_with(witness: Witness, runs: Sequence[str]) -> list[str]:
    """What must not be, seen from outside: effects missing, repeated or forbidden, and models that complain."""
    lines = witness.lines()
    found = [line for line in lines if line.startswith("complaint")]
    done: dict[str, Counter[str]] = {run_id: Counter() for run_id in runs}
    for line in lines:
        if not line.startswith("complaint"):
            kind, number, key = line.split()
            done[key.split(":")[0]][f"{kind} {number}"] += 1
    for run_id, counts in done.items():
        found += [f"{run_id}: {each} happened {counts[each]} times" for each in ONCE if counts[each] != 1]
        found += [f"{run_id}: {each} never happened" for each in AT_LEAST_ONCE if counts[each] < 1]
        found += [f"{run_id}: {each} must not happen" for each in counts if each not in (*ONCE, *AT_LEAST_ONCE)]
    return found


def as_words(found: list[str]) -> str:
    return json.dumps(found, indent=1)

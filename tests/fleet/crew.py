"""The agents of the soak, as a worker loads them: what a run does stands in its first message, what happens in a file.

The file is the witness: it lies outside of everything that Placet keeps, and each effect is one line in it, with the
key of its call. Which answer a model gives is told by the history alone, so that any worker can ask it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from placet import Agent, DidNotHappen, Happened, ModelResponse, RunContextWrapper, ToolContext, Usage, function_tool
from placet.facts.codec import JsonObject
from placet.facts.items import text_of
from placet.ports import ModelRequest, StreamPart
from placet.testing import assistant_message, function_call
from tests.desk.scenes import Witness

WITNESS = "PLACET_SOAK_WITNESS"


def witness() -> Witness:
    return Witness(Path(os.environ[WITNESS]))


def happened(key: str) -> int:
    """How often the witness saw this effect."""
    return sum(line.split()[1] == key for line in witness().lines())


async def act(kind: str, ctx: ToolContext[Any], amount: int) -> str:
    await asyncio.sleep(0.02)
    witness().write(f"{kind} {ctx.idempotency_key} {amount}")
    await asyncio.sleep(0.02)
    return f"{kind} {amount}"


@function_tool(needs_approval=True)
async def pay(ctx: ToolContext[Any], amount: int) -> str:
    """Nobody can find out afterwards whether it happened: a person is asked."""
    return await act("pay", ctx, amount)


async def find_out(ctx: RunContextWrapper[Any], arguments: JsonObject) -> Happened | DidNotHappen:
    assert isinstance(ctx, ToolContext)
    return Happened(f"mail {arguments['amount']}") if happened(ctx.idempotency_key) else DidNotHappen()


@function_tool(needs_approval=True, recovery=find_out)
async def mail(ctx: ToolContext[Any], amount: int) -> str:
    """A function finds out whether it happened."""
    return await act("mail", ctx, amount)


@function_tool(recovery="retry")
async def note(ctx: ToolContext[Any], amount: int) -> str:
    """Whoever receives it honours the key: it may be done again."""
    return await act("note", ctx, amount)


@function_tool
async def look(ctx: ToolContext[Any], amount: int) -> str:
    """Free to run, and a person is asked when nobody knows whether it did."""
    return await act("look", ctx, amount)


@function_tool(recovery=find_out)
async def linger(ctx: ToolContext[Any], amount: int) -> str:
    """Takes longer than a lease lasts, after its effect."""
    await act("linger", ctx, amount)
    await asyncio.sleep(4.0)
    return f"linger {amount}"


class Scripted:
    """Reads the turns from the first message: `pay look|mail`."""

    leaves_input_alone = True

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        made = sum(item.get("type") == "function_call" for item in request.input)
        for number, turn in enumerate(text_of(request.input[0]).split("|")):
            calls = turn.split()
            if made == 0:
                items = [
                    function_call(name, {"amount": 10 * number + place}, call_id=f"c{number}{place}")
                    for place, name in enumerate(calls)
                ]
                return ModelResponse(items, Usage(1), None)
            made -= len(calls)
        return ModelResponse([assistant_message("done")], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


def crew(name: str) -> Agent[Any]:
    return Agent(name, tools=[pay, mail, note, look, linger], model=Scripted())


agents = [crew("Crew"), crew("Night shift")]

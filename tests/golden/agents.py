"""The agent of the golden files. Its tools' names and parameters must stay as they are: stored states know them."""

from __future__ import annotations

import asyncio
from typing import Any

from placet import Agent, NeedsInput, ToolContext, function_tool

BUDGET = {
    "mode": "form",
    "message": "How much may it cost? 😀",
    "requestedSchema": {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]},
}


def clerk(model: Any, started: asyncio.Event | None = None, ran: list[Any] | None = None) -> Agent[Any]:
    """`started`: the body of `transfer` sets it and never returns. `ran` learns what ran."""
    log = ran if ran is not None else []

    @function_tool(needs_approval=True)
    async def refund(order: int, note: str = "") -> str:
        log.append(("refund", order, note))
        return f"refunded {order}"

    @function_tool
    async def lookup(order: int) -> str:
        log.append(("lookup", order))
        return f"order {order}: 12 EUR"

    @function_tool(needs_approval=True)
    async def wipe(path: str) -> str:
        log.append(("wipe", path))
        return "wiped"

    @function_tool
    async def transfer(ctx: ToolContext[Any], order: int) -> str:
        log.append(("transfer", order))
        if started is not None:
            started.set()
            await asyncio.Event().wait()
        return f"transferred {order}"

    @function_tool
    async def book(ctx: ToolContext[Any], city: str) -> Any:
        if ctx.answers is None:
            return NeedsInput({"budget": BUDGET}, state=f"draft of {city}")
        log.append(("book", city, ctx.answers, ctx.asked_state))
        return f"booked in {city}"

    return Agent("Golden clerk", tools=[refund, lookup, wipe, transfer, book], model=model)

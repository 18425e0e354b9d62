"""Teams before and after a deploy that took something away: a tool, an agent, a handoff, a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from placet import Agent, function_tool
from placet.declare.tool import Tool
from placet.facts.errors import ToolsetUnavailable
from placet.testing import function_call
from tests.desk.scenes import Planned


@function_tool(needs_approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    raise AssertionError("nobody approved it")


PAYS = [function_call("pay", {"cents": 5}, call_id="c1")]


class Server:
    """Where a tool comes from; it may be away."""

    name = "shop"

    def __init__(self, *, is_away: bool) -> None:
        self._is_away = is_away

    async def tools_for(self, _context: Any, _agent: Any) -> Sequence[Tool]:
        if self._is_away:
            raise ToolsetUnavailable("The shop is away.")
        return [pay]

    def last_listed(self) -> Sequence[Tool]:
        return []

    def in_use(self) -> AbstractAsyncContextManager[object]:
        return self._used()

    @asynccontextmanager
    async def _used(self) -> Any:
        yield self


def _tool(*, is_there: bool) -> Agent[Any]:
    return Agent("Front", tools=[pay] if is_there else [], model=Planned(PAYS))


def _nested_tool(*, is_there: bool) -> Agent[Any]:
    inner = Agent("Inner", tools=[pay] if is_there else [], model=Planned(PAYS))
    asks = [function_call("ask", {"input": "pay"}, call_id="c0")]
    return Agent("Front", tools=[inner.as_tool("ask")], model=Planned(asks))


def _nested_agent(*, is_there: bool) -> Agent[Any]:
    inner = Agent("Inner" if is_there else "Another", tools=[pay], model=Planned(PAYS))
    asks = [function_call("ask", {"input": "pay"}, call_id="c0")]
    return Agent("Front", tools=[inner.as_tool("ask")] if is_there else [], model=Planned(asks))


def _handoff(*, is_there: bool) -> Agent[Any]:
    goes = [function_call("transfer_to_billing", {}, call_id="h1")]
    billing = Agent("Billing", tools=[pay], model=Planned(goes, PAYS))
    return Agent("Front", handoffs=[billing] if is_there else [], model=Planned(goes))


def _agent(*, is_there: bool) -> Agent[Any]:
    return Agent("Front" if is_there else "Renamed", tools=[pay], model=Planned(PAYS))


def _server(*, is_there: bool) -> Agent[Any]:
    return Agent("Front", mcp_servers=[Server(is_away=not is_there)], model=Planned(PAYS))


CHANGES: dict[str, Callable[..., Agent[Any]]] = {
    "a tool is gone": _tool,
    "a tool of a nested agent is gone": _nested_tool,
    "a nested agent is gone": _nested_agent,
    "a handoff is gone": _handoff,
    "the agent was renamed": _agent,
    "a server is away": _server,
}

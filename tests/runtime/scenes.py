"""What the tests of this folder share: tools that remember their runs, agents with a script, small drives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from placet import Agent, FunctionTool, MemoryStore, Runner, RunState, ToolContext, function_tool
from placet.testing import ScriptedModel, assistant_message, function_call

PATIENCE = 90.0
"""Seconds that a test waits for something that happens at once, before it gives up."""


def shown(value: object) -> str:
    """A value as the name of a test's case: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class OwnStore(MemoryStore):
    """A store for one test."""


class Tools:
    """Tools, and what ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def free(self, name: str = "look", **options: Any) -> FunctionTool:
        @function_tool(name_override=name, **options)
        async def body(n: int = 0) -> str:
            self.ran.append((name, n))
            return f"{name} {n}"

        return body

    def gated(self, name: str = "pay", **options: Any) -> FunctionTool:
        return self.free(name, **{"needs_approval": True, **options})


def scripted(steps: Sequence[Any], *tools: FunctionTool, name: str = "Clerk", **options: Any) -> Agent[Any]:
    """An agent whose model answers with these steps."""
    return Agent(name, tools=list(tools), model=ScriptedModel(steps), **options)


def model_of(agent: Agent[Any]) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def call(name: str, n: int | None = None, label: str | None = None) -> dict[str, Any]:
    return function_call(name, {} if n is None else {"n": n}, call_id=label)


def done(text: str = "done") -> list[Any]:
    return [assistant_message(text)]


def outputs(agent: Agent[Any], request: int = -1) -> list[Any]:
    """The outputs that a request carried, in order."""
    items = model_of(agent).calls[request].input
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


async def go(agent: Agent[Any], given: Any, streamed: bool = False, **options: Any) -> Any:
    """Run, streamed or not, to the end of the drive."""
    if not streamed:
        return await asyncio.wait_for(Runner.run(agent, given, **options), PATIENCE)
    result = Runner.run_streamed(agent, given, **options)
    await events_of(result)
    return result


async def events_of(result: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in result.stream_events()]

    return await asyncio.wait_for(read(), PATIENCE)


async def within(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE)


async def reloaded(agent: Agent[Any], state: RunState[Any], **options: Any) -> RunState[Any]:
    """The state after a journey through a text."""
    return await RunState.from_string(agent, state.to_string(), **options)


class Interrupted:
    """A run that was cancelled while the body of `pay` ran: its call is in doubt. The next body returns."""

    def __init__(self, *, recovery: Any = "ask", needs_approval: Any = False, **options: Any) -> None:
        self.seen: list[Any] = []
        self.contexts: list[Any] = []
        self.started = asyncio.Event()
        self.tool = self._tool(recovery, needs_approval)
        self.agent = scripted([[call("pay", 7, "c1")], done()], self.tool, **options)

    def _tool(self, recovery: Any, needs_approval: Any) -> FunctionTool:

        async def pay(ctx: ToolContext[Any], n: int) -> str:
            self.seen.append(n)
            self.contexts.append(ctx)
            self.started.set()
            if len(self.seen) == 1:
                await asyncio.Event().wait()
            return f"paid {n}"

        return function_tool(recovery=recovery, needs_approval=needs_approval)(pay)

    async def cut(self, given: Any = "go", **options: Any) -> RunState[Any]:
        """Run until the body has begun, cancel, and give the state."""
        result = Runner.run_streamed(self.agent, given, **options)
        await within(self.started.wait())
        result.cancel()
        await events_of(result)
        return result.to_state()

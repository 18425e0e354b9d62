"""What the tests of the promises have in common: an operations agent whose tools leave traces, and a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from placet import Agent, FunctionTool, Runner, RunResult, RunState, Store, ToolApprovalItem, function_tool
from placet.testing import ScriptedModel, assistant_message, function_call

Item = dict[str, Any]
SECONDS = 90

CHAINED = {"previous_response_id": "resp_0"}
AUTO = {"auto_previous_response_id": True}
CONVERSATION = {"conversation_id": "conv_1"}
SERVER_MODES = {"chained": CHAINED, "auto": AUTO, "conversation": CONVERSATION}

DONE = [assistant_message("done")]


@dataclass
class Scene:
    """An agent, the model that plays its script, and what its tools did."""

    agent: Agent[Any]
    model: ScriptedModel
    effects: list[str] = field(default_factory=list)

    def rebuilt(self, *tools: FunctionTool, **changes: Any) -> Agent[Any]:
        """The same agent as another deploy would build it: other objects, perhaps other tools."""
        return self.agent.clone(tools=[*tools] or list(self.agent.tools), **changes)

    def sent(self, request: int) -> list[tuple[str, Any]]:
        """The outputs that a request carried, with their labels."""
        return outputs(self.model.calls[request].input)


def scene(*steps: Any, tools: tuple[FunctionTool, ...] = (), name: str = "ops", **options: Any) -> Scene:
    """`cleanup(path)` and `refund(order)` wait for a person, `diagnose()` is free; `tools` come on top or instead."""
    effects: list[str] = []

    @function_tool(needs_approval=True)
    async def cleanup(path: str) -> str:
        effects.append(f"cleanup {path}")
        return f"cleaned {path}"

    @function_tool(needs_approval=True)
    async def refund(order: int) -> str:
        effects.append(f"refund {order}")
        return f"refunded {order}"

    @function_tool
    async def diagnose() -> str:
        effects.append("diagnose")
        return "disk is full"

    given = {tool.name for tool in tools}
    own = [tool for tool in (cleanup, refund, diagnose) if tool.name not in given]
    model = ScriptedModel(list(steps))
    return Scene(Agent(name=name, tools=[*tools, *own], model=model, **options), model, effects)


def cleanup(path: str, label: str | None = None) -> Item:
    return function_call("cleanup", {"path": path}, call_id=label)


def refund(order: int, label: str | None = None) -> Item:
    return function_call("refund", {"order": order}, call_id=label)


def diagnose(label: str | None = None) -> Item:
    return function_call("diagnose", {}, call_id=label)


def outputs(items: list[Item]) -> list[tuple[str, Any]]:
    return [(item["call_id"], item["output"]) for item in items if item.get("type") == "function_call_output"]


def labels(items: list[Item], kind: str) -> list[str]:
    return [item["call_id"] for item in items if item.get("type") == kind]


def facts(state: RunState[Any] | RunResult) -> list[list[Any]]:
    """The facts of a run's log, in order, each as the list that stands in the log."""
    held = state.to_state() if isinstance(state, RunResult) else state
    return [fact for line in held.to_json()["log"] for fact in line[1]]


def kinds(state: RunState[Any] | RunResult) -> list[str]:
    return [fact[0] for fact in facts(state)]


async def reloaded(agent: Agent[Any], state: RunState[Any] | RunResult, **options: Any) -> RunState[Any]:
    """The state as another process has it: through a string."""
    held = state.to_state() if isinstance(state, RunResult) else state
    return await RunState.from_string(agent, held.to_string(**options), **options)


def item_of(state: RunState[Any] | RunResult, label: str) -> ToolApprovalItem:
    """The one waiting call with this label."""
    held = state.interruptions if isinstance(state, RunResult) else state.get_interruptions()
    (found,) = [item for item in held if item.call_id == label]
    return found


async def drive(agent: Agent[Any], given: Any, *, streamed: bool = False, **options: Any) -> RunResult:
    """Run to the next pause or to the end, streamed or not."""
    if not streamed:
        return await asyncio.wait_for(Runner.run(agent, given, **options), SECONDS)
    result = Runner.run_streamed(agent, given, **options)
    async with asyncio.timeout(SECONDS):
        async for _ in result.stream_events():
            pass
    return result


async def approve_all(agent: Agent[Any], paused: RunResult, **options: Any) -> RunResult:
    """Through a string, every waiting call approved, and on."""
    state = await reloaded(agent, paused)
    for item in state.get_interruptions():
        state.approve(item)
    return await drive(agent, state, **options)


async def outcome_of(awaitable: Awaitable[Any]) -> Any:
    """What came back, or the error that came instead."""
    try:
        return await awaitable
    except Exception as error:  # noqa: BLE001  # the caller looks at it
        return error


async def claims_in(store: Store, run_id: str) -> str:
    """The store's log of a run as one text."""
    stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return "\n".join(line.decode() for line in stored.log.lines)


Body = Callable[..., Awaitable[str]]

"""Hooks: called by a run as it goes. A hook that raises ends the drive; what has happened stays in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import Tool
from placet.facts.codec import JsonObject
from placet.facts.items import ModelResponse, Named

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class RunHooks(Generic[T]):
    """Override what you need; every method does nothing by default."""

    async def on_agent_start(self, context: RunContextWrapper[T], agent: Named) -> None:
        """An agent begins to work: at the start of a run, not at resumption."""

    async def on_agent_end(self, context: RunContextWrapper[T], agent: Named, output: Any) -> None:
        """The run has its final output."""

    async def on_handoff(self, context: RunContextWrapper[T], from_agent: Named, to_agent: Named) -> None:
        """The conversation has gone to another agent."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Named, system_prompt: str | None, input_items: Sequence[JsonObject]
    ) -> None:
        """A model is about to be asked."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Named, response: ModelResponse) -> None:
        """A model has answered, and the answer is in the log."""

    async def on_tool_start(self, context: ToolContext[T], agent: Named, tool: Tool) -> None:
        """A tool function is about to run: its claim is in the log."""

    async def on_tool_end(self, context: ToolContext[T], agent: Named, tool: Tool, result: object) -> None:
        """A tool function has returned."""


class AgentHooks(Generic[T]):
    """The same for one agent (`Agent(hooks=…)`): called only while that agent is at work."""

    async def on_start(self, context: RunContextWrapper[T], agent: Named) -> None:
        """The agent begins to work: at the start of a run, or after a handoff to it."""

    async def on_end(self, context: RunContextWrapper[T], agent: Named, output: Any) -> None:
        """The agent gave the final output."""

    async def on_handoff(self, context: RunContextWrapper[T], agent: Named, source: Named) -> None:
        """The conversation went from this agent (`source`) to another (`agent`)."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Named, system_prompt: str | None, input_items: Sequence[JsonObject]
    ) -> None:
        """The agent's model is about to be asked."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Named, response: ModelResponse) -> None:
        """The agent's model has answered."""

    async def on_tool_start(self, context: ToolContext[T], agent: Named, tool: Tool) -> None:
        """A tool of the agent is about to run."""

    async def on_tool_end(self, context: ToolContext[T], agent: Named, tool: Tool, result: object) -> None:
        """A tool of the agent has returned."""


class AsRunHooks(RunHooks[T]):
    """An agent's hooks as hooks of a run, so that the steps of the loop know one kind only."""

    def __init__(self, hooks: AgentHooks[T]) -> None:
        self._hooks = hooks
        self.on_llm_start = hooks.on_llm_start  # type: ignore[method-assign]  # the same event under the same name
        self.on_llm_end = hooks.on_llm_end  # type: ignore[method-assign]
        self.on_tool_start = hooks.on_tool_start  # type: ignore[method-assign]
        self.on_tool_end = hooks.on_tool_end  # type: ignore[method-assign]

    async def on_agent_start(self, context: RunContextWrapper[T], agent: Named) -> None:
        await self._hooks.on_start(context, agent)

    async def on_agent_end(self, context: RunContextWrapper[T], agent: Named, output: Any) -> None:
        await self._hooks.on_end(context, agent, output)

    async def on_handoff(self, context: RunContextWrapper[T], from_agent: Named, to_agent: Named) -> None:
        await self._hooks.on_handoff(context, to_agent, from_agent)


def has_hook_for(hooks: RunHooks[Any], event: str) -> bool:
    """Whether the hooks have a method for this event: without one, nothing need be copied for it."""
    method = getattr(getattr(hooks, event), "__func__", None)
    return method is not getattr(RunHooks, event) and method is not getattr(AgentHooks, event, None)

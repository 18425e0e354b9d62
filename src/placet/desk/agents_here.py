"""The part of a desk that knows the agents whose code is here, and their tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placet.core.index import RequestRecord
from placet.core.json_schema import TOP
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.tool import Tool
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.ports import DeskStore
from placet.runtime.frame import find_tools, servers_in_use
from placet.service.driving import RunDriver
from placet.service.guest_tools import tool_of_guest


class AgentsHere:
    """Without an agent's code a desk still shows and decides; it cannot start its runs or check arguments."""

    store: DeskStore
    _driver: RunDriver

    def knows(self, agent: str) -> bool:
        """Whether a run of this agent can be started here."""
        return agent in self._driver.agents or (bool(agent) and Agent(name=agent).address in self._driver.agents)

    async def problems_with(self, asked: RequestRecord, arguments: JsonObject) -> list[tuple[str, str]]:
        """What is wrong with arguments for the call that a request is about: (place, what is wrong there).

        A desk without the agent's code cannot judge, and finds nothing; the tool itself will, before it runs.
        """
        tool = await self.tool_of(asked)
        problem = tool.problem_with(arguments) if tool is not None else None
        found = [line.partition(": ") for line in (problem or "").splitlines()]
        return [
            (place if place != TOP else "arguments", text) if colon else ("arguments", place)
            for place, colon, text in found
        ]

    async def tool_of(self, asked: RequestRecord) -> Tool | None:
        """The tool that a request is about: of an agent here, of one of its servers, or as a guest declared it."""
        return await self.shown_tool(asked) or await self._server_tool(asked.agent, asked.tool)

    async def shown_tool(self, asked: RequestRecord) -> Tool | None:
        """The same without asking servers, which may take their time."""
        declared = await tool_of_guest(self.store, asked.id) if "/" in asked.agent else None
        return declared or self.tool_at(asked.agent, asked.tool)

    def tool_at(self, agent: str, tool_name: str) -> Tool | None:
        """The tool of that name of the agent at this path; None where the agent's code is not here."""
        found = self.agent_at(agent)
        return found.tool_named(tool_name) if found is not None else None

    async def _server_tool(self, agent: str, tool_name: str) -> Tool | None:
        """The tool of that name that one of the agent's servers has at this moment."""
        owner = self.agent_at(agent)
        if owner is None or not owner.mcp_servers:
            return None
        async with servers_in_use(AgentGraph(owner)):
            found = await find_tools(owner, RunContextWrapper(None))
        return next((tool for tool in found if tool.name == tool_name), None)

    def agent_at(self, agent: str) -> Agent[Any] | None:
        """The agent at this path; None where its code is not here."""
        root = self._driver.agents.get(agent.partition("/")[0].partition(">")[0])
        try:
            return AgentGraph(root).at(agent) if root is not None else None
        except UserError:  # the path leads nowhere in today's code
            return None

    @property
    def agents(self) -> Sequence[Agent[Any]]:
        """The agents that this desk can start."""
        return list(self._driver.agents.values())

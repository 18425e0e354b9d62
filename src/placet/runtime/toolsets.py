"""The servers of a run's agents at work: held while the run is driven, and asked for their tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.tool import Tool
from placet.ports import Toolset


def servers_in_use(graph: AgentGraph) -> AbstractAsyncContextManager[None]:
    """While this is entered, what the servers of these agents hold open stays open."""
    servers = {id(server): server for agent in graph.agents() for server in agent.mcp_servers}
    return _in_use(list(servers.values())) if servers else nullcontext()


@asynccontextmanager
async def _in_use(servers: Sequence[Toolset[Tool]]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server.in_use())
        yield


async def find_tools(agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Tool]:
    """The tools of the agent's servers as they are now, under the names by which its model knows them."""
    listings = await asyncio.gather(*(server.tools_for(context, agent) for server in agent.mcp_servers))
    return agent.name_apart(list(zip(agent.mcp_servers, listings, strict=True)))

"""The tools of servers as an agent gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placet.declare.agent import Agent, MCPConfig
from placet.declare.tool import Tool
from placet.mcp import MCPServer


class MCPUtil:
    """The tools of servers, made by the servers themselves."""

    @classmethod
    async def get_all_function_tools(
        cls,
        servers: Sequence[MCPServer],
        convert_schemas_to_strict: bool,
        run_context: Any,
        agent: Agent[Any],
        **more: Any,
    ) -> list[Tool]:
        config: MCPConfig = {**agent.mcp_config, "convert_schemas_to_strict": convert_schemas_to_strict}
        config.update(more)  # type: ignore[typeddict-item]  # the SDK's options have the names of ours
        wanted = agent.clone(mcp_config=config)
        return [tool for server in servers for tool in await server.tools_for(run_context, wanted)]

    @classmethod
    async def get_function_tools(
        cls, server: MCPServer, convert_schemas_to_strict: bool, run_context: Any, agent: Agent[Any], **more: Any
    ) -> list[Tool]:
        return await cls.get_all_function_tools([server], convert_schemas_to_strict, run_context, agent, **more)

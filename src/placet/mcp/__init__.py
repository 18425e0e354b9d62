"""Tools of MCP servers, for agents (the extra `mcp`). The SDK is imported when a server is first connected."""

from __future__ import annotations

from placet.declare.agent import MCPConfig
from placet.mcp.filters import (
    ToolFilter,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)
from placet.mcp.policy import RequireApproval
from placet.mcp.server import MCPServer
from placet.mcp.tools import MCPTool
from placet.mcp.transports import (
    MCPServerInProcess,
    MCPServerSse,
    MCPServerSseParams,
    MCPServerStdio,
    MCPServerStdioParams,
    MCPServerStreamableHttp,
    MCPServerStreamableHttpParams,
)

__all__ = [
    "MCPConfig",
    "MCPServer",
    "MCPServerInProcess",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "MCPTool",
    "RequireApproval",
    "ToolFilter",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]

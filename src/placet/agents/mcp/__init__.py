"""MCP servers."""

from __future__ import annotations

from placet.agents.mcp._tools import MCPUtil
from placet.mcp import (
    MCPServer,
    MCPServerSse,
    MCPServerSseParams,
    MCPServerStdio,
    MCPServerStdioParams,
    MCPServerStreamableHttp,
    MCPServerStreamableHttpParams,
    RequireApproval,
    ToolFilter,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)
from placet.mcp.filters import ToolFilterCallable
from placet.mcp.manager import MCPServerManager

LocalMCPApprovalCallable = RequireApproval

__all__ = [
    "LocalMCPApprovalCallable",
    "MCPServer",
    "MCPServerManager",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "MCPUtil",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]

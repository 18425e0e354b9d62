"""Filters of a server's tools."""

from __future__ import annotations

from placet.agents.mcp import (
    ToolFilter,
    ToolFilterCallable,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)

__all__ = ["ToolFilter", "ToolFilterCallable", "ToolFilterContext", "ToolFilterStatic", "create_static_tool_filter"]

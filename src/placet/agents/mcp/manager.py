"""Several servers at once."""

from __future__ import annotations

from placet.agents.mcp import MCPServerManager

__all__ = ["MCPServerManager"]

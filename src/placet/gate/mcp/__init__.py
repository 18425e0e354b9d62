"""The MCP gateway: between any MCP client and any MCP servers. It asks people, and executes what they approved."""

from __future__ import annotations

from placet.gate.mcp.config import GatewayConfig, ServerConfig, read_config

__all__ = ["GatewayConfig", "ServerConfig", "read_config"]

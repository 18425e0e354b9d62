"""Agents."""

from __future__ import annotations

from placet import Agent, FunctionToolResult, MCPConfig, StopAtTools, ToolsToFinalOutputResult
from placet.declare.agent import AgentToolStreamEvent, ToolUseBehavior

AgentBase = Agent
ToolsToFinalOutputFunction = ToolUseBehavior

__all__ = [
    "Agent",
    "AgentBase",
    "AgentToolStreamEvent",
    "FunctionToolResult",
    "MCPConfig",
    "StopAtTools",
    "ToolsToFinalOutputFunction",
    "ToolsToFinalOutputResult",
]

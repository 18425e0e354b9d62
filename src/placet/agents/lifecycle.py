"""Hooks."""

from __future__ import annotations

from placet import AgentHooks, RunHooks

AgentHooksBase = AgentHooks
RunHooksBase = RunHooks

__all__ = ["AgentHooks", "AgentHooksBase", "RunHooks", "RunHooksBase"]

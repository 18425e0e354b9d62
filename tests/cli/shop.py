"""Agents of a small shop, for commands that look at today's tools."""

from __future__ import annotations

from placet import Agent, function_tool


@function_tool(needs_approval=True)
async def refund(cents: int) -> str:
    """Pay money back."""
    return f"paid {cents}"


agents = [Agent(name="Support", tools=[refund])]

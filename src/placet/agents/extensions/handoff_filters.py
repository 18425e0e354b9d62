"""Filters of what the next agent reads."""

from __future__ import annotations

from placet.declare.handoff import default_handoff_history_mapper, nest_handoff_history, remove_all_tools

__all__ = ["default_handoff_history_mapper", "nest_handoff_history", "remove_all_tools"]

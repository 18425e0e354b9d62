"""The context of a call."""

from __future__ import annotations

from placet import ToolContext

__all__ = ["ToolContext"]

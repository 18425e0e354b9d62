"""States of runs."""

from __future__ import annotations

from placet import RunState

__all__ = ["RunState"]

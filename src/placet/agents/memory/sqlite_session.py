"""Sessions in SQLite."""

from __future__ import annotations

from placet import SQLiteSession

__all__ = ["SQLiteSession"]

"""Sessions: conversations that outlive a run. Each is alone behind the `Session` port."""

from __future__ import annotations

from placet.sessions.memory import InMemorySession
from placet.sessions.sqlite import SQLiteSession

__all__ = ["InMemorySession", "SQLiteSession"]

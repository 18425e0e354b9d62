"""Sessions."""

from __future__ import annotations

from placet import OpenAIConversationsSession, SQLiteSession
from placet.agents.memory.session import Session, SessionABC
from placet.agents.memory.session_settings import SessionSettings
from placet.declare.run_config import SessionInputCallback

__all__ = [
    "OpenAIConversationsSession",
    "SQLiteSession",
    "Session",
    "SessionABC",
    "SessionInputCallback",
    "SessionSettings",
]

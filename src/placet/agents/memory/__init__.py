"""Sessions."""

from __future__ import annotations

from placet import OpenAIConversationsSession
from placet.agents.memory.openai_responses_compaction_session import OpenAIResponsesCompactionSession
from placet.agents.memory.session import (
    OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession,
    Session,
    SessionABC,
    is_openai_responses_compaction_aware_session,
)
from placet.agents.memory.session_settings import SessionSettings
from placet.agents.memory.sqlite_session import SQLiteSession
from placet.declare.run_config import SessionInputCallback

__all__ = [
    "OpenAIConversationsSession",
    "OpenAIResponsesCompactionArgs",
    "OpenAIResponsesCompactionAwareSession",
    "OpenAIResponsesCompactionSession",
    "SQLiteSession",
    "Session",
    "SessionABC",
    "SessionInputCallback",
    "SessionSettings",
    "is_openai_responses_compaction_aware_session",
]

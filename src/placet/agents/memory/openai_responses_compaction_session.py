"""A session that makes its history shorter."""

from __future__ import annotations

from placet.sessions.compaction import CompactingSession as OpenAIResponsesCompactionSession
from placet.sessions.compaction import CompactionMode as OpenAIResponsesCompactionMode

__all__ = ["OpenAIResponsesCompactionMode", "OpenAIResponsesCompactionSession"]

"""Sessions that OpenAI keeps."""

from __future__ import annotations

from placet import OpenAIConversationsSession

__all__ = ["OpenAIConversationsSession"]

"""The Responses API."""

from __future__ import annotations

from placet import OpenAIResponsesModel

__all__ = ["OpenAIResponsesModel"]

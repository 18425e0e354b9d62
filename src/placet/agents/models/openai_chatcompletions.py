"""Chat Completions."""

from __future__ import annotations

from placet import OpenAIChatCompletionsModel

__all__ = ["OpenAIChatCompletionsModel"]

"""OpenAI's models."""

from __future__ import annotations

from placet.models.default_models import DEFAULT_MODEL
from placet.models.providers import OpenAIProvider

__all__ = ["DEFAULT_MODEL", "OpenAIProvider"]

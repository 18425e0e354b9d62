"""A model by LiteLLM."""

from __future__ import annotations

from placet.models.litellm_chat import LitellmModel

__all__ = ["LitellmModel"]

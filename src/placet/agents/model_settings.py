"""Settings of models."""

from __future__ import annotations

from placet import ModelSettings
from placet.facts.model_settings import MCPToolChoice

__all__ = ["MCPToolChoice", "ModelSettings"]

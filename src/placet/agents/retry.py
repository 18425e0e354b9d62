"""Trying again."""

from __future__ import annotations

from placet import ModelRetryBackoffSettings, ModelRetrySettings

__all__ = ["ModelRetryBackoffSettings", "ModelRetrySettings"]

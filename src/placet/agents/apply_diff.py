"""Patches, applied to a text."""

from __future__ import annotations

from placet.tools import apply_diff

__all__ = ["apply_diff"]

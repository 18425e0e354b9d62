"""Placet's version."""

from __future__ import annotations

from placet import __version__

__all__ = ["__version__"]

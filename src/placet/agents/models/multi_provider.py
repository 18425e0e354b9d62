"""Several providers, by prefix."""

from __future__ import annotations

from placet.models.providers import MultiProvider, MultiProviderMap

__all__ = ["MultiProvider", "MultiProviderMap"]

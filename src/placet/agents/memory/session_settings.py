"""How a session is read."""

from __future__ import annotations

from placet.declare.run_config import SessionSettings

__all__ = ["SessionSettings"]

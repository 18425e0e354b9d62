"""The desk: where programs and people start runs, see what waits, and decide."""

from __future__ import annotations

from placet.desk.desk import Desk, DeskRequest, DeskRun

__all__ = ["Desk", "DeskRequest", "DeskRun"]

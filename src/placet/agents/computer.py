"""Computers: a screen, a mouse and a keyboard."""

from __future__ import annotations

from placet.tools import AsyncComputer, Button, Computer, Environment

__all__ = ["AsyncComputer", "Button", "Computer", "Environment"]

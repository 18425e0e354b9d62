"""Editors of files."""

from __future__ import annotations

from placet.tools import ApplyPatchEditor, ApplyPatchOperation, ApplyPatchResult

__all__ = ["ApplyPatchEditor", "ApplyPatchOperation", "ApplyPatchResult"]

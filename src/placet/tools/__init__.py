"""Tools that come with Placet: a shell and patches on this machine, each behind an executor that may be your own."""

from __future__ import annotations

from placet.tools.diffs import DoesNotApply, apply_diff
from placet.tools.local_editor import LocalEditor
from placet.tools.local_shell import LocalShell
from placet.tools.patch import ApplyPatchEditor, ApplyPatchOperation, ApplyPatchResult, ApplyPatchTool
from placet.tools.shell import (
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellExecutor,
    ShellResult,
    ShellTool,
)

__all__ = [
    "ApplyPatchEditor",
    "ApplyPatchOperation",
    "ApplyPatchResult",
    "ApplyPatchTool",
    "DoesNotApply",
    "LocalEditor",
    "LocalShell",
    "ShellActionRequest",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
    "ShellResult",
    "ShellTool",
    "apply_diff",
]

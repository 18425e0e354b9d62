"""Tools that come with Placet: a shell and patches on this machine, each behind an executor that may be your own."""

from __future__ import annotations

from placet.tools.computer import AsyncComputer, Button, Computer, ComputerTool, Environment
from placet.tools.custom import CustomTool
from placet.tools.diffs import DoesNotApply, apply_diff
from placet.tools.local_editor import LocalEditor
from placet.tools.local_shell import LocalShell
from placet.tools.local_shell_tool import LocalShellCommandRequest, LocalShellExecutor, LocalShellTool
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
    "AsyncComputer",
    "Button",
    "Computer",
    "ComputerTool",
    "CustomTool",
    "DoesNotApply",
    "Environment",
    "LocalEditor",
    "LocalShell",
    "LocalShellCommandRequest",
    "LocalShellExecutor",
    "LocalShellTool",
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

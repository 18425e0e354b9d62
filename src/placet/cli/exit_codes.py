"""How a command ends: the exit codes, which stay what they are, and the two errors that lead to them."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class CommandFailed(Exception):
    """Ends the command with FAILED and a sentence that says what to do next."""


class UsageError(Exception):
    """Ends the command with USAGE: the arguments cannot be meant, and nothing was done."""

"""How a command ends: the exit codes, which stay what they are. click's errors lead to FAILED and USAGE."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

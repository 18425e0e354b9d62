"""The `placet` command: `main` finds the command, and each command is one function of click in `commands` or `demo`."""

from __future__ import annotations

import sys


def main() -> int:
    """The installed script. What the command line is built on is an extra: where it lacks, say which."""
    try:
        from placet.cli.main import main as run

        return run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("click", "httpx2", "rich"):
            raise
        print("placet: the command needs an extra that is not installed: pip install 'placet[cli]'.", file=sys.stderr)
        return 2

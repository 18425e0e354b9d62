"""Files that hold what people said and did: made for their owner alone, and remarked on where others can read them."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

logger = logging.getLogger("placet.files")

_GROUP, _OTHERS = 0o070, 0o007


def make_private(path: str | Path) -> None:
    """Make the file, if it is not there, for its owner alone. What SQLite puts beside it gets the same rights.

    A file that is there keeps its rights: they may have been widened for a reason. What cannot be made is not made:
    opening it says why.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def open_to_others(path: str | Path) -> int:
    """The rights that others than the owner have to the file and can use: 0 if there are none.

    A folder above it that they cannot enter keeps them out, whatever the file itself allows.
    """
    try:
        file = Path(path).resolve()
        rights = file.stat().st_mode & (_GROUP | _OTHERS)
        for folder in file.parents if rights else ():
            entering = folder.stat().st_mode
            rights &= (_GROUP if entering & 0o010 else 0) | (_OTHERS if entering & 0o001 else 0)
    except OSError:
        return 0
    return rights


def warn_if_readable(path: str | Path, what: str) -> None:
    """Say in the log that others on this machine can get at the file, and what to do."""
    rights = open_to_others(path)
    if rights:
        fields = {"action": "file_open_to_others", "path": str(path), "rights": f"{rights:03o}"}
        logger.warning(
            "%s %s can be read or written by others on this machine: chmod 600 '%s'* keeps it to you.",
            what,
            path,
            path,
            extra=fields,
        )

"""Telling somebody who waits what is measured now."""

from __future__ import annotations

import math
import sys
import time
from typing import Self


class Progress:
    """What is measured now, and for how long already: as a line that changes, or as a line a minute in a log."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._said = -math.inf
        self._is_live = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def __call__(self, text: str) -> None:
        seconds = time.monotonic() - self._began
        line = f"{int(seconds) // 60}:{int(seconds) % 60:02}  {text}"
        if self._is_live:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif seconds - self._said >= 60:
            self._said = seconds
            print(line, file=sys.stderr, flush=True)

"""Cancellations that come in disguise.

A driver that is cancelled in the middle of a statement tries to tidy its connection up first; if that is broken too,
its error takes the cancellation's place. Whoever goes on after errors of a database would then never end.
"""

from __future__ import annotations

import asyncio


class Cancellations:
    """How often the task at work had been told to end when this was made."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._count()

    def raise_new(self) -> None:
        """Raise CancelledError if the task was told to end since: the error at hand is what became of that."""
        if self._count() > self._before:
            raise asyncio.CancelledError

    def _count(self) -> int:
        return self._task.cancelling() if self._task is not None else 0

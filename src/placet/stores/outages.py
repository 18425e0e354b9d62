"""Outages in the log: one line when something fails, one when it works again, however often it is tried in between."""

from __future__ import annotations

import logging


class Outage:
    """Of one thing that is tried again and again. `failed` and `works` are the names of the two log events."""

    def __init__(self, logger: logging.Logger, failed: str, works: str) -> None:
        self._logger = logger
        self._failed = failed
        self._works = works
        self._is_on = False

    def note(self, error: BaseException) -> None:
        """It failed. Only the first time since it worked is told."""
        if not self._is_on:
            self._is_on = True
            self._log(self._failed, error=f"{type(error).__name__}: {error}".strip())

    def end(self) -> None:
        """It worked. Told at the same level as the failure: who reads of the one reads of the other."""
        if self._is_on:
            self._is_on = False
            self._log(self._works)

    def _log(self, action: str, **fields: str) -> None:
        self._logger.warning(action.replace("_", " "), extra={"action": action, **fields})

"""A policy in a file that may change while programs run: what was loaded last stays in force until the next loads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from placet.core.policy import Policy
from placet.facts.codec import JsonObject
from placet.facts.errors import PolicyRefused
from placet.policy.loading import load_policy
from placet.policy.source_map import Problem

logger = logging.getLogger("placet.policy")

LOOK_SECONDS = 1.0
"""How often the file is looked at, at most: a call that is judged waits for no disk more often than that."""


class PolicyFile:
    """The policy in a file. It has to load at first; later, a text that does not load leaves the one before in force,
    and `problem` says so."""

    def __init__(
        self,
        path: str | Path,
        *,
        tools: Mapping[str, Sequence[JsonObject]] | None = None,
        look_seconds: float = LOOK_SECONDS,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self._tools = tools
        self._ticks = ticks
        self._look_seconds = look_seconds
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._policy = load_policy(self.path, tools=tools)
        self._looked_at = ticks()
        self.problem: PolicyRefused | None = None
        """Why the file as it is now is not in force; None: it is."""

    def current(self) -> Policy:
        """The policy in force."""
        if self._ticks() - self._looked_at >= self._look_seconds:
            self.look()
        return self._policy

    def look(self) -> bool:
        """Look at the file now. Whether another policy is in force since."""
        with self._lock:
            self._looked_at = self._ticks()
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return False
            before = self._policy.version
            try:
                self._policy = load_policy(self.path, tools=self._tools)
            except PolicyRefused as error:
                self._note(error)
                if stamp is not None:
                    self._stamp = stamp
                return False
            self._stamp, self.problem = stamp, None
            told = {"action": "policy_loaded", "policy": str(self.path), "version": self._policy.version}
            logger.info("policy loaded", extra=told)
            return self._policy.version != before

    def _note(self, error: PolicyRefused) -> None:
        if self.problem is None or self.problem.message != error.message:
            told = {"action": "policy_refused", "policy": str(self.path), "in_force": self._policy.version}
            told |= _first_problem(error)
            logger.error("policy not loaded, the one before stays in force: %s", error.message, extra=told)
        self.problem = error

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _first_problem(error: PolicyRefused) -> dict[str, str]:
    """Of all that is wrong, what comes first, and where: logs show fields, and of a message of many lines nothing."""
    found = next((each for each in error.problems if isinstance(each, Problem)), None)
    if found is None:  # there is no text to point into
        return {"problem": error.message}
    said = found.message if found.suggestion is None else f"{found.message} {found.suggestion}"
    more = len(error.problems) - 1
    return {"place": f"{found.line}:{found.column}", "problem": said} | ({"more_problems": str(more)} if more else {})

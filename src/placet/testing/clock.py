"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("Time does not go back.")
        self._now += seconds

"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio


class ManualClock:
    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self.slept: list[float] = []
        """What was waited for with `sleep`: such a wait takes no time, and moves the clock."""

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("Time does not go back.")
        self._now += seconds

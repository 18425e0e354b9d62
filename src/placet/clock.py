"""Time as a port: the system's clock by default, one that tests move in `placet.testing`."""

from __future__ import annotations

import asyncio
import time
from datetime import tzinfo
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for what people read and for deadlines."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait: before a request is sent again, say."""
        ...


def zone_of(name: str) -> tzinfo:
    """A time zone by its name; KeyError or ValueError where this machine knows none of it."""
    from zoneinfo import ZoneInfo  # only who counts by the calendar waits for it

    return ZoneInfo(name)


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()

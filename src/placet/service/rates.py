"""How often somebody may do something: buckets that fill with time, in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict

from placet.clock import SYSTEM_CLOCK, Clock

MAX_CLIENTS = 10_000
"""Buckets that are kept; the one that was used longest ago goes first."""


class Buckets:
    """A bucket of tokens for each key; each try takes one, and they come back at a steady rate."""

    def __init__(self, per_second: float, burst: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rate = per_second
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one: 0 when there was one, otherwise the seconds until there will be."""
        now = self._clock.monotonic()
        level, since = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        is_there = level >= 1.0
        self._levels[key] = (level - 1.0 if is_there else level, now)
        if len(self._levels) > MAX_CLIENTS:
            self._levels.popitem(last=False)
        return 0.0 if is_there else (1.0 - level) / self._rate

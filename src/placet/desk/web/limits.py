"""How often one client may ask: buckets that fill with time, in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.web.problems import Problem
from placet.desk.web.settings import WebSettings

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


class Limits:
    """The limits of a desk on the web."""

    def __init__(self, settings: WebSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        per_minute = settings.logins_per_minute
        self._requests = Buckets(settings.requests_per_second, settings.burst, clock)
        self._logins = Buckets(per_minute / 60.0, per_minute, clock)

    def count_request(self, client: str) -> None:
        _refuse_if(self._requests.take(client), "Too many requests from this client.")

    def count_login(self, *keys: str) -> None:
        for key in keys:
            _refuse_if(self._logins.take(key), "Too many attempts to log in.")


def _refuse_if(seconds: float, words: str) -> None:
    if seconds > 0:
        wait = max(1, round(seconds + 0.5))
        raise Problem(429, "too_many_requests", f"{words} Wait {wait} s.", headers={"Retry-After": str(wait)})

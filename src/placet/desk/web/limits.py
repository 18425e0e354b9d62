"""How often one client may ask: buckets that fill with time, in the memory of this process."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.web.problems import Problem
from placet.desk.web.settings import WebSettings
from placet.service.rates import MAX_CLIENTS, Buckets

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 900.0
"""Between two wrong guesses, in seconds: it doubles from the first to the longest."""
FORGOTTEN_SECONDS = 3600.0
"""Wrong guesses older than this do not count."""


class Guesses:
    """Wrong guesses of a secret, by key: after some that are free, each doubles the time until the next.

    Only failures count, and a right one forgets them. Who guesses is slowed down where they are: the key says where.
    """

    def __init__(self, free: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._free = free
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait(self, key: str) -> float:
        """The seconds until this key may guess again: 0, now."""
        count, at = self._failures.get(key, (0, 0.0))
        if count < self._free:
            return 0.0
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(count - self._free, 30))
        return max(0.0, at + pause - self._clock.monotonic())

    def failed(self, key: str) -> None:
        now = self._clock.monotonic()
        count, at = self._failures.pop(key, (0, now))
        if now - at > FORGOTTEN_SECONDS:
            count = 0
        self._failures[key] = (count + 1, now)
        if len(self._failures) > MAX_CLIENTS:
            self._failures.popitem(last=False)

    def succeeded(self, key: str) -> None:
        self._failures.pop(key, None)


class RateLimits:
    """The limits of a desk on the web."""

    def __init__(self, settings: WebSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        per_minute = settings.logins_per_minute
        self._requests = Buckets(settings.requests_per_second, settings.burst, clock)
        self._logins = Buckets(per_minute / 60.0, per_minute, clock)
        self._guesses = Guesses(settings.free_guesses, clock)

    def count_request(self, client: str) -> None:
        _refuse_if(self._requests.take(client), "Too many requests from this client.")

    def count_login(self, address: str) -> None:
        """From one address only so many attempts are made, whatever the names."""
        _refuse_if(self._logins.take(neighbourhood(address)), "Too many attempts to log in.")

    @contextmanager
    def guess_of_login(self, address: str, name: str) -> Iterator[None]:
        """One attempt to log in: AccessDenied in here was a wrong one. It is counted for this name from this address,
        so that a stranger cannot keep a user out who comes from another address."""
        with self._guess(f"login {neighbourhood(address)} {name.strip().lower()[:64]}"):
            yield

    @contextmanager
    def guess_of_password(self, name: str) -> Iterator[None]:
        """One attempt to tell one's own password, in an open session."""
        with self._guess(f"password {name}"):
            yield

    @contextmanager
    def guess_of_passkey(self, name: str) -> Iterator[None]:
        """One answer of an authenticator."""
        with self._guess(f"passkey {name}", "Too many answers of passkeys that were refused."):
            yield

    @contextmanager
    def _guess(self, key: str, message: str = "Too many wrong passwords.") -> Iterator[None]:
        _refuse_if(self._guesses.wait(key), message)
        self._guesses.failed(key)  # until it is known to be right: guesses at the same time count, too
        yield
        self._guesses.succeeded(key)


def neighbourhood(address: str) -> str:
    """An address as limits count it: of IPv6 the network, since one client has as many addresses there as it likes."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)


def _refuse_if(seconds: float, message: str) -> None:
    if seconds > 0:
        wait = max(1, round(seconds + 0.5))
        raise Problem(429, "too_many_requests", f"{message} Wait {wait} s.", headers={"Retry-After": str(wait)})

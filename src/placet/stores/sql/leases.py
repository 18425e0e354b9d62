"""The leases that a store object has given out: renewed from one thread, for as long as their drivers live.

A thread, because a tool that blocks the event loop must not look dead. What it does to the database is the store's
business: it is handed in as two functions that know their own connection and not the store, so that a forgotten store
can be collected.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from placet.clock import Clock
from placet.facts.errors import RunConflict
from placet.facts.ids import mint
from placet.ports import Lease
from placet.stores.outages import Outage

logger = logging.getLogger("placet.stores")

DEFAULT_TTL = 30.0
"""Seconds after which a driver that shows no life can be taken over."""

DEAD = 0.0
"""The end of a lease that somebody else has taken over."""


def pause_after_giving_up(ttl: float) -> float:
    """How long a run is left alone that its driver gave up in the middle: an error there may come again at once."""
    return ttl / 10


def new_owner() -> str:
    """Who we are, for others to read, and a mark of this one lease."""
    return f"process {os.getpid()} on {socket.gethostname()}#{mint('lease')}"


def driven_by(run_id: str, owner: str) -> RunConflict:
    return RunConflict(f"Run {run_id} is being driven by {owner.partition('#')[0]}: wait for that to return.")


def taken_over(run_id: str) -> RunConflict:
    return RunConflict(f"Run {run_id} was taken over by another process.")


class LeaseAnswer(msgspec.Struct, frozen=True, gc=False):
    """What a store says to somebody who wants to drive a run."""

    epoch: int | None
    """Of the new lease; None: another process has the run."""
    holder: str | None = None
    length: int = 0
    head: bytes = b""
    """Where the log stood when the lease was given. Read under the row's lock: a driver that ended a moment before
    may have appended after its successor had read the log."""


class Renewals(Protocol):
    """The database's side of it."""

    def renew(self, held: Sequence[Lease], ttl: float) -> Sequence[bool]:
        """Move the ends of these leases; for each, whether it is still the run's."""
        ...

    def expire(self, gone: Sequence[Lease]) -> None:
        """The drivers of these are gone: others need not wait for the time to pass."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Entry:
    lease: Lease
    driver: weakref.ref[object]


class LeaseBook:
    def __init__(self, renewals: Callable[[], Renewals], ttl: float, clock: Clock) -> None:
        self.ttl = ttl
        self._connect = renewals
        self._renewals: Renewals | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def now(self) -> float:
        """On the clock of `Lease.live_until`: take it before asking the database, so that our end comes first."""
        return self._clock.monotonic()

    def add(self, run_id: str, epoch: int, driver: object, asked_at: float) -> Lease:
        lease = Lease(run_id, epoch, asked_at + self.ttl)
        with self._lock:
            self._entries[run_id] = _Entry(lease, weakref.ref(driver))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._serve, name="placet-leases", daemon=True)
                self._thread.start()
        return lease

    def remove(self, lease: Lease) -> None:
        with self._lock:
            entry = self._entries.get(lease.run_id)
            if entry is not None and entry.lease is lease:
                del self._entries[lease.run_id]

    def epoch_of_dead_driver(self, run_id: str) -> int | None:
        """The epoch of a lease of ours on this run whose driver is gone: it need not be waited for."""
        with self._lock:
            entry = self._entries.get(run_id)
        return entry.lease.epoch if entry is not None and entry.driver() is None else None

    def stop(self) -> None:
        """Stop renewing, without waiting for the thread."""
        self._closing.set()

    def close(self) -> None:
        """Stop renewing. Leases that are still out end by themselves."""
        self.stop()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=self.ttl)

    def _serve(self) -> None:
        try:
            self._keep_renewing()
        finally:
            self._disconnect()

    def _keep_renewing(self) -> None:
        pause, outage = self.ttl / 3, Outage(logger, "renewal_failed", "renewal_resumed")
        while not self._closing.wait(pause):
            try:
                self.renew_all()
                pause = self.ttl / 3
                outage.end()
            except Exception as error:  # noqa: BLE001  # whatever it was, the leases are worth another try
                outage.note(error)
                pause = self.ttl / 10
                self._disconnect()

    def _disconnect(self) -> None:
        """Also after an error: a new connection is the surest way to a known state."""
        renewals, self._renewals = self._renewals, None
        if renewals is not None:
            renewals.close()

    def renew_all(self) -> None:
        held, gone = self._sorted()
        if not held and not gone:
            return
        if self._renewals is None:
            self._renewals = self._connect()
        if gone:  # a driver that was garbage-collected, or whose loop was closed, cannot give its lease back itself
            self._renewals.expire(gone)
            for lease in gone:
                self.remove(lease)
        # Our end is counted from before the question, the database's from after it: ours always comes first, so
        # nobody can have taken over while we still believe that we drive.
        asked_at = self.now()
        for lease, is_ours in zip(held, self._renewals.renew(held, self.ttl) if held else (), strict=True):
            lease.live_until = asked_at + self.ttl if is_ours else DEAD
            if not is_ours:
                self.remove(lease)

    def _sorted(self) -> tuple[list[Lease], list[Lease]]:
        """Those whose drivers live, and those whose drivers are gone."""
        with self._lock:
            entries = list(self._entries.values())
        held = [entry.lease for entry in entries if entry.driver() is not None]
        gone = [entry.lease for entry in entries if entry.driver() is None]
        return held, gone

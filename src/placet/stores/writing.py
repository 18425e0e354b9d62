"""What one append writes, worked out at once: the fold goes on changing while the write is on its way."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from placet.core.index import RequestChange, RunStatus, request_changes, run_status
from placet.core.log import Line, Log
from placet.core.next_step import ReportTripwire, Stop, WaitForPeople, next_step
from placet.core.state import RunFold
from placet.facts.codec import encode
from placet.facts.errors import PositionConflict, StoreError
from placet.facts.events import GrantMade, GrantRevoked, InChild, PlainFact
from placet.ports import Lease
from placet.stores.caching import CachedFold, fold_to_cache

MAX_LINES = 65_536
"""Of one append."""


@dataclass(frozen=True, slots=True)
class Append:
    """One append: the lines, and the run's row as it is with them."""

    run_id: str
    epoch: int | None
    """The lease's; None: from outside."""
    position: int
    key: bytes
    head: bytes
    """The log's chain after the lines."""
    texts: tuple[bytes, ...]
    checksums: tuple[int, ...]
    at: float
    agent: str
    status: RunStatus
    turn: int
    session: str | None
    """By what the run is found by its session."""
    holds_session: bool
    """It waits on its session: a new message there must say what becomes of it."""
    final_output: str | None
    stopped: str | None
    started_by: str | None
    wake_at: float | None
    has_work: bool
    changes: tuple[RequestChange, ...]
    grants: tuple[GrantMade | GrantRevoked, ...]
    fold: CachedFold | None
    """To be cached with it."""
    drops_fold: bool
    """The run has ended: its cached fold has no use any more."""

    @property
    def length(self) -> int:
        return self.position + len(self.texts)

    @property
    def ended_at(self) -> float | None:
        return self.at if self.status == "ended" else None


def append_of(lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> Append:
    if len(lines) > MAX_LINES:
        raise StoreError(f"{len(lines)} lines are too many for one append: {MAX_LINES} is the limit.")
    texts = tuple(line.text for line in lines)
    return Append(
        run_id=log.run_id,
        epoch=lease.epoch if lease is not None else None,
        position=len(log),
        key=log.key,
        head=lines[-1].head if lines else log.head,
        texts=texts,
        checksums=tuple(map(zlib.crc32, texts)),
        at=lines[-1].at if lines else 0.0,
        agent=run.starting_agent,
        status=run_status(run),
        turn=run.turn,
        session=run.session_key,
        holds_session=holds_session(run),
        final_output=final_output(run),
        stopped=stopped(run),
        started_by=run.started_by,
        wake_at=wake_at(run),
        has_work=has_work(run),
        changes=tuple(request_changes(log.run_id, lines, run)),
        grants=tuple(_standing_grants(lines)),
        fold=fold_to_cache(log, lines, run),
        drops_fold=run.has_ended and log.cached_at > 0,
    )


def position_conflict(given: Append, stands_at: int) -> PositionConflict:
    return PositionConflict(f"Run {given.run_id} stands at {stands_at}: nothing can be appended at {given.position}.")


def has_work(run: RunFold) -> bool:
    """Whether a driver could do something, if nobody held it back. What an error stopped waits to be resumed."""
    if run.stopped is not None and run.cancel_asked is None:
        return False
    return not isinstance(next_step(run), Stop | WaitForPeople | ReportTripwire)


def holds_session(run: RunFold) -> bool:
    return run.session is not None and not run.has_ended and run.open_calls > 0


def final_output(run: RunFold) -> str | None:
    return encode(run.final_output).decode() if run.has_ended else None


def stopped(run: RunFold) -> str | None:
    return ": ".join(run.stopped) if run.stopped is not None else None


def wake_at(run: RunFold) -> float | None:
    """When the first question ends by itself."""
    return min((call.expires_at for _, call in run.waiting() if call.expires_at is not None), default=None)


def _standing_grants(lines: Sequence[Line]) -> list[GrantMade | GrantRevoked]:
    """The facts about grants that reach beyond their run."""
    found: list[GrantMade | GrantRevoked] = []
    for line in lines:
        for fact in line.facts:
            bare: PlainFact = fact.fact if isinstance(fact, InChild) else fact
            if isinstance(bare, GrantRevoked) or (isinstance(bare, GrantMade) and bare.scope == "agent"):
                found.append(bare)
    return found

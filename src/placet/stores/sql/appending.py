"""What one append writes, worked out at once: the fold goes on changing while the write is on its way."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from placet.core.budget import Taking, takings_of
from placet.core.index import RequestChange, request_changes
from placet.core.log import Line, Log
from placet.core.next_step import ReportTripwire, Stop, WaitForPeople, next_step
from placet.core.state import RunFold
from placet.facts.errors import PositionConflict, StoreError
from placet.facts.events import GrantMade, GrantRevoked, InChild, PlainFact
from placet.ports import Lease
from placet.stores.sql.loading import CachedFold, fold_to_cache
from placet.stores.sql.rows import RunColumns, run_columns

MAX_LINES = 65_536
"""Of one append."""


class Append(msgspec.Struct, frozen=True, kw_only=True):
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
    columns: RunColumns
    has_work: bool | None
    """Whether a driver could do something. None: nobody drives it, and what is appended is no news for a driver."""
    changes: Sequence[RequestChange]
    grants: Sequence[GrantMade | GrantRevoked]
    fold: CachedFold | None
    """To be cached with it."""
    drops_fold: bool
    """The run has ended: its cached fold has no use any more."""
    takings: Sequence[Taking] = ()
    """What the claims among the lines take of budgets: written with them, or none of it."""
    gives_back: bool = False
    """The driver is done: its lease goes with the lines."""

    @property
    def length(self) -> int:
        return self.position + len(self.texts)


def append_of(lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> Append:
    if len(lines) > MAX_LINES:
        raise StoreError(f"{len(lines)} lines are too many for one append: {MAX_LINES} is the limit.")
    texts = tuple([line.text for line in lines])
    return Append(
        run_id=log.run_id,
        epoch=lease.epoch if lease is not None else None,
        position=len(log),
        key=log.key,
        head=lines[-1].head if lines else log.head,
        texts=texts,
        checksums=tuple(map(zlib.crc32, texts)),
        columns=run_columns(run, lines[-1].at if lines else 0.0),
        has_work=has_work(run) if run.guest is None else None,
        changes=request_changes(log.run_id, lines, run),
        grants=_standing_grants(lines),
        fold=fold_to_cache(log, lines, run),
        drops_fold=run.has_ended and log.cached_at > 0,
        takings=takings_of(log.run_id, lines),
        gives_back=lease is not None and lease.ends_at == len(log) + len(lines),
    )


def position_conflict(given: Append, stands_at: int) -> PositionConflict:
    return PositionConflict(f"Run {given.run_id} stands at {stands_at}: nothing can be appended at {given.position}.")


def has_work(run: RunFold) -> bool:
    """Whether a driver could do something, if nobody held it back. What an error stopped waits to be resumed."""
    if run.stopped is not None and run.cancel_asked is None:
        return False
    return not isinstance(next_step(run), Stop | WaitForPeople | ReportTripwire)


def _standing_grants(lines: Sequence[Line]) -> list[GrantMade | GrantRevoked]:
    """The facts about grants that reach beyond their run."""
    found: list[GrantMade | GrantRevoked] = []
    for line in lines:
        for fact in line.facts:
            bare: PlainFact = fact.fact if isinstance(fact, InChild) else fact
            if isinstance(bare, GrantRevoked) or (isinstance(bare, GrantMade) and bare.scope == "agent"):
                found.append(bare)
    return found

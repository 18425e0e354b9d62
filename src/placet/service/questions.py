"""Questions as the logs ask them: what a person is shown, and decides about, comes from the log that is executed.

A store's index of questions is for lists. A program that wrote to the database without Placet could have changed it, so
one question is compared with the log before it is shown and before it is decided.
"""

from __future__ import annotations

import logging

import msgspec

from placet.core.index import RequestRecord, rebuilt
from placet.core.log import Log, read_lines
from placet.core.snapshot import UnusableFold, restore
from placet.core.state import RunFold
from placet.facts.errors import IndexAltered, NotPending
from placet.facts.ids import request_id as as_request_id
from placet.facts.ids import split_request_id
from placet.ports import DeskStore
from placet.stores.sql.forgetting import is_blank

logger = logging.getLogger("placet.service")


class FoundRequest(msgspec.Struct, frozen=True):
    """A request that was compared with its run's log, and the place in the log at which that was done."""

    request: RequestRecord
    place: tuple[Log, RunFold] | None = None
    """The log, and its fold at its end; None where the log says nothing any more."""


async def true_request(store: DeskStore, request_id: str) -> RequestRecord:
    """The question with this id, as its run's log asks it; IndexAltered where the index says something else."""
    return (await find_request(store, request_id)).request


async def find_request(store: DeskStore, request_id: str) -> FoundRequest:
    """The same, with the place in the log: who decides there decides about what was compared."""
    parts = split_request_id(request_id)
    if parts is None:
        raise _no_request(request_id)
    request_id = as_request_id(*parts)
    before: tuple[RequestRecord, bytes] | None = None
    while True:
        row = await store.request(request_id)
        if row is None:
            raise _no_request(request_id)
        log = await _recent(store, parts[0])
        if log is None or log.is_erased:
            return FoundRequest(_of_silent_log(request_id, row, log))
        if not log.start and not log.verify():
            raise _altered(request_id, "the chain of its run's log is broken")
        found = await _asked(store, log, request_id)
        if found is not None and found.request == row:
            return found
        if before == (row, log.head):  # both were read twice, and nobody went on in between
            raise _altered(request_id, _difference(row, found))
        before = (row, log.head)


def _no_request(request_id: str) -> NotPending:
    return NotPending(f"There is no request {request_id[:200]!r} in this store.")


def questions_of(log: Log) -> dict[str, RequestRecord]:
    """What the lines that are held of a log ask, by id."""
    return _folded(log)[0]


def _folded(log: Log) -> tuple[dict[str, RequestRecord], RunFold]:
    run = RunFold() if log.base is None else restore(log.base)
    return rebuilt(log.run_id, read_lines(log.lines), run), run


async def _recent(store: DeskStore, run_id: str) -> Log | None:
    stored = await store.load_recent(run_id)
    return stored.log if stored is not None else None


async def _asked(store: DeskStore, log: Log, request_id: str) -> FoundRequest | None:
    """From the end of the log where it is asked there (all that waits is), else from the whole log."""
    try:
        found = _found_in(log, request_id)
    except UnusableFold:  # a cache is only a cache
        found = None
    if found is not None or not log.start:
        return found
    stored = await store.load(log.run_id)
    return _found_in(stored.log, request_id) if stored is not None and stored.log is not None else None


def _found_in(log: Log, request_id: str) -> FoundRequest | None:
    questions, run = _folded(log)
    found = questions.get(request_id)
    return None if found is None else FoundRequest(found, (log, run))


def _of_silent_log(request_id: str, row: RequestRecord, log: Log | None) -> RequestRecord:
    """A question of a run whose log is gone, or was erased: nothing can be decided about it any more."""
    if log is None:
        raise _altered(row.id, "its run has no log")
    if row.id != request_id or not is_blank(row):
        raise _altered(row.id, "its run was erased, and it says something all the same")
    return row


def _difference(row: RequestRecord, found: FoundRequest | None) -> str:
    if found is None:
        return "the log asks no such question"
    truth = found.request
    fields = zip(row.__struct_fields__, row.__struct_encode_fields__, strict=True)
    names = [told for name, told in fields if getattr(row, name) != getattr(truth, name)]
    return f"the log says otherwise about its {', '.join(names)}"


def _altered(request_id: str, what: str) -> IndexAltered:
    logger.error("index altered", extra={"action": "index_altered", "request_id": request_id, "what": what})
    return IndexAltered(
        f"Request {request_id} is not what its run's log asks: {what}. The store was changed without Placet. "
        "Nothing was decided. «placet audit verify» says what else was changed; restore the store, or cancel the run."
    )

"""Questions as the logs ask them: what a person is shown, and decides about, comes from the log that is executed.

A store's index of questions is for lists. Whoever wrote to the database past Placet could have changed it, so one
question is compared with the log before it is shown and before it is decided.
"""

from __future__ import annotations

import logging

from placet.core.index import RequestRow, rebuilt
from placet.core.log import Log, read_lines
from placet.core.snapshot import UnusableFold, restore
from placet.core.state import RunFold
from placet.facts.errors import IndexAltered, NotPending
from placet.ports import DeskStore
from placet.stores.sql.forgetting import is_blank

logger = logging.getLogger("placet.service")


async def true_request(store: DeskStore, request_id: str) -> RequestRow:
    """The question with this id, as its run's log asks it; IndexAltered where the index says something else."""
    before: tuple[RequestRow, bytes] | None = None
    while True:
        row = await store.request(request_id)
        if row is None:
            raise NotPending(f"There is no request {request_id} in this store.")
        log = await _recent(store, run_of(request_id))
        if log is None or log.is_erased:
            return _of_silent_log(row, log)
        if not log.start and not log.verify():
            raise _altered(request_id, "the chain of its run's log is broken")
        truth = await _asked(store, log, request_id)
        if row == truth and truth is not None:
            return truth
        if before == (row, log.head):  # both were read twice, and nobody went on in between
            raise _altered(request_id, _difference(row, truth))
        before = (row, log.head)


def run_of(request_id: str) -> str:
    """The run in which a question is asked: `run_x` of `run_x:2.0/1.3#1`."""
    return request_id.partition(":")[0]


def questions_of(log: Log) -> dict[str, RequestRow]:
    """What the lines that are held of a log ask, by id."""
    run = RunFold() if log.base is None else restore(log.base)
    return rebuilt(log.run_id, read_lines(log.lines), run)


async def _recent(store: DeskStore, run_id: str) -> Log | None:
    stored = await store.load_recent(run_id)
    return stored.log if stored is not None else None


async def _asked(store: DeskStore, log: Log, request_id: str) -> RequestRow | None:
    """From the end of the log where it is asked there (all that waits is), else from the whole log."""
    try:
        found = questions_of(log).get(request_id)
    except UnusableFold:  # a cache is only a cache
        found = None
    if found is not None or not log.start:
        return found
    stored = await store.load(log.run_id)
    return questions_of(stored.log).get(request_id) if stored is not None and stored.log is not None else None


def _of_silent_log(row: RequestRow, log: Log | None) -> RequestRow:
    """A question of a run whose log is gone, or was erased: nothing can be decided about it any more."""
    if log is None:
        raise _altered(row.id, "its run has no log")
    if row.id.partition(":")[0] != row.run_id or not is_blank(row):
        raise _altered(row.id, "its run was erased, and it says something all the same")
    return row


def _difference(row: RequestRow, truth: RequestRow | None) -> str:
    if truth is None:
        return "the log asks no such question"
    names = [name for name in row.__struct_fields__ if getattr(row, name) != getattr(truth, name)]
    return f"the log says otherwise about its {', '.join(names)}"


def _altered(request_id: str, what: str) -> IndexAltered:
    logger.error("index altered", extra={"action": "index_altered", "request_id": request_id, "what": what})
    return IndexAltered(
        f"Request {request_id} is not what its run's log asks: {what}. Somebody wrote to the store past Placet. "
        "Nothing was decided. «placet audit verify» says what else was changed; restore the store, or cancel the run."
    )

"""What PostgreSQL's own function for appends is given, and what goes with it in one transaction."""

from __future__ import annotations

from typing import assert_never

import msgspec

from placet.core.index import Closed, Counted, EscalatedRequest, Opened, Reopened, RequestChange
from placet.facts.codec import encode
from placet.stores.sql.appending import Append, position_conflict
from placet.stores.sql.budgets import take_shares
from placet.stores.sql.leases import taken_over
from placet.stores.sql.loading import cache_fold
from placet.stores.sql.operators import write_grants
from placet.stores.sql.rows import closing_text, text_of
from placet.stores.sql.statements import Given, Statement, Steps


def append(again: bool, append: Append) -> Steps[None]:
    """With all that goes with it. The grants come first: the operators' log is locked before any other row. Then come
    budgets, always in the same order, and the run's row last: so no two appends wait for each other."""
    if append.grants:
        yield from write_grants(append.run_id, append.columns.updated_at, append.grants)
    if append.takings:
        yield from take_shares(append.takings)
    ((outcome, stands_at),) = yield Statement("append", parameters(append, again))
    if outcome == "taken":
        raise taken_over(append.run_id)
    if outcome == "position":
        raise position_conflict(append, stands_at)
    if append.fold is not None:
        yield cache_fold(append.run_id, append.fold)
    elif append.drops_fold:
        yield Statement("drop_fold", {"id": append.run_id})


def is_alone(append: Append) -> bool:
    """Whether nothing goes with it: then it is one statement, and a transaction of its own."""
    return not append.grants and not append.takings and append.fold is None and not append.drops_fold


def parameters(append: Append, again: bool) -> Given:
    """`again`: lines that are there already are a success, since only the answer to the first try was lost."""
    return msgspec.structs.asdict(append.columns) | {
        "run_id": append.run_id,
        "epoch": append.epoch,
        "position": append.position,
        "again": again,
        "gives_back": append.gives_back,
        "key": append.key,
        "head": append.head,
        "texts": list(append.texts),
        "checksums": list(append.checksums),
        "has_work": append.has_work,
        "changes": encode([_change(change) for change in append.changes]).decode() if append.changes else None,
    }


def _change(change: RequestChange) -> dict[str, object]:
    match change:
        case Opened(row):
            return {
                "op": "open",
                "call": row.call,
                "status": "closed",
                "closing": closing_text(Closed(row.call, "closed")),
                "id": row.key,
                "number": row.number,
                "agent": searchable(row.agent),
                "tool": searchable(row.tool),
                "data": text_of(row),
            }
        case Closed():
            return {"op": "close", "call": change.call, "status": change.status, "closing": closing_text(change)}
        case Reopened(call):
            return {"op": "reopen", "call": call}
        case EscalatedRequest():
            return {"op": "escalate", "call": change.call, "at": change.at}
        case Counted(call, ballot):
            return {"op": "count", "call": call, "number": ballot.request, "ballot": text_of(ballot)}
        case never:
            assert_never(never)


def searchable(value: str) -> str:
    """As PostgreSQL can hold it, for columns that are searched: what is shown comes out of JSON, which can hold all."""
    return value.replace("\0", "\N{SYMBOL FOR NULL}")


_SEARCHED = ("agent", "tool", "session", "stopped", "started_by")


def with_searchable(given: Given) -> Given:
    """Parameters for columns that are searched, as PostgreSQL can hold them."""
    for name in _SEARCHED:
        value = given.get(name)
        if isinstance(value, str) and "\0" in value:
            given = {**given, name: searchable(value)}
    return given

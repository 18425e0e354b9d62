"""The writes that SQLite does statement by statement: appends, leases, the uses of grants. PostgreSQL has functions."""

from __future__ import annotations

from typing import assert_never

import msgspec

from placet.core.index import Closed, Counted, EscalatedRequest, Opened, Reopened, RequestChange
from placet.stores.sql.appending import Append, position_conflict
from placet.stores.sql.budgets import take_shares
from placet.stores.sql.leases import LeaseAnswer, taken_over
from placet.stores.sql.loading import cache_fold
from placet.stores.sql.operators import write_grants
from placet.stores.sql.rows import closing_text, text_of
from placet.stores.sql.statements import Statement, Steps

_NO_RUN = (None, 0, 0, None, False, False, False, "unbegun", b"")


def _place_of(given: Append) -> Steps[tuple[int | None, int]]:
    """The run's number and length, where the lines may follow. This is the compare of the compare-and-set: it stands in
    the transaction of the write, so of two writers that folded the same log one is refused."""
    rows = yield Statement("place", {"id": given.run_id})
    run, length, epoch, owner, *_, status, _ = rows[0] if rows else _NO_RUN
    if given.epoch is not None and (owner is None or epoch != given.epoch):
        raise taken_over(given.run_id)  # a driver that was frozen, and thaws, may append nothing
    if length != given.position or status == "ended":
        raise position_conflict(given, length)
    return run, length


def append(_again: bool, given: Append) -> Steps[None]:
    run, length = yield from _place_of(given)
    if not given.texts:
        return
    if given.takings:  # behind the position check, in its transaction: a claim that is refused takes nothing
        yield from take_shares(given.takings)
    if run is None:
        ((run,),) = yield Statement("begin_run", {"id": given.run_id})
    row = msgspec.structs.asdict(given.columns) | {"run": run, "key": given.key}
    if length == 0:
        yield Statement("first_append", row)
    for place, (text, checksum) in enumerate(zip(given.texts, given.checksums, strict=True), length):
        yield Statement("insert_line", {"run": run, "position": place, "text": text, "checksum": checksum})
    is_outside = given.epoch is None and given.has_work is not None
    after = {"length": given.length, "head": given.head, "has_work": bool(given.has_work), "is_outside": is_outside}
    yield Statement("advance", row | after)
    if given.gives_back:
        yield Statement("end_lease", {"pause": None, "run": run})
    for change in given.changes:
        yield from _change_request(run, change)
    if given.grants:
        yield from write_grants(given.run_id, given.columns.updated_at, given.grants)
    if given.fold is not None:
        yield cache_fold(given.run_id, given.fold)
    elif given.drops_fold:
        yield Statement("drop_fold", {"id": given.run_id})


def _change_request(run: int, change: RequestChange) -> Steps[None]:
    match change:
        case Opened(row):
            yield from _change_request(run, Closed(row.call, "closed"))
            given = {"id": row.key, "call": row.call, "number": row.number, "agent": row.agent, "tool": row.tool}
            yield Statement("open_request", given | {"run": run, "data": text_of(row)})
        case Closed():
            given = {"status": change.status, "closing": closing_text(change)}
            yield Statement("close_request", given | {"run": run, "call": change.call})
        case Reopened(call):
            yield Statement("reopen_request", {"run": run, "call": call})
        case EscalatedRequest():
            yield Statement("escalate_request", {"at": change.at, "run": run, "call": change.call})
        case Counted(call, ballot):
            given = {"run": run, "call": call, "number": ballot.request, "ballot": text_of(ballot)}
            yield Statement("count_votes", given)
        case never:
            assert_never(never)


def take_lease(_again: bool, run_id: str, owner: str, gone: int | None, ttl: float) -> Steps[LeaseAnswer]:
    rows = yield Statement("place", {"id": run_id})
    run, length, epoch, former, is_live, *_, head = rows[0] if rows else _NO_RUN
    if is_live and epoch != gone:
        return LeaseAnswer(None, former)
    if run is None:
        ((run,),) = yield Statement("begin_run", {"id": run_id})
    ((new_epoch,),) = yield Statement("next_epoch")
    yield Statement("take_lease", {"epoch": new_epoch, "owner": owner, "ttl": ttl, "run": run})
    return LeaseAnswer(int(new_epoch), None, length, head)


def end_lease(_again: bool, run_id: str, lease_epoch: int, length: int, pause: float) -> Steps[bool]:
    rows = yield Statement("place", {"id": run_id})
    run, stands_at, epoch, owner, _, unseen, has_work, *_ = rows[0] if rows else _NO_RUN
    if epoch != lease_epoch or owner is None:
        return True  # it is somebody else's by now, or was given back before
    if stands_at > length:
        return False
    if stands_at == 0:
        yield Statement("delete_run", {"run": run})
    else:  # a driver that gave up in the middle leaves work: the next one finds the run, but not at once
        leaves_work = stands_at != length and (unseen or has_work)
        yield Statement("end_lease", {"pause": pause if leaves_work else None, "run": run})
    return True


def forget_owner(_again: bool, run_id: str, owner: str) -> Steps[None]:
    yield Statement("forget_owner", {"id": run_id, "owner": owner})
    yield Statement("delete_unbegun")


def use_grant(_again: bool, grant_id: str, call_id: str, uses: int | None) -> Steps[bool]:
    if (yield Statement("grant_is_revoked", {"id": grant_id})):
        return False
    if uses is None:
        return True
    ((count, is_counted),) = yield Statement("grant_uses", {"call": call_id, "id": grant_id})
    if is_counted:
        return True
    if count >= uses:
        return False
    yield Statement("count_use", {"id": grant_id, "call": call_id})
    return True

"""What the writes to an SQLite store do: functions of a connection, inside a transaction, on the writer's thread."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import assert_never

from placet.core.index import Closed, Escalated, Opened, Reopened, RequestChange
from placet.facts.events import AnyFact, GrantMade, GrantRevoked, HoldLifted, StandingGrantMade
from placet.ports import Hold, Lease
from placet.stores.operators import checksum_of, log_at, placed
from placet.stores.ownership import driven_by, pause_after_giving_up, taken_over
from placet.stores.rows import closing_text, text_of
from placet.stores.sqlite_files import SQL
from placet.stores.sqlite_folds import cache
from placet.stores.writing import Append, position_conflict

_NO_RUN = (None, 0, 0, None, 0.0, False, False, "unbegun")


def append(db: sqlite3.Connection, given: Append) -> None:
    row = db.execute(SQL["place"], (given.run_id,)).fetchone()
    number, length, epoch, owner, *_, status = row if row is not None else _NO_RUN
    if given.epoch is not None and (owner is None or epoch != given.epoch):
        raise taken_over(given.run_id)
    if length != given.position or status == "ended":
        raise position_conflict(given, length)
    if not given.texts:
        return
    if number is None:
        (number,) = db.execute(SQL["begin_run"], (given.run_id,)).fetchone()
    if length == 0:
        db.execute(SQL["first_append"], (given.key, given.at, given.started_by, number))
    for place, (text, checksum) in enumerate(zip(given.texts, given.checksums, strict=True), length):
        db.execute(SQL["insert_line"], (number, place, text, checksum))
    db.execute(SQL["advance"], _row_of(given, number))
    for change in given.changes:
        _change_requests(db, number, change)
    if given.grants:
        _change_grants(db, given)
    if given.fold is not None:
        cache(db, number, given.fold)
    elif given.drops_fold:
        db.execute(SQL["drop_fold"], (number,))


def _change_grants(db: sqlite3.Connection, given: Append) -> None:
    news: list[AnyFact] = []
    for fact in given.grants:
        if isinstance(fact, GrantMade):
            row = (fact.id, fact.agent, text_of(fact))
            if db.execute(SQL["keep_grant"], row).rowcount:  # a fork repeats the grants of its origin
                news.append(StandingGrantMade(given.run_id, fact))
        elif db.execute(SQL["revoke_grant"], (fact.id,)).rowcount:
            news.append(fact)
    if news:
        note_operators(db, given.at, news)


def note_operators(db: sqlite3.Connection, at: float, facts: Sequence[AnyFact]) -> None:
    """Write into the operators' log what this transaction does."""
    log = log_at(*db.execute(SQL["operators_place"]).fetchone())
    line = log.next_line(at, facts)
    db.execute(SQL["operators_line"], (len(log), line.text, checksum_of(line)))
    db.execute(SQL["operators_advance"], (len(log) + 1, line.head, log.key))


def _row_of(given: Append, number: int) -> dict[str, object]:
    return {
        "number": number,
        "length": given.length,
        "head": given.head,
        "agent": given.agent,
        "status": given.status,
        "at": given.at,
        "ended_at": given.ended_at,
        "turn": given.turn,
        "session": given.session,
        "holds_session": given.holds_session,
        "final_output": given.final_output,
        "stopped": given.stopped,
        "has_work": given.has_work,
        "wake_at": given.wake_at,
        "is_outside": given.epoch is None,
    }


def _change_requests(db: sqlite3.Connection, run: int, change: RequestChange) -> None:
    match change:
        case Opened(row):
            db.execute(SQL["close_request"], ("closed", closing_text(Closed(row.call, "closed")), run, row.call))
            given = (row.id, run, row.call, row.number, row.agent, row.tool, text_of(row))
            db.execute(SQL["open_request"], given)
        case Closed():
            db.execute(SQL["close_request"], (change.status, closing_text(change), run, change.call))
        case Reopened(call):
            db.execute(SQL["reopen_request"], (run, call))
        case Escalated():
            db.execute(SQL["escalate_request"], (change.at, run, change.call))
        case never:
            assert_never(never)


def take_lease(db: sqlite3.Connection, run_id: str, owner: str, gone: int | None, ttl: float) -> int:
    now = time.time()
    row = db.execute(SQL["place"], (run_id,)).fetchone()
    number, _, epoch, former, lease_until, *_ = row if row is not None else _NO_RUN
    if former is not None and lease_until > now and epoch != gone:
        raise driven_by(run_id, former)
    if number is None:
        (number,) = db.execute(SQL["begin_run"], (run_id,)).fetchone()
    (new_epoch,) = db.execute(SQL["next_epoch"]).fetchone()
    db.execute(SQL["take_lease"], (new_epoch, owner, now + ttl, now, number))
    return int(new_epoch)


def end_lease(db: sqlite3.Connection, lease: Lease, length: int, ttl: float) -> bool:
    row = db.execute(SQL["place"], (lease.run_id,)).fetchone()
    if row is None or row[2] != lease.epoch or row[3] is None:
        return True  # it is somebody else's by now, or was given back before
    number, stands_at, *_, unseen, has_work, _ = row
    if stands_at > length:
        return False
    if stands_at == 0:
        db.execute(SQL["delete_run"], (number,))
    elif stands_at == length or not (unseen or has_work):
        db.execute(SQL["end_lease"], (0, None, number))
    else:  # the driver gave up in the middle: whoever looks next finds the run, but not at once
        now = time.time()
        db.execute(SQL["end_lease"], (now + pause_after_giving_up(ttl), now, number))
    return True


def forget_owner(db: sqlite3.Connection, run_id: str, owner: str) -> None:
    db.execute(SQL["forget_owner"], (run_id, owner))
    db.execute(SQL["delete_unbegun"], (time.time(),))


def use_grant(db: sqlite3.Connection, grant: GrantMade, call_id: str) -> bool:
    if db.execute(SQL["grant_is_revoked"], (grant.id,)).fetchone() is not None:
        return False
    if grant.uses is None:
        return True
    uses, is_counted = db.execute(SQL["grant_uses"], (call_id, grant.id)).fetchone()
    if is_counted:
        return True
    if uses >= grant.uses:
        return False
    db.execute(SQL["count_use"], (grant.id, call_id))
    return True


def put_hold(db: sqlite3.Connection, hold: Hold, over_others: bool) -> bool:
    given = (hold.kind, hold.name, hold.by, hold.at, hold.reason, over_others)
    if not db.execute(SQL["put_hold"], given).rowcount:
        return False
    note_operators(db, hold.at, [placed(hold)])
    return True


def remove_hold(db: sqlite3.Connection, lifted: HoldLifted, placed_by: str | None) -> bool:
    given = {"kind": lifted.kind, "name": lifted.name, "placed_by": placed_by}
    if not db.execute(SQL["remove_hold"], given).rowcount:
        return False
    if lifted.kind == "run":
        db.execute(SQL["wake_held_run"], (time.time(), lifted.name))
    else:
        db.execute(SQL["wake_all_held"], (time.time(),))
    note_operators(db, lifted.at, [lifted])
    return True


def put_grant(db: sqlite3.Connection, grant: GrantMade) -> None:
    if db.execute(SQL["keep_grant"], (grant.id, grant.agent, text_of(grant))).rowcount:
        note_operators(db, grant.at, [StandingGrantMade("", grant)])


def revoke_grant(db: sqlite3.Connection, revoked: GrantRevoked) -> bool:
    if not db.execute(SQL["revoke_grant"], (revoked.id,)).rowcount:
        return False
    note_operators(db, revoked.at, [revoked])
    return True

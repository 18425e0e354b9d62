"""The columns of the tables: what is written into them, how their rows are read, and the cursors between pages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar, get_args

import msgspec

from placet.core.ballot import Ballot
from placet.core.guest import wakes_at
from placet.core.index import (
    Closed,
    RequestRecord,
    RequestStatus,
    RunRecord,
    RunStatus,
    run_status,
    shown_status,
)
from placet.core.state import RunFold
from placet.facts.codec import encode
from placet.facts.errors import StoreError, UserError
from placet.facts.events import AnyGrant, Fact, GrantMade
from placet.facts.ids import request_id, session_of_key
from placet.facts.requirements import Assurance
from placet.ports import IndexedOperators, IndexedRun, OldestRequest, Page, StoreNumbers
from placet.stores.sql.statements import Given, Row

R = TypeVar("R")
V = TypeVar("V")

_request_decoder = msgspec.json.Decoder(RequestRecord)
_grant_decoder = msgspec.json.Decoder(AnyGrant)


class Closing(msgspec.Struct, frozen=True, array_like=True):
    """How a question ended: who, when, why, and by which standing decision."""

    by: str | None
    at: float | None
    reason: str | None
    grant: str | None = None
    via: str | None = None
    assurance: Assurance = "none"


_closing_decoder = msgspec.json.Decoder(Closing)
_ballot_decoder = msgspec.json.Decoder(Ballot)


def text_of(row: RequestRecord | Fact | Ballot) -> str:
    """With the key in the place of a request's id: so older code on the same store reads it."""
    return encode(msgspec.structs.replace(row, id=row.key) if isinstance(row, RequestRecord) else row).decode()


def closing_text(change: Closed) -> str:
    end = Closing(change.by, change.at, change.reason, change.grant, change.via, change.assurance)
    return encode(end).decode()


def read_closing(closing: str) -> Closing:
    return _closing_decoder.decode(closing)


def read_request(
    data: str,
    status: RequestStatus,
    closing: str | None,
    escalated_at: float | None = None,
    ballot: str | None = None,
) -> RequestRecord:
    try:
        row = _request_decoder.decode(data)
        end = _closing_decoder.decode(closing) if closing is not None else Closing(None, None, None)
        votes = _ballot_decoder.decode(ballot) if ballot is not None else None
    except msgspec.DecodeError as error:
        raise StoreError(
            f"A stored request cannot be read ({error}): it was altered, or written by newer code."
        ) from error
    return msgspec.structs.replace(
        row,
        id=request_id(row.run_id, row.call, row.number) if row.id == row.key else row.id,
        status=status,
        decided_by=end.by,
        decided_at=end.at,
        reason=end.reason,
        grant=end.grant,
        decided_via=end.via,
        assurance=end.assurance,
        escalated_at=escalated_at,
        expires_at=row.expires_at if escalated_at is None else None,
        ballot=votes,
    )


def read_grant(data: str) -> GrantMade:
    try:
        found: GrantMade = _grant_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"A stored grant cannot be read ({error}): it was altered, or written by newer code."
        ) from error
    return found


def checked(run_id: str, length: int, lines: Sequence[Row], start: int = 0) -> list[bytes]:
    """The texts of a log from `start` on, from each line's text, checksum and position; StoreError if it is not what
    was written."""
    for position, (text, checksum, stored_position) in enumerate(lines, start):
        if not isinstance(text, bytes) or stored_position != position or zlib.crc32(text) != checksum:
            raise _damaged(run_id, position)
    if start + len(lines) != length:
        raise _damaged(run_id, start + len(lines))
    return [text for text, *_ in lines if isinstance(text, bytes)]


def lines_in(rows: Sequence[Row]) -> list[Row]:
    """Text, checksum and position of the lines in the rows of `load` or `operators_log`."""
    return [row[3:] for row in rows if row[3] is not None]


def _damaged(run_id: str, position: int) -> StoreError:
    return StoreError(
        f"The stored log of run {run_id} is damaged at line {position}: restore it from a backup. "
        "Other runs are not affected."
    )


# -- the row of a run -------------------------------------------------------------------------------------------------


class RunColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of its run, by column. The audit makes it anew and compares."""

    agent: str
    status: RunStatus
    """As it is stored: that an error stopped the run is said by `stopped`."""
    turn: int
    session: str | None
    """By what the run is found by its session."""
    holds_session: bool
    """It waits on its session: a new message there must say what becomes of it."""
    final_output: str | None
    stopped: str | None
    started_by: str | None
    wake_at: float | None
    """When the first request ends by itself."""
    updated_at: float
    ended_at: float | None


def run_columns(run: RunFold, at: float) -> RunColumns:
    """The columns of a run after an append at this time."""
    has_ended = run.has_ended
    return RunColumns(
        agent=run.starting_agent,
        status=run_status(run),
        turn=run.turn,
        session=run.session_key,
        holds_session=run.session is not None and not has_ended and run.open_calls > 0,
        final_output=encode(run.final_output).decode() if has_ended else None,
        stopped=": ".join(run.stopped) if run.stopped is not None else None,
        started_by=run.started_by,
        wake_at=_wake_at(run, at),
        updated_at=at,
        ended_at=at if has_ended else None,
    )


def _wake_at(run: RunFold, at: float) -> float | None:
    """When the first request ends by itself, or a guest's session."""
    if run.guest is not None:
        return None if run.has_ended else wakes_at(run, at)
    times = [due for _, call in run.waiting() if (due := call.due_at) is not None]
    if run.stopped is None:  # a person resumes it: that is no matter of time
        times += [at for _, _, at in run.delayed()]
    return min(times, default=None)


INDEXED_RUN = (*RunColumns.__struct_fields__, "created_at", "erased_at")
INDEXED_REQUEST = ("id", "call", "number", "status", "agent", "tool", "data", "closing", "escalated_at", "ballot")
INDEXED_GRANT = ("id", "agent", "data", "revoked")

RUN_FIELDS = tuple(name for name in RunRecord.__struct_fields__ if name != "held")
"""The fields of a run's record that a row gives: what is held is found out by the desk."""

_EXPRESSIONS = {
    "is_driven": "owner IS NOT NULL AND lease_until > placet_now()",
    "has_news": "news_at IS NOT NULL",
    "is_parked": "parked",
}
"""What stands for fields of a run's record that have no column of their name."""

COLUMNS = {
    "run_record": ", ".join(_EXPRESSIONS.get(name, name) for name in RUN_FIELDS),
    "run_columns": ", ".join(INDEXED_RUN),
    "request_columns": ", ".join(INDEXED_REQUEST),
    "grant_columns": ", ".join(INDEXED_GRANT),
}
"""Lists of columns that statements name in braces."""


def read_run(row: Row) -> RunRecord:
    """Out of a row of `runs` or `run`: its number, then the fields of the record."""
    found = dict(zip(RUN_FIELDS, row[1:], strict=True))
    session, output = found["session"], found["final_output"]
    try:
        found |= {
            "status": shown_status(found["status"], found["stopped"]),
            "session": session_of_key(session) if session is not None else None,
            "final_output": msgspec.json.decode(output) if output is not None else None,
            **{name: bool(found[name]) for name in ("is_driven", "has_news", "is_parked")},
        }
        return msgspec.convert(found, RunRecord)
    except (msgspec.MsgspecError, TypeError) as error:
        raise StoreError(f"The stored row of run {found['id']} cannot be read ({error}): it was altered.") from error


def read_numbers(columns: Row) -> StoreNumbers:
    *counted, oldest = columns
    names = StoreNumbers.__struct_fields__
    found = dict(zip(names, [*counted, _oldest(oldest, counted[0])], strict=True))
    return msgspec.convert(found, StoreNumbers)


def _oldest(data: str | None, now: float) -> OldestRequest | None:
    if data is None:
        return None
    row: RequestRecord = read_request(data, "pending", None)
    return OldestRequest(id=row.id, agent=row.agent, tool=row.tool, seconds=max(0.0, now - row.created_at))


def page_of(found: Sequence[R], limit: int, ordinal: Callable[[R], int], read: Callable[[R], V]) -> Page[V]:
    """A page out of one row more than the page holds: that one only says that there is a next page."""
    rows = found[:limit]
    has_more = len(found) > limit
    return Page([read(row) for row in rows], f"after-{ordinal(rows[-1])}" if has_more and rows else None)


LAST = 2**62
"""Behind every ordinal: where a page begins that goes from the newest to the oldest."""


def after_cursor(cursor: str | None, default: int) -> int:
    """The ordinal behind which a page begins."""
    if cursor is None:
        return default
    prefix, _, number = cursor.partition("-")
    if prefix != "after" or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise UserError(f"{cursor!r} is not a cursor of this store: pass the one that came with a page.")
    return int(number)


def check_status(status: RequestStatus | RunStatus | None, of: str) -> None:
    """Refuse a status that no row can have: a filter with it would only ever find nothing."""
    known: tuple[str, ...] = get_args(RunStatus if of == "run" else RequestStatus)
    if status is not None and status not in known:
        raise UserError(f"A {of} is {', '.join(known[:-1])} or {known[-1]}, never {status!r}: ask for one of these.")


_STOPPED = "stopped IS NOT NULL AND status <> 'ended'"
_STATUS_IS: dict[RunStatus, str] = {
    "running": "status = 'running' AND stopped IS NULL",
    "waiting": "status = 'waiting' AND stopped IS NULL",
    "stopped": _STOPPED,
    "ended": "status = 'ended'",
}


def status_filter(status: RunStatus | None) -> str:
    """The condition for runs that are shown with this status, in both dialects."""
    return "" if status is None else f"AND {_STATUS_IS[status]} "


_RUN_IS = "run = (SELECT number FROM placet_runs WHERE id = :run_id)"


def filtered(given: Given, *names: str) -> str:
    """The conditions of a query: those of these columns that it is given a value for."""
    wanted = [name for name in names if given[name] is not None]
    return "".join(f"AND {_RUN_IS if name == 'run_id' else f'{name} = :{name}'} " for name in wanted)


def check_limit(limit: int) -> int:
    given: object = limit
    if not isinstance(given, int) or not 1 <= limit <= 10_000:
        raise UserError(f"A page holds between 1 and 10000 rows, not {limit!r}.")
    return limit


# -- for the audit ----------------------------------------------------------------------------------------------------

_FLAGS = ("holds_session", "revoked")
"""Columns that are numbers in one dialect and truths in the other."""


def indexed_run(runs: Sequence[Row], requests: Sequence[Row]) -> IndexedRun | None:
    """Out of the rows of `indexed_run` and `indexed_requests`."""
    if not runs:
        return None
    return IndexedRun(run=_named(INDEXED_RUN, runs[0]), requests=[_named(INDEXED_REQUEST, row) for row in requests])


def indexed_operators(grants: Sequence[Row], strays: Sequence[Row]) -> IndexedOperators:
    return IndexedOperators(
        grants=[_named(INDEXED_GRANT, row) for row in grants], strays=[str(row[0]) for row in strays]
    )


def _named(names: Sequence[str], row: Row) -> dict[str, object]:
    found = dict(zip(names, row, strict=True))
    return {name: bool(value) if name in _FLAGS else value for name, value in found.items()}

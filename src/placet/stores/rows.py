"""From the columns of a store to the rows that a desk shows, and the cursors between pages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec

from placet.core.index import Closed, RequestRow, RequestStatus, RunStatus, shown_status
from placet.facts.codec import encode
from placet.facts.errors import StoreError, UserError
from placet.facts.events import Fact, GrantMade
from placet.facts.ids import session_of_key
from placet.ports import OldestRequest, Page, RunRow, StoreNumbers

R = TypeVar("R")
V = TypeVar("V")

_request_decoder = msgspec.json.Decoder(RequestRow)
_grant_decoder = msgspec.json.Decoder(GrantMade)


class Closing(msgspec.Struct, frozen=True, array_like=True):
    """How a question ended: who, when, why, and by which standing decision."""

    by: str | None
    at: float | None
    reason: str | None
    grant: str | None = None


_closing_decoder = msgspec.json.Decoder(Closing)


def text_of(row: RequestRow | Fact) -> str:
    return encode(row).decode()


def closing_text(change: Closed) -> str:
    return encode(Closing(change.by, change.at, change.reason, change.grant)).decode()


def read_closing(closing: str) -> Closing:
    return _closing_decoder.decode(closing)


def read_request(
    data: str, status: RequestStatus, closing: str | None, escalated_at: float | None = None
) -> RequestRow:
    try:
        row = _request_decoder.decode(data)
        end = _closing_decoder.decode(closing) if closing is not None else Closing(None, None, None)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"A stored request cannot be read ({error}): it was altered, or written by newer code."
        ) from error
    return msgspec.structs.replace(
        row,
        status=status,
        decided_by=end.by,
        decided_at=end.at,
        reason=end.reason,
        grant=end.grant,
        escalated_at=escalated_at,
        expires_at=row.expires_at if escalated_at is None else None,
    )


def read_grant(data: str) -> GrantMade:
    try:
        return _grant_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"A stored grant cannot be read ({error}): it was altered, or written by newer code."
        ) from error


def checked(run_id: str, length: int, lines: Sequence[tuple[object, int, int]], start: int = 0) -> list[bytes]:
    """The texts of a log from `start` on, from each line's text, checksum and position; StoreError if it is not what
    was written."""
    for position, (text, checksum, stored_position) in enumerate(lines, start):
        if not isinstance(text, bytes) or stored_position != position or zlib.crc32(text) != checksum:
            raise _damaged(run_id, position)
    if start + len(lines) != length:
        raise _damaged(run_id, start + len(lines))
    return [text for text, *_ in lines if isinstance(text, bytes)]


def _damaged(run_id: str, position: int) -> StoreError:
    return StoreError(
        f"The stored log of run {run_id} is damaged at line {position}: restore it from a backup. "
        "Other runs are not affected."
    )


RunColumns: TypeAlias = tuple[Any, ...]  # Any: msgspec checks each of them
"""number, id, agent, status, created_at, updated_at, length, turn, session, final_output, stopped, started_by,
is_driven, has_news, takeovers, is_parked, wake_at, erased_at"""


def read_run(columns: RunColumns) -> RunRow:
    _, run_id, agent, status, created_at, updated_at, length, turn, session, output, stopped, by, *rest = columns
    is_driven, has_news, takeovers, is_parked, wake_at, erased_at = rest
    try:
        return msgspec.convert(
            {
                "id": run_id,
                "agent": agent,
                "status": shown_status(status, stopped),
                "created_at": created_at,
                "updated_at": updated_at,
                "length": length,
                "turn": turn,
                "session": session_of_key(session) if session is not None else None,
                "final_output": msgspec.json.decode(output) if output is not None else None,
                "stopped": stopped,
                "started_by": by,
                "is_driven": bool(is_driven),
                "has_news": bool(has_news),
                "takeovers": takeovers,
                "is_parked": bool(is_parked),
                "wake_at": wake_at,
                "erased_at": erased_at,
            },
            RunRow,
        )
    except msgspec.MsgspecError as error:
        raise StoreError(f"The stored row of run {run_id} cannot be read ({error}): it was altered.") from error


def read_numbers(columns: Sequence[Any]) -> StoreNumbers:  # Any: msgspec checks each of them
    *counted, oldest = columns
    names = StoreNumbers.__struct_fields__
    found = dict(zip(names, [*counted, _oldest(oldest, counted[0])], strict=True))
    return msgspec.convert(found, StoreNumbers)


def _oldest(data: str | None, now: float) -> OldestRequest | None:
    if data is None:
        return None
    row: RequestRow = read_request(data, "pending", None)
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


def check_limit(limit: int) -> int:
    given: object = limit
    if not isinstance(given, int) or not 1 <= limit <= 10_000:
        raise UserError(f"A page holds between 1 and 10000 rows, not {limit!r}.")
    return limit

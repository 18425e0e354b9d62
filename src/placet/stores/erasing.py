"""Erasing and deleting, in the words of every store on SQL: who may be erased, and what is left of what is gone."""

from __future__ import annotations

import msgspec

from placet.core.index import RequestRow
from placet.facts.errors import UserError
from placet.facts.events import DeletedRun, RunErased, RunsDeleted
from placet.stores.rows import Closing, read_closing, read_request, text_of

ERASED = "(erased)"
"""Stands where the arguments of a call stood."""


def check_status_to_erase(run_id: str, status: str | None) -> None:
    if status is None or status == "unbegun":
        raise UserError(f"There is no run {run_id} in this store.")
    if status != "ended":
        doing = "waits for people" if status == "waiting" else "is still running"
        raise UserError(f"Run {run_id} {doing}: only what has ended can be erased. Let it end, or cancel it, first.")


def with_place(wanted: RunErased, length: int, head: bytes) -> RunErased:
    return msgspec.structs.replace(wanted, length=length, head=head.hex())


def deleted(wanted: RunsDeleted, gone: list[DeletedRun]) -> RunsDeleted:
    return msgspec.structs.replace(wanted, runs=gone)


def request_erased(data: str) -> str:
    """A question without what was asked: that there was one, about which tool, and when."""
    row: RequestRow = read_request(data, "closed", None)
    blank = msgspec.structs.replace(row, arguments=ERASED, digest="", why=None, questions=None, status="pending")
    return text_of(blank)


def closing_erased(closing: str | None) -> str | None:
    """How a question ended, without by whom and why."""
    return None if closing is None else msgspec.json.encode(Closing(None, read_closing(closing).at, None)).decode()


def is_blank(row: RequestRow) -> bool:
    """Whether a question says no more than what erasing leaves of it."""
    said = (row.why, row.questions, row.decided_by, row.reason, row.grant)
    return (row.arguments, row.digest) == (ERASED, "") and not any(each is not None for each in said)

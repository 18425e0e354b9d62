"""Erasing and deleting: which run may be, what is left of it, and its entry in the operators' log."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from placet.core.index import RequestRecord
from placet.core.log import Log, read_line
from placet.facts.errors import UserError
from placet.facts.events import DeletedRun, RunErased, RunsDeleted
from placet.stores.sql.leases import driven_by
from placet.stores.sql.operators import last_line, locked_log, write_line
from placet.stores.sql.rows import Closing, checked, read_closing, read_request, text_of
from placet.stores.sql.statements import Given, Row, Statement, Steps

ERASED = "(erased)"
"""Stands where the arguments of a call stood."""


def delete(again: bool, run_id: str, wanted: RunsDeleted) -> Steps[bool]:
    operators = yield from locked_log()
    found = yield Statement("run_to_delete", {"id": run_id})
    if not found:
        done = (yield from _last_deletion(wanted)) if again else None
        return done is not None and done.runs[0].run == run_id
    ((number, length, head, driver),) = found
    if driver is not None:
        raise driven_by(run_id, driver)
    yield from _forget([(number, run_id)])
    if not length:
        return False  # somebody wanted to begin it, and never did
    fact = _deleted(wanted, [DeletedRun(run_id, length, head.hex())])
    yield from write_line(operators, operators.next_line(wanted.at, [fact]))
    return True


def purge(again: bool, limit: int, wanted: RunsDeleted) -> Steps[int]:
    """How many. The runs that ended before a time, and leases of runs that never began."""
    operators = yield from locked_log()
    if again and (done := (yield from _last_deletion(wanted))) is not None:
        return len(done.runs)
    found = yield Statement("ended_before", {"before": wanted.ended_before, "limit": limit})
    yield Statement("delete_unbegun")
    if found:
        yield from _forget([row[:2] for row in found])
        fact = _deleted(wanted, [DeletedRun(run_id, length, head.hex()) for _, run_id, length, head in found])
        yield from write_line(operators, operators.next_line(wanted.at, [fact]))
    return len(found)


def _forget(runs: Sequence[Row]) -> Steps[None]:
    """Runs, by number and id, with all that is kept of them."""
    given: list[Given] = [{"run": number, "id": run_id} for number, run_id in runs]
    for name in ("delete_lines", "delete_requests", "drop_fold", "forget_samples", "delete_run"):
        yield Statement(name, given)


def _deleted(wanted: RunsDeleted, gone: list[DeletedRun]) -> RunsDeleted:
    return msgspec.structs.replace(wanted, runs=gone)


def _last_deletion(wanted: RunsDeleted) -> Steps[RunsDeleted | None]:
    """What the first try did, if it did something and only its answer was lost."""
    text = yield from last_line()
    facts = read_line(text).facts if text is not None else []
    return next((fact for fact in facts if isinstance(fact, RunsDeleted) and _deleted(fact, []) == wanted), None)


# -- erasing ----------------------------------------------------------------------------------------------------------


def erase(again: bool, wanted: RunErased) -> Steps[bool]:
    """False: it was erased before."""
    operators = yield from locked_log()
    found = yield Statement("run_to_erase", {"id": wanted.run})
    _check_status(wanted.run, found[0][2] if found else None)
    ((number, length, _, head, key),) = found  # a driver that is about to let go of it writes nothing any more
    lines = yield Statement("lines_of", {"run": number})
    log = Log(wanted.run, key, head, checked(wanted.run, length, lines))
    if log.is_erased:
        return again  # the answer to the first try was lost
    yield from _erase_rows(number, log.erased(), wanted.at)
    fact = msgspec.structs.replace(wanted, length=length, head=head.hex())
    yield from write_line(operators, operators.next_line(wanted.at, [fact]))
    return True


def _erase_rows(number: int, erased: Log, at: float) -> Steps[None]:
    lines: list[Given] = [
        {"run": number, "position": position, "text": text, "checksum": zlib.crc32(text)}
        for position, text in enumerate(erased.lines)
    ]
    yield Statement("erase_line", lines)
    asked = yield Statement("requests_to_erase", {"run": number})
    requests: list[Given] = [
        {"ordinal": ordinal, "data": request_erased(data), "closing": closing_erased(closing)}
        for ordinal, data, closing in asked
    ]
    if requests:
        yield Statement("erase_request", requests)
    yield Statement("drop_fold", {"id": erased.run_id})
    yield Statement("forget_samples", {"id": erased.run_id})
    yield Statement("erase_run", {"run": number, "at": at, "key": b""})


def _check_status(run_id: str, status: str | None) -> None:
    if status is None or status == "unbegun":
        raise UserError(f"There is no run {run_id} in this store.")
    if status != "ended":
        doing = "waits for people" if status == "waiting" else "is still running"
        raise UserError(f"Run {run_id} {doing}: only what has ended can be erased. Let it end, or cancel it, first.")


def request_erased(data: str) -> str:
    """A question without what was asked: that there was one, about which tool, and when."""
    row: RequestRecord = read_request(data, "closed", None)
    blank = msgspec.structs.replace(
        row,
        arguments_text=ERASED,
        digest="",
        why=None,
        questions=None,
        proposed=None,
        summary=None,
        rules=(),
        status="pending",
    )
    return text_of(blank)


def closing_erased(closing: str | None) -> str | None:
    """How a question ended, without by whom and why."""
    return None if closing is None else msgspec.json.encode(Closing(None, read_closing(closing).at, None)).decode()


def is_blank(row: RequestRecord) -> bool:
    """Whether a question says no more than what erasing leaves of it."""
    said = (row.why, row.questions, row.decided_by, row.reason, row.grant, row.proposed, row.summary)
    is_silent = not row.rules and not any(each is not None for each in said)
    return (row.arguments_text, row.digest) == (ERASED, "") and is_silent

"""The columns of a run's row: what its log says of it (written with each append), and what lists show of it (read)."""

from __future__ import annotations

import msgspec

from placet.core.guest import wakes_at
from placet.core.index import RunRecord, RunStatus, run_status
from placet.core.state import RunFold
from placet.facts.codec import encode


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
    return min((call.expires_at for _, call in run.waiting() if call.expires_at is not None), default=None)


INDEXED_RUN = (*RunColumns.__struct_fields__, "created_at", "erased_at")
INDEXED_REQUEST = ("id", "call", "number", "status", "agent", "tool", "data", "closing", "escalated_at")
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

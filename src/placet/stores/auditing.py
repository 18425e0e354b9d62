"""What a store has indexed, column by column, for the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placet.ports import IndexedOperators, IndexedRun

_FLAGS = ("holds_session", "revoked")
"""Columns that are numbers in one dialect and truths in the other."""
RUN = (
    "agent", "status", "turn", "session", "holds_session", "final_output", "stopped", "started_by", "wake_at",
    "created_at", "updated_at", "ended_at", "erased_at",
)  # fmt: skip
REQUEST = ("id", "call", "number", "status", "agent", "tool", "data", "closing", "escalated_at")
GRANT = ("id", "agent", "data", "revoked")

Rows = Sequence[Sequence[Any]]  # Any: what the columns hold


def indexed_run(runs: Rows, requests: Rows) -> IndexedRun | None:
    """Out of the rows of `indexed_run` and `indexed_requests`."""
    if not runs:
        return None
    return IndexedRun(run=_named(RUN, runs[0]), requests=[_named(REQUEST, row) for row in requests])


def indexed_operators(grants: Rows, strays: Rows) -> IndexedOperators:
    return IndexedOperators(grants=[_named(GRANT, row) for row in grants], strays=[str(row[0]) for row in strays])


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, object]:  # Any: as above
    found = dict(zip(names, row, strict=True))
    return {name: bool(value) if name in _FLAGS else value for name, value in found.items()}

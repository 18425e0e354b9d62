"""The sweep for ladders and deadlines: one look into an index, however many questions wait."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from placet.stores.opening import open_store
from placet.stores.sql.statements import statement_text

MANY = 100_000
"""Waiting questions with a ladder."""


@pytest.mark.parametrize("name", ["runnable", "guests_due"])
async def test_what_is_due_is_found_by_an_index_among_a_hundred_thousand_that_wait(tmp_path: Path, name: str) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'placet.db'}") as store:
        await store.numbers()  # the schema is there now
    given = {"due": 1_000.0, "limit": 200, "guests": "%/%", "now": 1_000.0}
    with sqlite3.connect(tmp_path / "placet.db") as found:
        found.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO placet_runs (id, length, agent, status, wake_at) "
            "SELECT 'run_' || i, 4, 'Support', 'waiting', 1000.0 + i FROM n",
            [MANY],
        )
        text = statement_text("sqlite", name, {})
        plan = [row[3] for row in found.execute(f"EXPLAIN QUERY PLAN {text}", given)]
        none_due = found.execute(text, given | {"due": 999.0}).fetchall()
        due = found.execute(text.replace("LIKE :guests", "<> :guests"), given | {"due": 1_002.0}).fetchall()

    scans = [step for step in plan if step.startswith("SCAN placet_runs") and "INDEX" not in step]
    assert scans == []
    assert any("placet_runs_to_wake" in step for step in plan)
    assert none_due == []
    assert due == [("run_1",), ("run_2",)]

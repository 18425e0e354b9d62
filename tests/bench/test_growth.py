"""What many waiting runs cost those that are at work, in pages of the database: those cannot flake as times do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.durable.script import EFFECTS
from bench.systems.growth import MOST, measure
from tests.support.postgres import PostgresServer

FEW, MANY = 600, 12_000
PARKED = 3_000
"""Bytes of a run that waits, with its log, its row, its question and all their indexes."""


async def test_nothing_that_is_at_work_reads_more_pages_because_many_runs_wait(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EFFECTS, str(tmp_path / "effects"))

    found, weight = await asyncio.wait_for(measure(postgres.new_database(), (FEW, MANY), 3), 300)

    assert {
        title: cost.pages for title, cost in found[MANY].items() if cost.pages > MOST * found[FEW][title].pages
    } == {}
    assert min(cost.pages for cost in found[FEW].values()) > 5, "the pages were counted"
    assert weight <= PARKED

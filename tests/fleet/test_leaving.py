"""A driver that leaves: the run stands at a good place, and whoever looks next finds that there is work."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from placet.declare.run_config import RunConfig
from placet.desk import Desk
from placet.service.driving import Contexts, RunDriver
from placet.stores.sqlite import SQLiteStore
from tests.desk.scenes import Witness, support
from tests.fleet.scenes import sooner_or_later


async def test_what_a_driver_leaves_in_the_middle_is_found_as_having_work(tmp_path: Path, witness: Witness) -> None:
    agent = support(witness)
    async with SQLiteStore(tmp_path / "p.db", lease_ttl=3.0) as store:
        desk = Desk(store, agents=[agent], run=False)
        leaving, staying = (RunDriver(store, [agent], Contexts(), RunConfig()) for _ in range(2))
        run = await desk.start("Support", "x")
        leaving.leave()
        came_of_it = await leaving.drive(run.id)
        left = await store.load(run.id)

        async def is_found() -> bool:
            return await store.runnable(desk._now(), 10) == [run.id]

        await sooner_or_later(is_found)
        await staying.drive(run.id)
        paused = await desk.get(run.id)

    assert came_of_it
    assert left is not None
    assert left.length == 1, "no model was asked"
    assert paused.status == "waiting"


async def test_a_driver_that_leaves_begins_no_call_that_was_approved(tmp_path: Path, witness: Witness) -> None:
    agent = support(witness)
    async with SQLiteStore(tmp_path / "p.db", lease_ttl=3.0) as store:
        desk = Desk(store, agents=[agent], run=False)
        driver = RunDriver(store, [agent], Contexts(), RunConfig())
        run = await desk.start("Support", "x")
        await driver.drive(run.id)
        (asked,) = await desk.pending()
        await desk.decide(asked.id, "approve", by="ana")
        driver.leave()
        await driver.drive(run.id)
        lines = witness.lines()
        await asyncio.sleep(0.1)
        await RunDriver(store, [agent], Contexts(), RunConfig()).drive(run.id)

    assert lines == []
    assert witness.lines() == ["refund 7"]


async def test_a_run_that_cannot_be_loaded_is_left_alone_and_the_log_says_why(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = support(witness)
    async with SQLiteStore(tmp_path / "p.db") as store:
        desk = Desk(store, agents=[agent], run=False)
        driver = RunDriver(store, [agent], Contexts(), RunConfig())
        run = await desk.start("Support", "x")
        monkeypatch.setattr(driver, "_load", broken_load)
        with caplog.at_level(logging.WARNING, "placet"):
            came_of_it = await driver.drive(run.id)

    assert not came_of_it, "an engine would try it again at once, for ever"
    assert "a file is missing" in caplog.text


async def broken_load(_run_id: str) -> None:
    raise FileNotFoundError("a file is missing")

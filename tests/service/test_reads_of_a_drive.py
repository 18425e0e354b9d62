"""A drive reads its run's log once, unless another driver was there in between."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, RunConfig, function_tool
from placet.desk import Desk
from placet.ports import Lease
from placet.service.driving import Contexts, RunDriver
from placet.stores.opening import open_store
from placet.stores.sqlite.file import SQLiteFile
from placet.testing import function_call
from tests.desk.scenes import PATIENCE, Planned, Witness, outputs, support

LOG = "SELECT r.length, r.head, r.key, l.text"
ROW = "SELECT number, id, agent, status"


async def test_a_drive_reads_its_log_once_and_its_row_not_at_all(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    connect = SQLiteFile.connect

    def traced(file: SQLiteFile, **options: Any) -> sqlite3.Connection:
        db = connect(file, **options)
        db.set_trace_callback(seen.append)
        return db

    monkeypatch.setattr(SQLiteFile, "connect", traced)
    async with Desk(f"sqlite:///{tmp_path / 'placet.db'}", agents=[support(witness)], run=False) as desk:
        run = await desk.start("Support", "x")
        seen.clear()

        assert await RunDriver(desk.store, [support(witness)], Contexts(), RunConfig()).drive(run.id)

        assert sum(text.startswith(LOG) for text in seen) == 1
        assert sum(text.startswith(ROW) for text in seen) == 0


@pytest.mark.promise("P4")
async def test_a_driver_that_comes_after_another_reads_what_that_one_did(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first driver is in the middle of a call when the second reads the log, and is done when it gets its lease:
    with the log that it read, the second would take the call for one in doubt."""
    began, may_end, effects = asyncio.Event(), asyncio.Event(), []

    @function_tool
    async def pay() -> str:
        effects.append("paid")
        began.set()
        await may_end.wait()
        return "paid"

    agent: Agent[Any] = Agent("Payer", tools=[pay], model=Planned([function_call("pay", {}, call_id="c")]))
    async with open_store(any_url) as store, Desk(store, agents=[agent], run=False) as desk:
        run = await desk.start("Payer", "x")
        first, second = (RunDriver(store, [agent], Contexts(), RunConfig()) for _ in range(2))
        driving = asyncio.create_task(first.drive(run.id))
        await asyncio.wait_for(began.wait(), PATIENCE)
        lease = store.lease

        async def lease_when_the_first_is_done(run_id: str, driver: object) -> Lease:
            may_end.set()
            await asyncio.wait_for(driving, PATIENCE)
            return await lease(run_id, driver)

        monkeypatch.setattr(store, "lease", lease_when_the_first_is_done)
        is_done = await second.drive(run.id)
        ended = await desk.get(run.id)

        assert (ended.status, ended.final_output, effects) == ("ended", "done", ["paid"])
        assert await outputs(desk, run.id) == ["paid"]
        assert is_done, "it found the run's end, and did not stumble over a call that it took for begun"

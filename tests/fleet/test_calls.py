"""A worker with a free place is called by its name; a call that is lost or cannot be followed costs time only."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from placet import Agent, function_tool
from placet.desk import Desk
from placet.fleet import procrastinate_engine
from placet.testing import function_call
from tests.desk.scenes import Planned, Witness, support
from tests.fleet.scenes import PATIENCE, desk, rows, sooner_or_later, worker
from tests.support.postgres import PostgresServer

ALIVE = "0, placet_now() + 3600"
LISTED = (
    "INSERT INTO placet_workers (name, code, library, agents, capacity, driving, stopping, listens, started_at, "
    "seen_at) VALUES ('called', '', '3', '{Support}', 4, %s) RETURNING id"
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.fleet_database()


async def listed(made: Desk, state: str) -> int:
    """A worker that is only a row: driving, stopping, listens, and when it gave a sign of life."""
    ((number,),) = await rows(made, LISTED % state)
    return int(number)


async def jobs(made: Desk) -> list[str]:
    return [run for (run,) in await rows(made, "SELECT args->>'run' FROM procrastinate_jobs ORDER BY id")]


async def test_a_worker_with_a_free_place_is_called_by_its_name_and_no_job_is_made(url: str, witness: Witness) -> None:
    async with desk(url, support(witness)) as made, await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        called = await listed(made, f"0, false, true, {ALIVE}")
        await db.execute(f"LISTEN placet_worker_{called}".encode())
        run = await made.start("Support", "x")
        heard = [each.payload async for each in db.notifies(timeout=PATIENCE, stop_after=1)]

        assert heard == [run.id]
        assert await jobs(made) == []


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(f"4, false, true, {ALIVE}", id="without a free place"),
        pytest.param(f"0, false, false, {ALIVE}", id="of older code, or behind a pooler"),
        pytest.param("0, false, true, 0, placet_now() - 20", id="silent for a while"),
    ],
)
async def test_a_worker_that_may_not_hear_a_call_gets_a_job(url: str, witness: Witness, state: str) -> None:
    async with desk(url, support(witness)) as made:
        await listed(made, state)
        run = await made.start("Support", "x")

        assert await jobs(made) == [run.id]


async def test_a_start_that_is_not_committed_calls_no_worker(url: str, witness: Witness) -> None:
    async with desk(url, support(witness)) as made, await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        run = await made.start("Support", "x")
        called = await listed(made, f"0, false, true, {ALIVE}")
        await db.execute(f"LISTEN placet_worker_{called}".encode())
        with psycopg.connect(url) as other:
            other.execute(b"UPDATE placet_runs SET news_at = 1")
            other.rollback()
        await made.cancel(run.id)
        heard = [each.payload async for each in db.notifies(timeout=PATIENCE, stop_after=1)]

        assert heard == [run.id], "the cancellation's call, and none before it"


@pytest.mark.promise("P5")
async def test_calls_to_a_worker_that_died_are_found_by_looking(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent, listen=False):
        await listed(made, f"0, false, true, {ALIVE}")  # the only one that can be called, and it is gone
        runs = [await made.start("Support", "x") for _ in range(3)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        for asked in await made.pending():
            await made.decide(asked.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]

    assert {run.status for run in ended} == {"ended"}
    assert witness.lines() == ["refund 7"] * 3


@pytest.mark.promise("P4")
async def test_calls_that_come_twice_run_nothing_twice(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent), worker(url, agent):
        await rows(
            made,
            "CREATE FUNCTION call_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_notify('placet_worker_' || id, NEW.id) FROM placet_workers; RETURN NULL; END $$",
        )
        await rows(
            made,
            "CREATE TRIGGER call_all AFTER UPDATE OF length, news_at ON placet_runs FOR EACH ROW "
            "EXECUTE FUNCTION call_all()",
        )
        runs = [await made.start("Support", "x") for _ in range(5)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        for asked in await made.pending():
            await made.decide(asked.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]

    assert {run.status for run in ended} == {"ended"}
    assert witness.lines() == ["refund 7"] * 5


async def test_a_call_without_a_free_place_becomes_a_job_for_others(url: str, witness: Witness) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @function_tool
    async def linger() -> str:
        began.set()
        await may_end.wait()
        return "done"

    slow: Agent[Any] = Agent("Slow", tools=[linger], model=Planned([function_call("linger", {}, call_id="c")]))
    async with desk(url, slow, support(witness)) as made, worker(url, slow, support(witness), concurrency=1) as busy:
        await sooner_or_later(lambda: busy.engine.registration.listens)
        first = await made.start("Slow", "x")
        await asyncio.wait_for(began.wait(), PATIENCE)
        second = await made.start("Support", "x")

        async def has_a_job() -> bool:
            return second.id in await jobs(made)

        await sooner_or_later(has_a_job)
        may_end.set()
        ended = await made.wait(first.id, timeout=PATIENCE)
        paused = await made.wait(second.id, until="paused", timeout=PATIENCE)

    assert (ended.status, paused.status) == ("ended", "waiting")


async def test_calls_wait_a_moment_for_a_place_and_a_crowd_of_starts_makes_no_job(
    url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procrastinate_engine, "PATIENCE_WITH_CALLS", PATIENCE)
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent, concurrency=1) as busy:
        await sooner_or_later(lambda: busy.engine.registration.listens)
        for name in ("beat", "sweep"):  # a row that says «full» and a look for what was lost make jobs, rightly
            monkeypatch.setattr(busy.engine.registration if name == "beat" else busy.engine, name, _nothing)
        runs = await asyncio.gather(*(made.start("Support", "x") for _ in range(8)))
        paused = [await made.wait(run.id, until="paused", timeout=PATIENCE) for run in runs]
        ((has_made_jobs,),) = await rows(made, "SELECT is_called FROM procrastinate_jobs_id_seq")

    assert {run.status for run in paused} == {"waiting"}
    assert not has_made_jobs


async def _nothing() -> int:
    return 0

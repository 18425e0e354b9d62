"""The queue is a doorbell: every transaction with news rings, and lost or repeated rings cost time and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import psycopg
import pytest

from placet import Agent
from placet.desk import Desk
from placet.fleet.procrastinate_engine import TASK
from placet.fleet.schema import migrate
from placet.stores.postgres import PostgresStore
from tests.desk.scenes import Planned, Witness, support
from tests.fleet.scenes import PATIENCE, desk, rows, sooner_or_later, worker
from tests.support.postgres import PostgresServer

JOBS = "SELECT queue_name, task_name, priority, queueing_lock, args FROM procrastinate_jobs ORDER BY id"


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.fleet_database()


@pytest.fixture
async def quiet_url(url: str) -> str:
    """A database in which a worker is listed that drives nothing: rings stay where they were put."""
    async with PostgresStore(url) as store:
        await migrate(store)
        await store.query(
            b"INSERT INTO placet_workers (name, code, library, agents, capacity, started_at, seen_at) "
            b"VALUES ('deaf', '', '3', '{Support}', 1, 0, placet_now() + 3600)"
        )
    return url


async def test_a_start_rings_in_its_own_transaction_and_only_once(quiet_url: str, witness: Witness) -> None:
    async with desk(quiet_url, support(witness)) as made:
        run = await made.start("Support", "x")
        await made.cancel(run.id)
        jobs = await rows(made, JOBS)

    assert jobs == [("placet:Support", TASK, 0, f"placet:{run.id}", {"run": run.id})]


async def test_a_start_that_is_not_committed_rings_for_nobody(quiet_url: str, witness: Witness) -> None:
    async with desk(quiet_url, support(witness)) as made:
        run = await made.start("Support", "x")
        await rows(made, "DELETE FROM procrastinate_jobs")
        with psycopg.connect(quiet_url) as db:
            db.execute(b"UPDATE placet_runs SET news_at = 1")
            (inside,) = db.execute(b"SELECT count(*) FROM procrastinate_jobs").fetchone() or (None,)
            db.rollback()
        after = await rows(made, JOBS)

    assert run.status == "running"
    assert (inside, after) == (1, [])


async def test_nobody_is_rung_for_where_no_worker_has_the_agent(quiet_url: str, witness: Witness) -> None:
    async with desk(quiet_url, support(witness), Agent("Elsewhere", model=Planned())) as made:
        await made.start("Elsewhere", "x")
        jobs = await rows(made, JOBS)

    assert jobs == []


async def test_a_run_that_is_driven_rings_for_nobody_because_its_driver_looks_again(
    quiet_url: str, witness: Witness
) -> None:
    driver = Driver()
    async with desk(quiet_url, support(witness)) as made:
        run = await made.start("Support", "x")
        await rows(made, "DELETE FROM procrastinate_jobs")
        lease = await made.store.lease(run.id, driver)
        await made.cancel(run.id)
        jobs = await rows(made, JOBS)
        gave_back = await made.store.release(lease, 1)

    assert jobs == []
    assert not gave_back


@pytest.mark.promise("P5")
async def test_emptying_the_queue_costs_time_and_nothing_else(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent):
        await only_by_jobs(made)
        emptying = asyncio.create_task(keep_emptying(url))
        runs = [await made.start("Support", "x") for _ in range(10)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        for asked in await made.pending(limit=50):
            await made.decide(asked.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]
        emptying.cancel()

    assert {run.status for run in ended} == {"ended"}
    assert witness.lines() == ["refund 7"] * 10


async def only_by_jobs(made: Desk) -> None:
    """From now on no worker hears calls, as if all were of older code."""
    await rows(
        made,
        "CREATE FUNCTION be_deaf() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.listens := false; RETURN NEW; END $$",
    )
    await rows(
        made,
        "CREATE TRIGGER be_deaf BEFORE INSERT OR UPDATE ON placet_workers FOR EACH ROW EXECUTE FUNCTION be_deaf()",
    )
    await rows(made, "UPDATE placet_workers SET listens = false")


async def keep_emptying(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        while True:
            await db.execute(b"DELETE FROM procrastinate_jobs WHERE status = 'todo'")
            await asyncio.sleep(0.03)  # a busy worker needs a moment to hear a ring at all


@pytest.mark.promise("P4")
async def test_every_job_delivered_twice_runs_nothing_twice(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent), worker(url, agent):
        await only_by_jobs(made)
        for statement in DELIVER_TWICE:
            await rows(made, statement)
        runs = [await made.start("Support", "x") for _ in range(10)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        for asked in await made.pending(limit=50):
            await made.decide(asked.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]
        ((doubled,),) = await rows(made, "SELECT last_value FROM doubled")

    assert doubled >= 20
    assert {run.status for run in ended} == {"ended"}
    assert witness.lines() == ["refund 7"] * 10


DELIVER_TWICE = (
    "CREATE SEQUENCE doubled",
    """
CREATE FUNCTION deliver_twice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.queueing_lock IS NOT NULL THEN
        PERFORM nextval('doubled');
        INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES (NEW.queue_name, NEW.task_name, NEW.args);
    END IF;
    RETURN NULL;
END $$
""",
    "CREATE TRIGGER deliver_twice AFTER INSERT ON procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION deliver_twice()",
)


async def test_jobs_that_were_done_are_gone_with_all_that_was_noted_of_them(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent):
        await only_by_jobs(made)
        run = await made.start("Support", "x")
        await made.wait(run.id, until="paused", timeout=PATIENCE)

        async def is_empty() -> bool:
            ((left,),) = await rows(made, "SELECT (SELECT count(*) FROM procrastinate_jobs) + "
                                          "(SELECT count(*) FROM procrastinate_events)")  # fmt: skip
            return bool(left == 0)

        await sooner_or_later(is_empty)


async def test_what_a_dead_worker_left_in_the_queue_is_swept_away(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made:
        await migrate(made.store)  # type: ignore[arg-type]  # it is one on PostgreSQL
        insert = "INSERT INTO procrastinate_jobs (queue_name, task_name, status) VALUES "
        await rows(made, insert + "('placet:Support', 'placet:advance', 'doing')")
        await rows(made, insert + "('placet:@999', 'placet:advance', 'todo')")
        await rows(made, insert + "('theirs', 'their_task', 'doing')")
        async with worker(url, agent):

            async def is_swept() -> bool:
                return await rows(made, "SELECT task_name FROM procrastinate_jobs") == [("their_task",)]

            await sooner_or_later(is_swept)


async def test_a_name_too_long_for_a_channel_gets_a_queue_all_the_same(url: str, witness: Witness) -> None:
    agents: list[Agent[Any]] = [Agent(name, model=Planned()) for name in ("Ä" * 100, "B" * 33, "C" * 32)]
    async with desk(url, *agents) as made, worker(url, *agents):
        runs = [await made.start(agent.name, "hello") for agent in agents]
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]

    assert {run.status for run in ended} == {"ended"}


async def test_without_listening_decisions_are_heard_by_looking(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent, listen=False):
        run = await made.start("Support", "x")
        await made.wait(run.id, until="paused", timeout=PATIENCE)
        ((listening,),) = await rows(made, "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'listen%'")
        (asked,) = await made.pending()
        await made.decide(asked.id, "approve", by="ana")
        ended = await made.wait(run.id, timeout=PATIENCE)

    assert ended.status == "ended"
    assert listening <= 1, "only the desk listens"


@pytest.mark.parametrize("listen", [True, False])
async def test_what_happens_anywhere_reaches_every_desk_with_and_without_listening(
    url: str, witness: Witness, listen: bool
) -> None:
    agent = support(witness)
    async with PostgresStore(url, listen=listen) as store, desk(url, agent) as deciding, worker(url, agent):
        seen: list[str] = []
        following = asyncio.create_task(follow(Desk(store, run=False), seen))
        await sooner_or_later(lambda: "following" in seen)
        run = await deciding.start("Support", "x")
        await sooner_or_later(lambda: "CallHeld" in seen)
        (asked,) = await deciding.pending(run_id=run.id)
        await deciding.decide(asked.id, "approve", by="ana")
        await sooner_or_later(lambda: "RunEnded" in seen)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    assert seen.index("RunStarted") < seen.index("CallHeld") < seen.index("DecisionMade") < seen.index("RunEnded")


async def follow(made: Desk, seen: list[str]) -> None:
    after = await made.store.latest_sequence()
    seen.append("following")
    async with aclosing(made.events(after=after)) as events:
        async for event in events:
            seen.append(type(event.fact).__name__)  # noqa: PERF401  # one by one, as they come


class Driver:
    """Stands for a drive."""

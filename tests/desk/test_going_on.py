"""What comes from elsewhere is noticed at once, and what goes wrong elsewhere is overcome: other processes' decisions,
holds, drivers that die again and again, logs that are damaged, databases that go away."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from placet import Agent, StoreError, UserError, function_tool
from placet.core.log import read_lines
from placet.desk import Desk
from placet.facts.codec import JsonObject
from placet.facts.events import RunStopped
from placet.ports import Hold, ModelRequest
from placet.service import embedded
from placet.service.driving import MAX_TAKEOVERS
from placet.stores.memory import MemoryStore
from placet.stores.opening import open_store
from placet.stores.sqlite import SQLiteStore
from placet.testing import ManualClock, function_call
from placet.testing.desk_contracts import Driver, until
from tests.desk.scenes import PATIENCE, Planned, Witness, paused, refunds, support
from tests.desk.test_processes import said, worker
from tests.support.postgres import PostgresServer


async def test_a_decision_of_another_desk_is_noticed_without_waiting_for_the_next_sweep(
    any_url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "SWEEP_SECONDS", 3600.0)
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request), Desk(any_url, run=False) as elsewhere:
        await elsewhere.decide(request.id, "approve", by="ana")
        ended = await elsewhere.wait(run.id, timeout=120)  # a busy machine may be slow; a sweep would take an hour

    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_an_engine_that_does_not_hear_of_news_finds_it_by_looking(
    any_url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(any_url, agents=[support(witness)])

    async def deaf(*_: object) -> bool:
        await asyncio.sleep(3600)
        return False

    async with paused(desk) as (run, request), Desk(any_url, run=False) as elsewhere:
        monkeypatch.setattr(desk.store, "wait_for_news", deaf)
        await elsewhere.decide(request.id, "approve", by="ana")
        ended = await elsewhere.wait(run.id, timeout=PATIENCE)

    assert ended.status == "ended"


# -- held by an operator ----------------------------------------------------------------------------------------------


async def test_whoever_waits_for_a_pause_is_told_that_an_operator_holds_the_run(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        before = (await desk.get(run.id)).held
        await desk.hold("tool", "refund", by="ops", reason="the bank is down")
        asked = (await desk.get(run.id)).held
        await desk.decide(request.id, "approve", by="ana")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        await desk.release_hold("tool", "refund", by="ops")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (before, asked) == (None, None), "it waits for a reviewer, not for the operator"
    assert (rested.status, rested.held) == ("running", "tool refund is held by ops: the bank is down")
    assert (ended.status, ended.held) == ("ended", None)


async def test_a_held_call_beside_one_that_waits_is_a_pause_too(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness, refunds(7, 8))])
    async with paused(desk) as (run, request):
        await desk.hold("run", run.id, by="ops")
        await desk.decide(request.id, "approve", by="ana")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)

    assert (rested.status, rested.held) == ("waiting", f"run {run.id} is held by ops")


# -- drivers that die -------------------------------------------------------------------------------------------------


async def test_a_run_that_took_too_many_drivers_down_is_parked_until_somebody_resumes_it(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        pass
    async with open_store(any_url) as store:
        await Desk(store, run=False).decide(request.id, "approve", by="ana")
        for _ in range(MAX_TAKEOVERS + 1):  # the first takes over from nobody
            await store.lease(run.id, Driver())  # and is gone at once
            gc.collect()
        last = Driver()
        await store.release(await store.lease(run.id, last), 10**9)
    async with Desk(any_url, agents=[support(witness)]) as desk:

        async def is_parked() -> bool:
            return (await desk.get(run.id)).is_parked

        await until(is_parked)
        parked = await desk.get(run.id)
        before = witness.lines()
        await desk.resume(run.id, by="ops")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (parked.status, before) == ("running", [])
    assert (ended.status, ended.is_parked) == ("ended", False)
    assert witness.lines() == ["refund 7"]


async def test_a_run_with_one_take_over_less_is_driven(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        pass
    async with open_store(url) as store:
        await Desk(store, run=False).decide(request.id, "approve", by="ana")
        for _ in range(MAX_TAKEOVERS - 1):
            await store.lease(run.id, Driver())
            gc.collect()
        last = Driver()
        await store.release(await store.lease(run.id, last), 10**9)
        row = await store.run(run.id)
    async with Desk(url, agents=[support(witness)]) as desk:
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert row is not None
    assert row.takeovers == MAX_TAKEOVERS - 1
    assert ended.status == "ended"


# -- other processes --------------------------------------------------------------------------------------------------


async def test_a_second_process_is_told_everything_that_happens_in_order(any_url: str, witness: Witness) -> None:
    with worker("follow", any_url) as follower:
        assert await asyncio.to_thread(said, follower) == "following"
        desk = Desk(any_url, agents=[support(witness)])
        async with paused(desk) as (run, request):
            await desk.decide(request.id, "approve", by="ana")
            await desk.wait(run.id, timeout=PATIENCE)
            stored = await desk.store.load(run.id)
        async with asyncio.timeout(PATIENCE):
            told = [(await asyncio.to_thread(said, follower)).split() for _ in range(10)]

    assert stored is not None
    assert [each[0] for each in told] == [run.id] * 10
    assert [int(each[1]) for each in told] == sorted(int(each[1]) for each in told)
    assert [each[2] for each in told] == [
        "RunStarted",
        "RequestSent",
        "ResponseReceived",
        "CallHeld",
        "DecisionMade",
        "CallsStarted",
        "CallEnded",
        "RequestSent",
        "ResponseReceived",
        "RunEnded",
    ]


# -- damaged rows -----------------------------------------------------------------------------------------------------


def _damage(url: str, run_id: str) -> None:
    change = (
        "UPDATE placet_lines SET text = {} WHERE run = (SELECT number FROM placet_runs WHERE id = {}) AND position = 1"
    )
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
            db.execute(change.format("CAST('[]' AS BLOB)", "?"), (run_id,))
    else:
        with psycopg.connect(url) as db:
            db.execute(change.format("'[]'::bytea", "%s").encode(), (run_id,))


async def test_a_damaged_row_stops_its_own_run_with_a_clear_error_and_no_other(
    any_url: str, witness: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.hold("run", run.id)
        await desk.decide(request.id, "approve", by="ana")
    _damage(any_url, run.id)
    with caplog.at_level(logging.WARNING, "placet.fleet"):
        async with Desk(any_url, agents=[support(witness)]) as desk:
            await desk.release_hold("run", run.id)
            other = await desk.start("Support", "go")
            await desk.wait(other.id, until="paused", timeout=PATIENCE)
            (asked,) = await desk.pending(run_id=other.id)
            await desk.decide(asked.id, "approve", by="ana")
            ended = await desk.wait(other.id, timeout=PATIENCE)
            with pytest.raises(StoreError, match=f"log of run {run.id} is damaged at line 1: restore it from a backup"):
                await desk.cancel(run.id)

            async def is_said() -> bool:
                said_of_it = [each for each in caplog.records if each.__dict__.get("run_id") == run.id]
                return any("is damaged at line 1" in str(each.__dict__.get("error")) for each in said_of_it)

            await until(is_said)

    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


# -- databases that go away -------------------------------------------------------------------------------------------


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


class Outage:
    """Takes a database away while a model is asked, and brings it back a moment later."""

    def __init__(self, take: Any, bring: Any, seconds: float) -> None:
        self._take, self._bring, self._seconds = take, bring, seconds
        self._task: asyncio.Task[None] | None = None
        self._is_there = asyncio.Event()
        self.is_over = asyncio.Event()

    async def begin(self) -> None:
        """Returns when the database is gone."""
        if self._task is None:
            self._task = asyncio.create_task(self._take_place())
        await self._is_there.wait()

    async def _take_place(self) -> None:
        await asyncio.to_thread(self._take)
        self._is_there.set()
        await asyncio.sleep(self._seconds)
        await asyncio.to_thread(self._bring)
        self.is_over.set()


class DuringOutage(Planned):
    """Its first answer comes when the database is gone."""

    def __init__(self, outage: Outage, *turns: list[JsonObject]) -> None:
        super().__init__(*turns)
        self._outage = outage

    async def get_response(self, request: ModelRequest) -> Any:
        await self._outage.begin()
        return await super().get_response(request)


async def _through(outage: Outage, store: Any, witness: Witness) -> list[str]:
    """Six runs over an outage; the statuses in which they end."""
    model = DuringOutage(outage, refunds(7))
    agent: Agent[Any] = Agent("Support", tools=[witness.refund(needs_approval=False)], model=model)
    async with store:
        starting = Desk(store, agents=[agent], run=False)
        runs = [await starting.start("Support", "go") for _ in range(6)]
        async with Desk(store, agents=[agent]) as desk:
            async with asyncio.timeout(120):
                await outage.is_over.wait()
            ended = [await desk.wait(run.id, timeout=120) for run in runs]
        return [run.status for run in ended]


async def test_runs_go_on_by_themselves_when_postgresql_was_stopped_and_started(
    own_server: PostgresServer, witness: Witness
) -> None:
    outage = Outage(own_server.stop, own_server.start, 1.5)
    statuses = await _through(outage, open_store(own_server.new_database()), witness)

    assert statuses == ["ended"] * 6
    assert witness.lines() == ["refund 7"] * 6


async def test_runs_go_on_by_themselves_when_postgresql_was_away_longer_than_the_store_waits(
    own_server: PostgresServer, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placet.stores.postgres import PostgresStore

    monkeypatch.setattr(embedded, "LEFT_ALONE_SECONDS", 0.5)
    outage = Outage(own_server.stop, own_server.start, 2.5)
    store = PostgresStore(own_server.new_database(), patience=0.5, lease_ttl=2.0)
    statuses = await _through(outage, store, witness)

    assert statuses == ["ended"] * 6
    assert witness.lines() == ["refund 7"] * 6


async def test_runs_go_on_by_themselves_when_the_sqlite_file_was_locked_for_long(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LEFT_ALONE_SECONDS", 0.5)
    place = tmp_path / "p.db"
    blocker = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=10)
    with closing(blocker):
        outage = Outage(lambda: blocker.execute("BEGIN IMMEDIATE"), lambda: blocker.execute("ROLLBACK"), 2.5)
        statuses = await _through(outage, SQLiteStore(place, patience=0.3, lease_ttl=2.0), witness)

    assert statuses == ["ended"] * 6
    assert witness.lines() == ["refund 7"] * 6


class AwayForAMoment(SQLiteStore):
    """Once, when it is asked what is held, it cannot be reached; a moment later everything is as before."""

    is_away = True

    async def holds(self) -> list[Hold]:
        if self.is_away:
            self.is_away = False
            raise StoreError("It cannot be reached.")
        return await super().holds()


async def test_a_question_that_the_store_could_not_answer_does_not_stop_the_run(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LEFT_ALONE_SECONDS", 0.2)
    store = AwayForAMoment(tmp_path / "p.db", lease_ttl=3.0)
    async with store, Desk(store, agents=[support(witness, needs_approval=False)]) as desk:
        run = await desk.start("Support", "go")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert not store.is_away
    assert (ended.status, ended.stopped) == ("ended", None)
    assert witness.lines() == ["refund 7"]


# -- what a desk is over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [None, 7, MemoryStore()])
def test_a_desk_over_something_else_than_a_shared_store_is_refused(store: Any) -> None:
    with pytest.raises(UserError, match="store that is shared, or its URL"):
        Desk(store)


async def test_a_driver_whose_right_ran_out_leaves_the_run_to_whoever_takes_it_next(
    any_url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LEFT_ALONE_SECONDS", 0.05)
    clock = ManualClock()

    @function_tool
    async def doze() -> str:
        clock.advance(60)  # the machine was asleep for longer than the lease lasts
        return "rested"

    turns = [[function_call("doze", {}, call_id="d")], refunds(7)]
    agent = Agent(
        "Support", tools=[doze, witness.refund(needs_approval=False, recovery="retry")], model=Planned(*turns)
    )
    store = open_store(any_url, clock=clock)
    async with Desk(store, agents=[agent], clock=clock) as desk:
        run = await desk.start("Support", "go")
        ended = await desk.wait(run.id, timeout=PATIENCE)
        stored = await store.load(run.id)
    await store.close()

    assert stored is not None
    assert stored.log is not None
    facts = [fact for record in read_lines(stored.log.lines) for fact in record.facts]
    assert ended.status == "ended"
    assert not [fact for fact in facts if isinstance(fact, RunStopped)]
    assert witness.lines() == ["refund 7"]

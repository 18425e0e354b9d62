"""The embedded engine and the driver of stored runs: nothing that happens to one run stops the others or burns the
machine."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Secret, StoreError, ToolContext, UserError, function_tool
from placet.clock import SYSTEM_CLOCK
from placet.desk import Desk
from placet.ports import Hold, Lease
from placet.service import embedded
from placet.service.embedded import EmbeddedEngine
from placet.stores.sqlite import SQLiteStore
from placet.testing import function_call
from tests.desk.scenes import PATIENCE, Planned, Witness, outputs, paused, refunds, support


class Counting(SQLiteStore):
    """Counts how often somebody looks for runs to drive, and can be told to fail at that."""

    looks = 0
    failures = 0

    async def runnable(self, now: float, limit: int) -> list[str]:
        self.looks += 1
        if self.failures:
            self.failures -= 1
            raise StoreError("the database is away")
        return await super().runnable(now, limit)


def talker(name: str = "Talker") -> Agent[Any]:
    return Agent(name, model=Planned())


async def begun(path: Path, agent: Agent[Any], count: int = 1, **options: Any) -> list[str]:
    """Runs that wait for somebody to serve them."""
    async with Desk(SQLiteStore(path), agents=[agent], run=False, **options) as desk:
        ids = [(await desk.start(agent.name, "hello")).id for _ in range(count)]
        await desk.store.close()
    return ids


async def test_runs_of_agents_that_are_not_here_are_left_alone_without_a_busy_loop(tmp_path: Path) -> None:
    await begun(tmp_path / "p.db", talker("Elsewhere"))
    store = Counting(tmp_path / "p.db")
    async with Desk(store, agents=[talker()]):
        await asyncio.sleep(0.5)
        looks = store.looks
    await store.close()

    assert looks < 10


async def test_runs_of_agents_that_are_not_here_do_not_keep_others_from_being_driven(tmp_path: Path) -> None:
    await begun(tmp_path / "p.db", talker("Elsewhere"), count=5)
    store = SQLiteStore(tmp_path / "p.db")
    async with Desk(store, agents=[talker()], max_concurrent=2) as desk:
        run = await desk.start("Talker", "hello")
        ended = await desk.wait(run.id, timeout=PATIENCE)
    await store.close()

    assert ended.status == "ended"


async def test_a_context_factory_that_fails_stops_the_run_and_says_so_without_a_busy_loop(tmp_path: Path) -> None:
    calls = 0

    def make(_run_id: str, _stored: object) -> object:
        nonlocal calls
        calls += 1
        raise RuntimeError("no connection")

    store = Counting(tmp_path / "p.db")
    async with Desk(store, agents=[talker()], context_factory=make) as desk:
        run = await desk.start("Talker", "hello")
        await asyncio.sleep(0.5)
        tries = calls
        row = await desk.wait(run.id, until="paused", timeout=PATIENCE)
    await store.close()

    assert tries < 10
    assert row.stopped is not None


async def test_a_database_that_goes_away_for_a_while_does_not_end_the_serving(tmp_path: Path) -> None:
    store = Counting(tmp_path / "p.db")
    store.failures = 2
    async with Desk(store, agents=[talker()]) as desk:
        run = await desk.start("Talker", "hello")
        ended = await desk.wait(run.id, timeout=PATIENCE)
    await store.close()

    assert ended.status == "ended"


async def test_a_run_whose_log_cannot_be_read_is_left_alone_and_the_others_go_on(tmp_path: Path) -> None:
    (broken,) = await begun(tmp_path / "p.db", talker())
    with sqlite3.connect(tmp_path / "p.db") as db:
        db.execute("UPDATE placet_lines SET text = ?", (b'[1.0,[{"type":"Unheard","x":1}]]',))
    db.close()
    store = Counting(tmp_path / "p.db")
    async with Desk(store, agents=[talker()]) as desk:
        run = await desk.start("Talker", "hello")
        ended = await desk.wait(run.id, timeout=PATIENCE)
        before = store.looks
        await asyncio.sleep(0.5)
        looks = store.looks - before
        left = await desk.get(broken)
    await store.close()

    assert (ended.status, left.status) == ("ended", "running")
    assert looks < 10


class SlowLook(SQLiteStore):
    """Answers late what can be driven: what was asked for meanwhile is not in the answer."""

    async def runnable(self, now: float, limit: int) -> list[str]:
        found = await super().runnable(now, limit)
        await asyncio.sleep(0.05)
        return found


async def test_a_ring_that_comes_while_the_engine_looks_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "SWEEP_SECONDS", 3600.0)  # only rings are heard
    store = SlowLook(tmp_path / "p.db")
    async with Desk(store, agents=[talker()]) as desk:
        runs = []
        for _ in range(3):
            run = await desk.start("Talker", "hello")
            runs.append(await desk.wait(run.id, timeout=PATIENCE))
    await store.close()

    assert [run.status for run in runs] == ["ended"] * 3


async def test_no_more_runs_are_driven_at_once_than_the_limit(url: str) -> None:
    now = most = 0

    @function_tool
    async def work() -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.1)
        now -= 1
        return "worked"

    agent = Agent("Worker", tools=[work], model=Planned([function_call("work", {}, call_id="w")]))
    async with Desk(url, agents=[agent], run=False) as desk:
        runs = [await desk.start("Worker", "go") for _ in range(10)]
    async with Desk(url, agents=[agent], max_concurrent=3) as desk:
        for run in runs:
            await desk.wait(run.id, timeout=PATIENCE)

    assert most == 3


async def test_a_run_that_was_being_worked_on_when_its_desk_closed_asks_what_became_of_it(
    url: str, witness: Witness
) -> None:
    function_began = asyncio.Event()

    @function_tool(name_override="refund")
    async def refund(order: int) -> str:
        function_began.set()
        await asyncio.sleep(600)
        return "never"

    slow = Agent("Support", tools=[refund], model=Planned(refunds(7)))
    async with Desk(url, agents=[slow], grace=0) as desk:
        run = await desk.start("Support", "go")
        await asyncio.wait_for(function_began.wait(), PATIENCE)
    async with Desk(url, agents=[support(witness, needs_approval=False)]) as desk:
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (asked,) = await desk.pending(run_id=run.id)
        await desk.decide(asked.id, "approve", by="ann")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert asked.kind == "in_doubt"
    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


# -- contexts ---------------------------------------------------------------------------------------------------------


def counter() -> Agent[Any]:
    @function_tool
    async def count(ctx: ToolContext[Any]) -> str:
        ctx.context["count"] += 1
        return str(ctx.context["count"])

    @function_tool(needs_approval=True)
    async def ask(ctx: ToolContext[Any]) -> str:
        ctx.context["count"] += 10
        return str(ctx.context["count"])

    turns = [[function_call(name, {}, call_id=f"{name}{place}")] for place, name in enumerate(["count", "ask", "ask"])]
    return Agent("Support", tools=[count, ask], model=Planned(*turns))


async def test_what_tools_change_in_a_mapping_survives_a_pause(any_url: str) -> None:
    async with paused(Desk(any_url, agents=[counter()]), context={"count": 1}) as (run, request):
        pass
    async with Desk(any_url, agents=[counter()]) as desk:
        await desk.decide(request.id, "approve")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (second,) = await desk.pending(run_id=run.id)
    async with Desk(any_url, agents=[counter()]) as desk:
        await desk.decide(second.id, "approve")
        await desk.wait(run.id, timeout=PATIENCE)
        told = await outputs(desk, run.id)

    assert told == ["2", "12", "22"]


class DecidesLate(SQLiteStore):
    """Once, somebody decides in the moment before the driver gives the run back."""

    desk: Desk | None = None

    async def release(self, lease: Lease, length: int) -> bool:
        desk, self.desk = self.desk, None
        if desk is not None:
            for asked in await desk.pending(run_id=lease.run_id):
                await desk.decide(asked.id, "approve")
        return await super().release(lease, length)


async def test_what_tools_change_after_a_decision_of_the_last_moment_survives_too(tmp_path: Path) -> None:
    store = DecidesLate(tmp_path / "p.db")
    async with Desk(store, agents=[counter()]) as desk, Desk(SQLiteStore(tmp_path / "p.db"), run=False) as other:
        store.desk = other
        run = await desk.start("Support", "go", context={"count": 1})
        async with asyncio.timeout(PATIENCE):
            while len((await desk.requests(run_id=run.id, status=None)).rows) < 2:
                await store.wait_for_news(await store.latest_sequence(), 0.1)
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (second,) = await desk.pending(run_id=run.id)
        await desk.decide(second.id, "approve")
        await desk.wait(run.id, timeout=PATIENCE)
        told = await outputs(desk, run.id)
        await other.store.close()
    await store.close()

    assert told == ["2", "12", "22"]


class Cart:
    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, _name: str) -> int:
        return self.count

    def __setitem__(self, _name: str, value: int) -> None:
        self.count = value


async def test_a_context_of_ones_own_is_written_down_and_made_again(url: str) -> None:
    options: dict[str, Any] = {
        "agents": [counter()],
        "context_serializer": lambda cart: {"n": cart.count},
        "context_deserializer": lambda stored: Cart(stored["n"]),
    }
    async with paused(Desk(url, **options), context=Cart(1)) as (run, request):
        pass
    async with Desk(url, **options) as desk:
        await desk.decide(request.id, "approve", always=True)
        await desk.wait(run.id, timeout=PATIENCE)
        told = await outputs(desk, run.id)

    assert told == ["2", "12", "22"]


async def test_a_factory_makes_the_context_whenever_a_run_is_driven(url: str) -> None:
    made: list[str] = []

    async def make(run_id: str, _stored: object) -> dict[str, int]:
        made.append(run_id)
        return {"count": 100}

    desk = Desk(url, agents=[counter()], context_factory=make)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", always=True)
        await desk.wait(run.id, timeout=PATIENCE)

    assert len(made) >= 2
    assert set(made) == {run.id}


async def test_a_factory_is_given_what_the_run_was_started_with(url: str) -> None:
    given: list[object] = []

    def make(_run_id: str, stored: object) -> dict[str, int]:
        given.append(stored)
        return {"count": 1}

    desk = Desk(url, agents=[counter()], context_factory=make)
    async with paused(desk, context={"tenant": "acme"}):
        pass

    assert given[0] == {"tenant": "acme"}


async def test_a_context_that_cannot_be_stored_is_refused_at_the_start(url: str) -> None:
    async with Desk(url, agents=[counter()]) as desk:
        with pytest.raises(UserError, match="context_serializer"):
            await desk.start("Support", "go", context=Cart(1))
        with pytest.raises(UserError, match="token"):
            await desk.start("Support", "go", context={"token": Secret("x")})
        runs = await desk.runs()
    with pytest.raises(UserError, match="deserializer"):
        Desk(url, context_serializer=lambda cart: {"n": cart.count})

    assert runs.rows == []


# -- holds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["run", "agent", "tool", "tool of the agent"])
async def test_an_approved_call_does_not_start_while_it_is_held_and_goes_on_after(
    any_url: str, witness: Witness, kind: str
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        name = {"run": run.id, "agent": "Support", "tool": "refund"}.get(kind, "Support.refund")
        word: Any = kind.split(maxsplit=1)[0]
        await desk.hold(word, name, by="ann", reason="the bank is closed")
        (hold,) = await desk.holds()
        await desk.decide(request.id, "approve")
        await asyncio.sleep(0.2)
        before, status = witness.lines(), (await desk.get(run.id)).status
        was_held = await desk.release_hold(word, name)
        ended = await desk.wait(run.id, timeout=PATIENCE)
        again = await desk.release_hold(word, name)

    assert (hold.kind, hold.name, hold.by, hold.reason) == (word, name, "ann", "the bank is closed")
    assert (before, was_held, again) == ([], True, False)
    assert status != "ended"
    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_holding_anything_else_is_refused(url: str) -> None:
    async with Desk(url, run=False) as desk:
        with pytest.raises(UserError, match="run, an agent or a tool"):
            await desk.hold("team", "x")  # type: ignore[arg-type]


class ReleasesInBetween(SQLiteStore):
    """Once, the operator releases what is held right after the driver has looked at it."""

    is_armed = False

    async def holds(self) -> list[Hold]:
        found = await super().holds()
        if self.is_armed and found:
            self.is_armed = False
            await self.remove_hold(found[0].kind, found[0].name)
        return found


async def test_a_hold_that_is_released_while_a_driver_gives_way_to_it_does_not_strand_the_run(
    tmp_path: Path, witness: Witness
) -> None:
    store = ReleasesInBetween(tmp_path / "p.db")
    desk = Desk(store, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        store.is_armed = True
        await desk.decide(request.id, "approve")
        ended = await desk.wait(run.id, timeout=PATIENCE)
    await store.close()

    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_a_desk_closes_even_when_its_engine_is_rung_in_that_moment(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "p.db") as store:
        engine = EmbeddedEngine(store, SYSTEM_CLOCK)
        serving = asyncio.create_task(engine.serve(_nothing))
        await asyncio.sleep(0.1)
        await engine.enqueue("run")
        await asyncio.sleep(0)
        serving.cancel()
        done, _ = await asyncio.wait([serving], timeout=PATIENCE)
        has_ended = bool(done)
        serving.cancel()
        await asyncio.wait([serving], timeout=PATIENCE)

    assert has_ended


async def _nothing(_run_id: str) -> None: ...

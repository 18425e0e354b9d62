"""Behind a real PgBouncer in transaction mode: every transaction may get another connection, and all commands work."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from placet.fleet.procrastinate_engine import ProcrastinateEngine
from placet.ports import DeskStore, Engine, Store
from placet.stores.opening import open_store
from placet.stores.postgres import PostgresStore
from placet.testing import EngineContract
from placet.testing.contracts import StoreContract
from placet.testing.desk_contracts import DeskStoreContract, Driver
from placet.testing.engine_contract import AGENT, EngineScene
from tests.cli.running import placet
from tests.desk.api.test_serve import ROOT, running, when
from tests.desk.scenes import Witness, support
from tests.fleet.scenes import PATIENCE, desk, rows, sooner_or_later, worker
from tests.fleet.workers import WorkerProcess
from tests.support.pgbouncer import PgBouncer, pgbouncer
from tests.support.postgres import PostgresServer

TTL = 0.6


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with pgbouncer(postgres) as found:
        yield found


@pytest.fixture
def url(postgres: PostgresServer, pooler: PgBouncer) -> str:
    return pooler.url(postgres.fleet_database())


class TestStoreBehindThePooler(StoreContract):
    @pytest.fixture(autouse=True)
    async def keep(self, postgres: PostgresServer, pooler: PgBouncer) -> AsyncIterator[None]:
        self.new_url = lambda: pooler.url(postgres.store_database())
        self.made: list[PostgresStore] = []
        yield
        for store in self.made:
            await store.close()

    async def make_store(self) -> Store:
        self.made.append(PostgresStore(self.new_url()))
        return self.made[-1]


class TestDesksBehindThePooler(DeskStoreContract):
    @pytest.fixture(autouse=True)
    def database(self, postgres: PostgresServer, pooler: PgBouncer) -> None:
        self.url = pooler.url(postgres.store_database())

    def open_store(self, *, lease_ttl: float) -> AbstractAsyncContextManager[DeskStore]:
        return PostgresStore(self.url, lease_ttl=lease_ttl)


class TestEngineBehindThePooler(EngineContract):
    @pytest.fixture(autouse=True)
    def place(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def scene(self) -> AsyncIterator[EngineScene]:
        async with PostgresStore(self.url, lease_ttl=TTL) as store:
            yield EngineScene(store)

    def engine(self, scene: EngineScene, limit: int = 16) -> Engine:
        assert isinstance(scene.store, PostgresStore)
        return ProcrastinateEngine(scene.store, [AGENT], limit=limit, grace=1.0)


async def test_one_statements_rows_are_never_read_as_anothers(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with desk(url, agent) as made, worker(url, agent):
        runs = [await made.start("Support", "x") for _ in range(5)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)

        async def look(run_id: str) -> None:
            for _ in range(15):  # enough to be prepared, if anything were
                shown, held, records = await asyncio.gather(
                    made.get(run_id), made.store.holds(), made.store.records("user")
                )
                stored = await made.store.load(run_id)
                assert (shown.id, held, records) == (run_id, [], [])
                assert stored is not None
                assert stored.log is not None
                assert stored.log.verify()

        await asyncio.gather(*(look(run.id) for run in runs))
        for request in await made.pending():
            await made.decide(request.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]
        prepared = await rows(made, "SELECT count(*) FROM pg_prepared_statements")

    assert [run.status for run in ended] == ["ended"] * 5
    assert prepared == [(0,)]


async def test_a_pooler_is_found_out_and_said_once(
    postgres: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet.stores")
    direct, pooled = open_store(postgres.fleet_database()), open_store(url)
    assert isinstance(direct, PostgresStore)
    assert isinstance(pooled, PostgresStore)
    async with direct, pooled:
        for store in (direct, pooled):
            await asyncio.gather(*(store.holds() for _ in range(20)))
            await store.wait_for_news(0, 0.05)
        found = (direct.listens, pooled.listens)

    assert found == (True, False)
    assert [record.action for record in caplog.records if hasattr(record, "action")] == ["pooler_found"]


async def test_what_a_session_is_told_does_not_stay_with_the_poolers_connections(
    url: str, postgres: PostgresServer
) -> None:
    async with PostgresStore(url, lease_ttl=TTL) as store:
        driver = Driver()
        lease = await store.lease("run_1", driver)  # from here on a thread renews it, on a connection of its own
        first = await _lease_until(store)

        async def is_renewed() -> bool:
            return await _lease_until(store) > first

        await sooner_or_later(is_renewed)
        settings = {await _setting(store) for _ in range(20)}
        await store.release(lease, 0)

    assert settings == {("on", 0)}


async def _lease_until(store: PostgresStore) -> float:
    ((until,),) = await store.query(b"SELECT lease_until FROM placet_runs WHERE id = 'run_1'")
    return float(until)


async def _setting(store: PostgresStore) -> tuple[str, int]:
    ((found, listening),) = await store.query(
        b"SELECT current_setting('synchronous_commit'), (SELECT count(*) FROM pg_listening_channels())"
    )
    return found, listening


async def test_all_commands_work_behind_the_pooler(postgres: PostgresServer, pooler: PgBouncer, tmp_path: Path) -> None:
    url = pooler.url(postgres.new_database())
    migrated = placet("migrate", "--store", url, cwd=ROOT)
    assert migrated.returncode == 0, migrated.stderr
    env = {"PLACET_SOAK_WITNESS": str(tmp_path / "witness")}
    with WorkerProcess(url, "--grace", "5", **env) as process:
        await process.is_ready()
        async with desk(url) as made, desk(url, *_crew()) as starting:
            runs = [await starting.start("Crew", "note|pay") for _ in range(3)]
            for run in runs:
                await made.wait(run.id, until="paused", timeout=PATIENCE)
            asked = await made.pending()

            def command(*words: str) -> str:
                done = placet(*words, "--store", url, cwd=ROOT)
                assert done.returncode == 0, (words, done.stdout, done.stderr)
                return done.stdout

            await asyncio.to_thread(command, "approve", asked[0].id)
            await asyncio.to_thread(command, "reject", asked[1].id)
            await asyncio.to_thread(command, "approve", asked[2].id)
            for run in runs:
                await made.wait(run.id, timeout=PATIENCE)
            doctor = await asyncio.to_thread(command, "doctor", "tests.fleet.crew:agents")
            verified = await asyncio.to_thread(command, "audit", "verify")
            listed = await asyncio.to_thread(command, "audit", "list")
            seen = json.loads(await asyncio.to_thread(command, "top", "--once", "--json"))
            shown = await asyncio.to_thread(command, "runs")
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0
        said = process.said()

    assert "3 runs" in verified
    assert "0 not whole" in verified
    assert "approved" in listed
    assert [each["state"] for each in seen["workers"]] == ["working"]
    assert all(run.id in shown for run in runs)
    assert "A pooler stands before PostgreSQL" in said
    assert doctor


def _crew() -> list[object]:
    from tests.fleet import crew

    return list(crew.agents)


def test_a_served_desk_says_that_it_polls_and_decides_at_many_hands(url: str, tmp_path: Path) -> None:
    command = ("serve", "tests.desk.api.agents_here:agents", "--port", "0", "--no-auth", "--store", url)
    with running(*command, cwd=tmp_path) as process:
        said = process.read_until("Ctrl-C ends it")
        headers = {"Origin": process.url}
        with httpx2.Client(base_url=process.url, timeout=PATIENCE, headers=headers) as client:
            for number in range(6):
                started = client.post("/v1/runs", json={"agent": "Support", "input": f"case {number}"})
                assert started.status_code == 201, started.text
            waiting = when(process.url, "/v1/approvals?limit=50", {}, lambda answer: len(answer["data"]) == 12)
            for request in waiting["data"]:
                decided = client.post(f"/v1/approvals/{quote(request['id'])}/decisions", json={"decision": "approve"})
                assert decided.status_code == 200, decided.text
            when(process.url, "/v1/runs", {}, lambda answer: {run["status"] for run in answer["data"]} == {"ended"})
            pages = [
                client.get(path).status_code for path in ("/inbox", "/runs", "/audit", "/v1/runs") for _ in range(6)
            ]
        code = process.stop()

    assert re.search("A pooler stands before PostgreSQL", said)
    assert set(pages) == {200}
    assert code == 0

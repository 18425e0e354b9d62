"""Both engines keep the contract: the embedded one on a file, and Procrastinate on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from procrastinate import App

from placet.clock import SYSTEM_CLOCK
from placet.fleet.procrastinate_engine import ProcrastinateEngine
from placet.ports import Engine
from placet.service.embedded import EmbeddedEngine
from placet.stores.postgres import PostgresStore
from placet.stores.sqlite import SQLiteStore
from placet.testing import EngineContract
from placet.testing.engine_contract import AGENT, EngineScene
from tests.support.postgres import PostgresServer

TTL = 0.6


class TestEmbeddedEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "placet.db"

    @asynccontextmanager
    async def scene(self) -> AsyncIterator[EngineScene]:
        async with SQLiteStore(self.path, lease_ttl=TTL) as store:
            yield EngineScene(store)

    def engine(self, scene: EngineScene, limit: int = 16) -> Engine:
        return EmbeddedEngine(scene.store, SYSTEM_CLOCK, limit=limit)


class TestProcrastinateEngine(EngineContract):
    listens = True

    @pytest.fixture(autouse=True)
    def place(self, postgres: PostgresServer) -> None:
        self.url = postgres.fleet_database()

    @asynccontextmanager
    async def scene(self) -> AsyncIterator[EngineScene]:
        async with PostgresStore(self.url, lease_ttl=TTL, listen=self.listens) as store:
            yield EngineScene(store)

    def engine(self, scene: EngineScene, limit: int = 16) -> Engine:
        assert isinstance(scene.store, PostgresStore)
        return ProcrastinateEngine(scene.store, [AGENT], limit=limit, grace=1.0)

    async def test_an_engine_stops_though_the_error_of_its_queue_took_the_place_of_the_cancellation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hearing = asyncio.Event()

        async def breaks_when_cancelled(*_: object, **__: object) -> None:
            hearing.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                raise psycopg.OperationalError("the connection is lost") from None

        monkeypatch.setattr(App, "run_worker_async", breaks_when_cancelled)
        async with self.scene() as scene:
            serving = asyncio.create_task(self.engine(scene).serve(_nothing_to_do))
            await asyncio.wait_for(hearing.wait(), 120)
            serving.cancel()
            await asyncio.wait([serving], timeout=120)

        assert serving.cancelled()


async def _nothing_to_do(_run_id: str) -> bool:
    return True


class TestProcrastinateEngineThatPolls(TestProcrastinateEngine):
    """As behind a pooler that gives each transaction another connection."""

    listens = False

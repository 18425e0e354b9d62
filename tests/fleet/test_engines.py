"""Both engines keep the contract: the embedded one on a file, and Procrastinate on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.fleet.embedded import EmbeddedEngine
from placet.fleet.procrastinate_engine import ProcrastinateEngine
from placet.ports import Engine
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


class TestProcrastinateEngineThatPolls(TestProcrastinateEngine):
    """As behind a pooler that gives each transaction another connection."""

    listens = False

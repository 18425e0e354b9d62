"""The gate's contract, on the store itself and over HTTP, in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from placet.testing import GateContract
from tests.gate.scenes import Scene, embedded_scene, remote_scene
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.promise("P23"), pytest.mark.promise("P21")]


class TestEmbeddedInMemory(GateContract):
    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return embedded_scene("sqlite://:memory:")


class TestEmbeddedOnSQLite(GateContract):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.url = f"sqlite:///{tmp_path / 'placet.db'}"

    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return embedded_scene(self.url)


class TestEmbeddedOnPostgres(GateContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres: PostgresServer) -> None:
        self.url = postgres.store_database()

    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return embedded_scene(self.url)


class TestOverHttpInMemory(GateContract):
    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return remote_scene("sqlite://:memory:")


class TestOverHttpOnSQLite(TestEmbeddedOnSQLite):
    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return remote_scene(self.url)


class TestOverHttpOnPostgres(TestEmbeddedOnPostgres):
    def open_scene(self) -> AbstractAsyncContextManager[Scene]:
        return remote_scene(self.url)

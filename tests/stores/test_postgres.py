"""The contracts on PostgreSQL, each test in a database of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from placet.ports import DeskStore, Store
from placet.stores.postgres import PostgresStore
from placet.testing.budget_contracts import BudgetContract
from placet.testing.contracts import StoreContract
from placet.testing.desk_contracts import DeskStoreContract
from tests.support.postgres import PostgresServer


class TestPostgresStore(BudgetContract, StoreContract):
    server: PostgresServer
    made: list[PostgresStore]

    @pytest.fixture(autouse=True)
    async def keep(self, postgres: PostgresServer) -> AsyncIterator[None]:
        self.server, self.made = postgres, []
        yield
        for store in self.made:
            await store.close()

    async def make_store(self) -> Store:
        self.made.append(PostgresStore(self.server.store_database()))
        return self.made[-1]


class TestPostgresForDesks(DeskStoreContract):
    url: str

    @pytest.fixture(autouse=True)
    def database(self, postgres: PostgresServer) -> None:
        self.url = postgres.store_database()

    def open_store(self, *, lease_ttl: float) -> AbstractAsyncContextManager[DeskStore]:
        return PostgresStore(self.url, lease_ttl=lease_ttl)

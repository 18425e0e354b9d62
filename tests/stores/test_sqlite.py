"""The contracts on SQLite: in a file, and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from placet.ports import DeskStore, Store
from placet.stores.sqlite import SQLiteStore
from placet.testing.budget_contracts import BudgetContract
from placet.testing.contracts import ThreadedStoreContract
from placet.testing.desk_contracts import DeskStoreContract


class TestSQLiteStore(BudgetContract, ThreadedStoreContract):
    folder: Path
    made: list[SQLiteStore]

    @pytest.fixture(autouse=True)
    async def keep(self, tmp_path: Path) -> AsyncIterator[None]:
        self.folder, self.made = tmp_path, []
        yield
        for store in self.made:
            await store.close()

    async def make_store(self) -> Store:
        self.made.append(SQLiteStore(self.folder / f"{len(self.made)}.db"))
        return self.made[-1]


class TestSQLiteForDesks(DeskStoreContract):
    path: Path

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "placet.db"

    def open_store(self, *, lease_ttl: float) -> AbstractAsyncContextManager[DeskStore]:
        return SQLiteStore(self.path, lease_ttl=lease_ttl)


class TestSQLiteInMemory(DeskStoreContract):
    """Its data are one object's: whoever opens it again is given the same object."""

    shared: SQLiteStore | None = None

    @asynccontextmanager
    async def open_store(self, *, lease_ttl: float) -> AsyncIterator[DeskStore]:
        if self.shared is not None:
            yield self.shared
            return
        async with SQLiteStore(":memory:", lease_ttl=lease_ttl) as self.shared:
            yield self.shared

"""Both durable stores keep records alike, and count what they hold."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from placet.ports import DeskStore, RequestQuery
from placet.stores.postgres import PostgresStore
from placet.stores.sqlite import SQLiteStore
from placet.testing.desk_contracts import RunWriter
from placet.testing.record_contract import RecordStoreContract
from tests.support.postgres import PostgresServer


class TestSQLiteRecords(RecordStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "placet.db"

    def open_store(self) -> AbstractAsyncContextManager[DeskStore]:
        return SQLiteStore(self.path)


class TestPostgresRecords(RecordStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, postgres: PostgresServer) -> None:
        self.url = postgres.store_database()

    def open_store(self) -> AbstractAsyncContextManager[DeskStore]:
        return PostgresStore(self.url)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_counts_tell_runs_by_status_and_the_question_that_has_waited_longest(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store: SQLiteStore | PostgresStore
    if kind == "sqlite":
        store = SQLiteStore(tmp_path / "placet.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres").store_database())
    async with store:
        running, first, second, ended = RunWriter(), RunWriter(at=500.0), RunWriter(at=700.0), RunWriter()
        await running.begin(store)
        await first.ask(store, "pay", "pay")
        await second.ask(store, "pay")
        await ended.begin(store)
        await ended.end(store)
        (asked, *_) = (await store.requests(RequestQuery())).rows
        numbers = await store.numbers()

    assert (numbers.running, numbers.waiting, numbers.ended, numbers.pending) == (1, 2, 1, 3)
    assert numbers.ended_last_minute == 0
    assert numbers.oldest_request is not None
    assert (numbers.oldest_request.id, numbers.oldest_request.tool) == (asked.id, "pay")
    assert 500.0 < numbers.at - numbers.oldest_request.seconds < 510.0

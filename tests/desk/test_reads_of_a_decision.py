"""What a decision reads from an SQLite file: its request once, its run's log once, at a desk and over HTTP."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from placet.desk import Desk
from placet.facts import events as e
from placet.stores.opening import open_store
from placet.stores.sqlite.file import SQLiteFile
from placet.testing.desk_contracts import RunWriter
from tests.support.desk_server import running_desk

REQUEST = "SELECT data, status, closing, escalated_at, ballot FROM placet_requests WHERE id ="
LOG = "SELECT r.length, r.head, r.key, l.text"
APPEND = "INSERT INTO placet_lines"


class Statements:
    """All that the connections to SQLite files execute."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        connect = SQLiteFile.connect

        def traced(file: SQLiteFile, **options: Any) -> sqlite3.Connection:
            db = connect(file, **options)
            db.set_trace_callback(self.seen.append)
            return db

        monkeypatch.setattr(SQLiteFile, "connect", traced)

    async def of(self, act: Callable[[], Awaitable[object]]) -> dict[str, int]:
        """How often what it does reads a request, reads a log, and appends."""
        self.seen.clear()
        await act()
        return {kind: sum(text.startswith(kind) for text in self.seen) for kind in (REQUEST, LOG, APPEND)}


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    return Statements(monkeypatch)


async def test_a_decision_at_a_desk_reads_its_request_once_and_its_log_once(
    statements: Statements, tmp_path: Path
) -> None:
    async with Desk(f"sqlite:///{tmp_path / 'placet.db'}", run=False) as desk:
        (question,) = await RunWriter().ask(desk.store, "pay")

        found = await statements.of(lambda: desk.decide(question, "approve", by="ana"))
        request = await desk.request(question)

        assert found == {REQUEST: 1, LOG: 1, APPEND: 1}
        assert (request.status, request.decided_by) == ("approved", "ana")


async def test_a_decision_over_http_reads_its_request_once_and_its_log_once(
    statements: Statements, tmp_path: Path
) -> None:
    async with running_desk(tmp_path, run=False) as desk:
        client = await desk.person("ana")
        (question,) = await RunWriter().ask(desk.desk.store, "pay")
        await asyncio.gather(*(client.get("/v1/me") for _ in range(2)))

        path = f"/v1/approvals/{question.replace('#', '%23').replace('/', '%2F')}/decisions"
        found = await statements.of(lambda: client.post(path, json={"decision": "reject"}))
        request = await desk.desk.request(question)

        assert found == {REQUEST: 1, LOG: 1, APPEND: 1}
        assert (request.status, request.decided_by) == ("rejected", "ana")


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_what_a_decision_returns_is_what_the_store_has_then(verdict: Any, tmp_path: Path) -> None:
    async with Desk(f"sqlite:///{tmp_path / 'placet.db'}", run=False) as desk:
        first, second = await RunWriter().ask(desk.store, "pay", "pay")
        decided = await desk.decide(first, verdict, by="ana", reason="checked")
        again = await desk.decide(first, verdict, by="ana", reason="checked")

        assert decided == again == await desk.store.request(first)
        assert (decided.status, decided.reason) == ("approved" if verdict == "approve" else "rejected", "checked")
        assert (await desk.request(second)).status == "pending"


async def test_where_others_append_between_looking_and_deciding_what_they_did_is_returned_too(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'placet.db'}"
    story = RunWriter()
    async with open_store(place) as store, Desk(place, run=False) as desk:
        (question,) = await story.ask(store, "pay")
        found = await desk.find(question)
        await story.append(store, e.QuestionEscalated(found.request.call))

        decided = await desk.decide(found, "approve", by="ana")

        assert decided == await store.request(question)
        assert decided.escalated_at is not None

"""The durable stores: appends per second beside the plain driver, and what a hundred thousand waiting runs cost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from bench.systems.report import Report, options_of
from placet import Agent, ModelResponse, Usage, function_tool
from placet.core.fold import fold
from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.desk import Desk
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.ids import mint
from placet.ports import DeskStore, ModelRequest, RequestQuery, StreamPart
from placet.stores.postgres import PostgresStore
from placet.stores.postgres.connections import execute_steps as execute_on_postgres
from placet.stores.postgres.writes import append as append_to_postgres
from placet.stores.sql.appending import append_of
from placet.stores.sqlite import SQLiteStore
from placet.stores.sqlite.file import SQLiteFile, execute_steps
from placet.stores.sqlite.writes import append
from placet.testing import assistant_message, function_call
from tests.support.postgres import PostgresServer

WRITERS = (1, 16)
WAITING = (1_000, 10_000, 100_000)
DECISIONS = 60
AT_ONCE = 64
_PAGE_FACTS = ("page_count", "freelist_count", "page_size")


def main(arguments: Sequence[str]) -> int:
    options = options_of("stores", __doc__ or "", arguments)
    report = Report("stores", "plain driver")
    seconds, waiting, decisions = (0.1, (20, 60), 3) if options.quick else (3.0, WAITING, DECISIONS)
    server = PostgresServer(fsync="on", full_page_writes="on", synchronous_commit="on")
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure_appends(report, Path(folder), server, seconds)
            for kind, store in _empty_stores(Path(folder), server).items():
                asyncio.run(measure_waiting(report, kind, store, waiting, decisions))
    finally:
        server.close()
    return report.finish(options)


# -- appends ----------------------------------------------------------------------------------------------------------


class Writer:
    """A run of one's own that grows by one small fact at a time."""

    def __init__(self) -> None:
        self.log = Log(mint("run"), os.urandom(16))
        self.run = RunFold()
        self.started = e.RunStarted("Clerk", "hello", 10)

    def first(self) -> bytes:
        fold([self.started], into=self.run)
        return self.log.next_line(1.0, [self.started])

    def next(self) -> bytes:
        return self.log.next_line(2.0, [e.TurnLimitSet(3)])


def measure_appends(report: Report, folder: Path, server: PostgresServer, seconds: float) -> None:
    for writers in WRITERS:
        ours = asyncio.run(_through(SQLiteStore(str(folder / f"ours{writers}.db")), writers, seconds))
        plain = _plain_sqlite(folder / f"plain{writers}.db", writers, seconds)
        _add(report, "SQLite", writers, ours, plain)
    for writers in WRITERS:
        ours = asyncio.run(_through(PostgresStore(server.new_database(), connections=17), writers, seconds))
        plain = asyncio.run(_plain_postgres(server.new_database(), writers, seconds))
        _add(report, "PostgreSQL", writers, ours, plain)


def _add(report: Report, kind: str, writers: int, ours: float, plain: float) -> None:
    who = "one writer" if writers == 1 else f"{writers} writers"
    report.add(f"{kind}, durable appends, {who}", f"{ours:,.0f} per s", f"{plain:,.0f} per s", ours / plain)
    _progress(f"{kind} {who}: {ours:,.0f} against {plain:,.0f} per s")


async def _through(store: DeskStore, writers: int, seconds: float) -> float:
    """Appends per second through the store, by so many coroutines."""
    count = 0

    async def write(writer: Writer) -> None:
        nonlocal count
        while not count or time.perf_counter() < end:  # one at least, however busy the machine
            line = writer.next()
            await store.append(None, writer.log, [line], writer.run)
            writer.log.append(line)
            count += 1

    crowd = [Writer() for _ in range(writers)]
    try:
        for writer in crowd:
            line = writer.first()
            await store.append(None, writer.log, [line], writer.run)
            writer.log.append(line)
        began = time.perf_counter()
        end = began + seconds
        await asyncio.gather(*map(write, crowd))
        return count / (time.perf_counter() - began)
    finally:
        await store.close()


def _plain_sqlite(path: Path, writers: int, seconds: float) -> float:
    """The same statements by `sqlite3` itself: a thread, a connection and a commit for each append."""
    file = SQLiteFile(str(path), 30)
    counts = [0] * writers
    asyncio.run(_make(SQLiteStore(str(path))))
    end = time.perf_counter() + seconds

    def write(place: int) -> None:
        db, writer = file.connect(), Writer()
        _transact(db, writer, writer.first())
        while not counts[place] or time.perf_counter() < end:
            _transact(db, writer, writer.next())
            counts[place] += 1
        db.close()

    threads = [threading.Thread(target=write, args=(place,)) for place in range(writers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def _transact(db: sqlite3.Connection, writer: Writer, line: bytes) -> None:
    given = append_of(None, writer.log, [line], writer.run)
    db.execute("BEGIN IMMEDIATE")
    execute_steps(db, append(False, given))
    db.execute("COMMIT")
    writer.log.append(line)


async def _plain_postgres(url: str, writers: int, seconds: float) -> float:
    """The same statement by psycopg itself: a connection for each writer."""
    await _make(PostgresStore(url))
    count, end = 0, time.perf_counter() + seconds

    async def write() -> None:
        nonlocal count
        writer = Writer()
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
            line = writer.first()
            while not count or time.perf_counter() < end:
                given = append_of(None, writer.log, [line], writer.run)
                await execute_on_postgres(db, append_to_postgres(False, given))
                writer.log.append(line)
                line = writer.next()
                count += 1

    began = time.perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    return count / (time.perf_counter() - began)


async def _make(store: DeskStore) -> None:
    """Create the schema."""
    await store.latest_sequence()
    await store.close()


# -- runs that wait ---------------------------------------------------------------------------------------------------


class _Planned:
    """Asks for one refund, then says that it is done."""

    leaves_input_alone = True

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        is_done = any(item.get("type") == "function_call_output" for item in request.input)
        output: JsonObject = (
            assistant_message("Done.") if is_done else function_call("refund", {"order": "A-1042", "cents": 4200})
        )
        return ModelResponse([output], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


class _Effect:
    """The moment at which the tool ran."""

    def __init__(self) -> None:
        self.at = 0.0
        self.done = asyncio.Event()


def _support(effect: _Effect) -> Agent[object]:
    @function_tool(needs_approval=True)
    async def refund(order: str, cents: int) -> str:
        effect.at = time.perf_counter()
        effect.done.set()
        return f"refunded {order}: {cents}"

    return Agent("Support", tools=[refund], model=_Planned())


Opened = Callable[[], tuple[DeskStore, Callable[[], int]]]
"""A store, and what tells how many bytes of it are in use."""


def _empty_stores(folder: Path, server: PostgresServer) -> dict[str, Opened]:
    path, url = str(folder / "waiting.db"), server.new_database()
    return {
        "SQLite": lambda: (SQLiteStore(path), lambda: _sqlite_size(path)),
        "PostgreSQL": lambda: (PostgresStore(url), lambda: _postgres_size(url)),
    }


def _sqlite_size(path: str) -> int:
    db = sqlite3.connect(path)
    try:
        pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGE_FACTS)
    finally:
        db.close()
    return int((pages - free) * size)


def _postgres_size(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


async def measure_waiting(report: Report, kind: str, opened: Opened, counts: Sequence[int], decisions: int) -> None:
    store, size = opened()
    effect = _Effect()
    rows: dict[int, tuple[float, float, float]] = {}
    try:
        async with Desk(store, agents=[_support(effect)]) as desk:
            pattern = await _pattern(desk)
            empty, there = size(), 1
            for count in counts:
                await _add_waiting(store, pattern, count - there, f"{kind}: {{}} of {count:,} waiting runs")
                there = count
                weight = (size() - empty) / count
                rows[count] = (weight, await _page_time(store, count), await _decision_times(desk, effect, decisions))
    finally:
        await store.close()
    first = rows[counts[0]]
    for count, (weight, page, decision) in rows.items():
        growth = "" if count == counts[0] else f"× {{:.2f}} of that at {counts[0]:,}"
        report.add(
            f"{kind}, {count:,} waiting runs: kept for each", f"{weight:,.0f} bytes", growth.format(weight / first[0])
        )
        report.add(
            f"{kind}, {count:,} waiting runs: a page of 50 requests",
            f"{page * 1e3:.2f} ms",
            growth.format(page / first[1]),
        )
        report.add(
            f"{kind}, {count:,} waiting runs: from decision to effect (median)",
            f"{decision * 1e3:.1f} ms",
            growth.format(decision / first[2]),
        )


async def _pattern(desk: Desk) -> list[tuple[float, list[e.AnyFact]]]:
    """The log of a run that really waits."""
    run = await desk.start("Support", "Please refund order A-1042, it arrived broken.", by="web-form")
    await desk.wait(run.id, until="paused", timeout=30)
    stored = await desk.store.load(run.id)
    assert stored is not None
    assert stored.log is not None
    records = [read_line(line) for line in stored.log.lines]
    return [(record.at, list(record.facts)) for record in records]


async def _add_waiting(store: DeskStore, pattern: list[tuple[float, list[e.AnyFact]]], count: int, text: str) -> None:
    left = iter(range(count))

    async def add_some() -> None:
        for number in left:
            log = Log(mint("run"), os.urandom(16))
            ahead, lines = log.copy(), []
            for at, facts in pattern:
                lines.append(ahead.next_line(at, facts))
                ahead.append(lines[-1])
            lease = await store.lease(log.run_id, store)
            await store.append(lease, log, lines, fold([fact for _, facts in pattern for fact in facts]))
            await store.release(lease, len(lines))
            if number % 1000 == 0:
                _progress(text.format(f"{number:,}"))

    await asyncio.gather(*(add_some() for _ in range(AT_ONCE)))


async def _page_time(store: DeskStore, count: int) -> float:
    """The first page, and one in the middle of the list: the median of many."""
    cursor: str | None = None
    times = []
    for _ in range(max(1, min(40, count // 50))):
        began = time.perf_counter()
        page = await store.requests(RequestQuery(cursor=cursor))
        times.append(time.perf_counter() - began)
        cursor = page.cursor
    return statistics.median(times)


async def _decision_times(desk: Desk, effect: _Effect, decisions: int) -> float:
    """From the call of `decide` to the tool's first line, in the process that drives: the median."""
    times = []
    for _ in range(decisions):
        async with _waiting_run(desk) as request_id:
            effect.done.clear()
            began = time.perf_counter()
            await desk.decide(request_id, "approve", by="ops")
            await asyncio.wait_for(effect.done.wait(), 30)
            times.append(effect.at - began)
    return statistics.median(times)


@asynccontextmanager
async def _waiting_run(desk: Desk) -> AsyncIterator[str]:
    run = await desk.start("Support", "Please refund order A-1042, it arrived broken.", by="web-form")
    await desk.wait(run.id, until="paused", timeout=30)
    (request,) = await desk.pending(run_id=run.id)
    yield request.id
    await desk.wait(run.id, timeout=30)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

"""A table as a queue, as most people write it: rows that are due, taken with SKIP LOCKED, and a notification.

On SQLite one process holds the file, so an event does for the notification. What a run is between two visits of a
worker is a text in its row. A worker that is killed leaves its rows `driven`: `recover` gives them back, as somebody
would who restarts the workers.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

LOOK_SECONDS = 0.5

TABLE = """CREATE TABLE IF NOT EXISTS runs (
    number {number} PRIMARY KEY, run text NOT NULL UNIQUE, status text NOT NULL, state text, is_decided boolean NOT NULL
    DEFAULT false, asked text, output text)"""
INDEX = "CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, number)"


class Job(NamedTuple):
    run: str
    state: str | None
    is_decided: bool


class Outcome(NamedTuple):
    """What a visit came to: `asked` is the order of the call that waits, None where the run has ended."""

    asked: str | None
    state: str | None
    output: str | None


Visit = Callable[[Job], Awaitable[Outcome]]


class Queue(Protocol):
    async def start(self, run: str) -> None: ...

    async def waiting(self) -> Mapping[str, str]: ...

    async def decide(self, run: str) -> None: ...

    async def ended(self) -> int: ...

    async def take(self) -> Job | None: ...

    async def put(self, job: Job, outcome: Outcome) -> None: ...

    async def news(self) -> None: ...

    async def recover(self) -> None: ...

    async def close(self) -> None: ...


TAKE = """UPDATE runs SET status = 'driven' WHERE number = (
    SELECT number FROM runs WHERE status = 'due' ORDER BY number LIMIT 1 {skip}) RETURNING run, state, is_decided"""


class PostgresQueue:
    def __init__(self, url: str) -> None:
        from psycopg_pool import AsyncConnectionPool

        self._url = url
        self._pool = AsyncConnectionPool(url, min_size=1, max_size=10, open=False, kwargs={"autocommit": True})
        self._bell = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def open(self, *, listens: bool = False) -> PostgresQueue:
        await self._pool.open()
        if listens:
            self._listening = asyncio.create_task(self._listen())
        return self

    async def prepare(self) -> None:
        await self._do(TABLE.format(number="bigint GENERATED ALWAYS AS IDENTITY"))
        await self._do(INDEX)

    async def _listen(self) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as db:
            await db.execute("LISTEN runs")
            async for _ in db.notifies():
                self._bell.set()

    async def _do(self, text: str, given: object = ()) -> list[tuple[object, ...]]:
        async with self._pool.connection() as db:
            cursor = await db.execute(text.encode(), given)  # type: ignore[arg-type]
            return await cursor.fetchall() if cursor.description else []

    async def start(self, run: str) -> None:
        await self._do(
            "WITH i AS (INSERT INTO runs (run, status) VALUES (%s, 'due')) SELECT pg_notify('runs', '')", (run,)
        )

    async def waiting(self) -> Mapping[str, str]:
        return {
            str(asked): str(run)
            for asked, run in await self._do("SELECT asked, run FROM runs WHERE status = 'waiting'")
        }

    async def decide(self, run: str) -> None:
        await self._do(
            "WITH u AS (UPDATE runs SET status = 'due', is_decided = true WHERE run = %s AND status = 'waiting')"
            " SELECT pg_notify('runs', '')",
            (run,),
        )

    async def ended(self) -> int:
        ((count,),) = await self._do("SELECT count(*) FROM runs WHERE status = 'ended'")
        return int(str(count))

    async def take(self) -> Job | None:
        rows = await self._do(TAKE.format(skip="FOR UPDATE SKIP LOCKED"))
        return Job(*rows[0]) if rows else None  # type: ignore[arg-type]

    async def put(self, job: Job, outcome: Outcome) -> None:
        status = "ended" if outcome.asked is None else "waiting"
        given = (status, outcome.state, outcome.asked, outcome.output, job.run)
        await self._do("UPDATE runs SET status = %s, state = %s, asked = %s, output = %s WHERE run = %s", given)

    async def news(self) -> None:
        self._bell.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._bell.wait(), LOOK_SECONDS)

    async def recover(self) -> None:
        await self._do("UPDATE runs SET status = 'due' WHERE status = 'driven'")

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        await self._pool.close()


class SQLiteQueue:
    """The same on a file, each statement a commit that is on the disk."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA busy_timeout = 30000")

    async def prepare(self) -> None:
        self._db.execute(TABLE.format(number="integer"))
        self._db.execute(INDEX)

    def _do(self, text: str, given: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        return self._db.execute(text, given).fetchall()

    async def start(self, run: str) -> None:
        self._do("INSERT INTO runs (run, status) VALUES (?, 'due')", (run,))

    async def waiting(self) -> Mapping[str, str]:
        return {str(asked): str(run) for asked, run in self._do("SELECT asked, run FROM runs WHERE status = 'waiting'")}

    async def decide(self, run: str) -> None:
        self._do("UPDATE runs SET status = 'due', is_decided = true WHERE run = ? AND status = 'waiting'", (run,))

    async def ended(self) -> int:
        ((count,),) = self._do("SELECT count(*) FROM runs WHERE status = 'ended'")
        return int(str(count))

    async def take(self) -> Job | None:
        rows = self._do(TAKE.format(skip=""))
        return Job(*rows[0]) if rows else None  # type: ignore[arg-type]

    async def put(self, job: Job, outcome: Outcome) -> None:
        status = "ended" if outcome.asked is None else "waiting"
        given = (status, outcome.state, outcome.asked, outcome.output, job.run)
        self._do("UPDATE runs SET status = ?, state = ?, asked = ?, output = ? WHERE run = ?", given)

    async def news(self) -> None:
        await asyncio.sleep(0.02)

    async def recover(self) -> None:
        self._do("UPDATE runs SET status = 'due' WHERE status = 'driven'")

    async def close(self) -> None:
        self._db.close()


def is_postgres(database: str) -> bool:
    return database.startswith("postgresql:")


def path_of(database: str) -> str:
    return database.removeprefix("sqlite:///")


async def opened(database: str, *, listens: bool = False) -> PostgresQueue | SQLiteQueue:
    if is_postgres(database):
        return await PostgresQueue(database).open(listens=listens)
    return SQLiteQueue(path_of(database))


async def prepare(database: str) -> None:
    queue = await opened(database)
    await queue.prepare()
    await queue.close()


async def serve(queue: Queue, visit: Visit, concurrency: int) -> None:
    """Visit what is due, so many at once."""

    async def lane() -> None:
        while True:
            job = await queue.take()
            if job is None:
                await queue.news()
                continue
            await queue.put(job, await visit(job))

    await queue.recover()
    await asyncio.gather(*(lane() for _ in range(concurrency)))

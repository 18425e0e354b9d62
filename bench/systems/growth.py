"""What many waiting runs cost those that are at work, on PostgreSQL: pages of the database touched by a first page of
the list, a decision, the drive behind it, the sweep and a worker's start, and the processor time of each."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.durable.on_placet import AGENT
from bench.durable.script import EFFECTS, name
from bench.systems.report import Report, options_of
from placet import RunConfig
from placet.desk import Desk
from placet.fleet.schema import fleet_sql, migrate
from placet.service.driving import Contexts, RunDriver
from placet.stores.postgres import PostgresStore
from tests.support.postgres import PostgresServer

WAITING = (1_000, 10_000, 100_000)
AGAIN = 20
"""How often each is measured; the least counts."""
MOST = 1.5
"""How much more of anything the largest size may cost."""

COPIES = (
    b"""INSERT INTO placet_runs
            (id, agent, status, length, head, key, created_at, updated_at, turn, wake_at, started_by)
        SELECT r.id || 'x' || n, agent, status, length, head, key, created_at, updated_at, turn, wake_at,
               started_by
        FROM placet_runs r, generate_series(%(first)s::int, %(last)s::int) n WHERE r.id = %(id)s""",
    b"""INSERT INTO placet_lines (sequence, run, position, text, checksum)
        SELECT -(c.number * 1000 + l.position), c.number, l.position, l.text, l.checksum
        FROM placet_runs r JOIN placet_lines l ON l.run = r.number, generate_series(%(first)s::int, %(last)s::int) n,
             placet_runs c
        WHERE r.id = %(id)s AND c.id = r.id || 'x' || n""",
    b"""INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
        SELECT c.id || substr(q.id, length(r.id) + 1), c.number, q.call, q.number, q.status, q.agent, q.tool, q.data
        FROM placet_runs r JOIN placet_requests q ON q.run = r.number, generate_series(%(first)s::int, %(last)s::int) n,
             placet_runs c
        WHERE r.id = %(id)s AND c.id = r.id || 'x' || n""",
)
"""A run that waits, so many times more: its row, its log, its question."""

TABLES = ("runs", "lines", "requests", "grants", "holds", "records", "folds", "workers", "fleet")
PAGES = """SELECT coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0)
    + coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0)), 0)::bigint
    FROM pg_statio_user_tables WHERE relname LIKE 'placet%%'"""


class Cost(NamedTuple):
    pages: int
    milliseconds: float


class Growth:
    """One database with waiting runs. Its store has one connection, whose server process is looked at."""

    def __init__(self, url: str, store: PostgresStore) -> None:
        self._url = url
        self._store = store
        self._desk = Desk(store, agents=[AGENT], run=False)
        self._driver = RunDriver(store, [AGENT], Contexts(), RunConfig())
        self._copies = 0
        self._pattern = ""
        self._numbers = iter(range(10**9))

    async def prepare(self) -> None:
        await migrate(self._store)
        for table in TABLES:  # whose pages a vacuum touches is chance
            await self._store.query(f"ALTER TABLE placet_{table} SET (autovacuum_enabled = false)".encode())
        self._pattern = await self._waiting_run()
        await self._store.query(fleet_sql()["register"], self._worker())

    async def grow(self, waiting: int) -> None:
        for first in range(self._copies + 1, waiting + 1, 10_000):
            given = {"id": self._pattern, "first": first, "last": min(first + 9_999, waiting)}
            for statement in COPIES:
                await self._store.query(statement, given)
        self._copies = max(self._copies, waiting)
        await self._store.query(b"ANALYZE")

    async def bytes_of_waiting(self) -> int:
        ((size,),) = await self._store.query(
            b"SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class "
            b"WHERE relkind = 'r' AND relname LIKE 'placet%%'"
        )
        return int(size)

    async def costs(self, again: int) -> dict[str, Cost]:
        works: dict[str, Callable[[], Awaitable[Any]]] = {
            "the first page of what waits": lambda: self._desk.requests(limit=50),
            "the sweep": lambda: self._store.query(
                fleet_sql()["sweep"], {"now": time.time(), "every": 0, "limit": 1000}
            ),
            "a worker's start": self._begin_work,
        }
        found = {title: await self._least(work, again) for title, work in works.items()}
        decided, driven = [], []
        for _ in range(again):
            run = await self._waiting_run()
            (asked,) = await self._desk.pending(run_id=run)
            decided.append(await self._cost(lambda asked=asked: self._desk.decide(asked.id, "approve", by="ana")))  # type: ignore[misc]
            driven.append(await self._cost(lambda run=run: self._driver.drive(run)))  # type: ignore[misc]
        return found | {"a decision": _least(decided), "from the decision to the end": _least(driven)}

    async def _least(self, work: Callable[[], Awaitable[Any]], again: int) -> Cost:
        return _least([await self._cost(work) for _ in range(again)])

    async def _cost(self, work: Callable[[], Awaitable[Any]]) -> Cost:
        pages, pid = await self._pages(), await self._pid()
        server, program = _nanoseconds(pid), time.process_time()
        await work()
        program = time.process_time() - program
        server = _nanoseconds(pid) - server
        return Cost(await self._pages() - pages, 1000 * program + server / 1e6)

    async def _pages(self) -> int:
        await self._store.query(b"SELECT pg_stat_force_next_flush()")
        with psycopg.connect(self._url, autocommit=True) as db:
            row = db.execute(PAGES.encode().replace(b"%%", b"%")).fetchone()
        assert row is not None
        return int(row[0])

    async def _pid(self) -> int:
        ((pid,),) = await self._store.query(b"SELECT pg_backend_pid()")
        return int(pid)

    async def _waiting_run(self) -> str:
        run = await self._desk.start("Bench", name(f"g{next(self._numbers)}", 2, gated=True))
        await self._driver.drive(run.id)
        return run.id

    def _worker(self) -> dict[str, object]:
        return {"name": "growth", "code": "c", "library": "1", "agents": ["Bench"], "capacity": 0}

    async def _begin_work(self) -> None:
        """What a worker asks before it hears its first call."""
        ((number,),) = await self._store.query(fleet_sql()["register"], self._worker())
        await self._store.query(fleet_sql()["queues"], {"agents": ["Bench"]})
        await self._store.query(fleet_sql()["sweep"], {"now": time.time(), "every": 0, "limit": 1000})
        await self._store.query(fleet_sql()["unregister"], {"id": number})


def _least(found: Sequence[Cost]) -> Cost:
    return Cost(min(each.pages for each in found), min(each.milliseconds for each in found))


def _nanoseconds(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


async def measure(url: str, sizes: Sequence[int], again: int) -> tuple[dict[int, dict[str, Cost]], float]:
    """By how many wait, and the bytes that one of them takes."""
    async with PostgresStore(url, connections=1) as store:
        growth = Growth(url, store)
        await growth.prepare()
        empty, found = await growth.bytes_of_waiting(), {}
        for waiting in sizes:
            await growth.grow(waiting)
            weight = (await growth.bytes_of_waiting() - empty) / max(1, waiting)
            found[waiting] = await growth.costs(again)
        return found, weight


def main(arguments: Sequence[str]) -> int:
    options = options_of("growth", __doc__ or "", arguments)
    sizes, again = ((60, 300), 2) if options.quick else (WAITING, AGAIN)
    server = PostgresServer(fsync="on", shared_buffers="256MB", autovacuum="off")
    try:
        with tempfile.NamedTemporaryFile() as effects:
            os.environ[EFFECTS] = effects.name
            found, weight = asyncio.run(measure(server.new_database(), sizes, again))
    finally:
        server.close()
    report = Report("growth", f"while {sizes[0]} wait")
    first = found[sizes[0]]
    for waiting, costs in list(found.items())[1:]:
        for title, cost in costs.items():
            mine = f"{cost.pages} pages, {cost.milliseconds:.2f} ms"
            beside = f"{first[title].pages} pages, {first[title].milliseconds:.2f} ms"
            ratio = cost.pages / max(1, first[title].pages)
            report.add(f"{title}, while {waiting:,} wait", mine, beside, ratio)
    report.add("bytes of a run that waits", f"{weight:,.0f}")
    return report.finish(options)

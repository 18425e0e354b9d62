"""Runs in an SQLite file: `SQLiteStore("placet.db")`. Several processes can use one file; any thread, any event loop.

All writes go through one thread (`sqlite_writer`), which commits whatever waits together; reads have connections of
their own. What a write does is said here, as functions of a connection inside a transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.index import RequestRow
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.facts.errors import StoreError
from placet.facts.events import GrantMade, GrantRevoked, HoldKind, HoldLifted, RunErased, RunsDeleted
from placet.ports import (
    FeedEntry,
    Hold,
    IndexedOperators,
    IndexedRun,
    Lease,
    Page,
    RequestQuery,
    RunQuery,
    RunRow,
    StoredRun,
    StoreNumbers,
)
from placet.stores import sqlite_deleting, sqlite_erasing, sqlite_folds, sqlite_writes
from placet.stores.auditing import indexed_operators, indexed_run
from placet.stores.caching import without_cache
from placet.stores.forking import leave_to_the_parent, watch_forks
from placet.stores.leases import DEFAULT_TTL, LeaseBook
from placet.stores.news import Bell
from placet.stores.operators import whole_log
from placet.stores.ownership import new_owner
from placet.stores.queries import Migration
from placet.stores.rows import (
    LAST,
    after_cursor,
    check_limit,
    check_status,
    checked,
    page_of,
    read_grant,
    read_numbers,
    read_request,
    read_run,
    status_filter,
)
from placet.stores.sqlite_files import SQL, SQLiteFile
from placet.stores.sqlite_records import SQLiteRecords
from placet.stores.sqlite_writer import Writer
from placet.stores.writing import append_of

V = TypeVar("V")

READERS = 4
LOOK_SECONDS = 0.05
"""How often to look whether another process has written something."""


class SQLiteStore(SQLiteRecords):
    """A store in a file. It is opened at the first use, or by `async with`; `close()` lets go of it."""

    def __init__(
        self,
        path: str | Path,
        *,
        lease_ttl: float = DEFAULT_TTL,
        patience: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        migrations: tuple[Migration, ...] | None = None,
        create: bool = True,
    ) -> None:
        """`patience`: how many seconds to wait for a file that another process has locked. `clock`: whose monotonic
        time the leases are measured in. `create=False`: a file that is no store yet is not made one."""
        self._file = SQLiteFile(str(path), patience, migrations, creates=create)
        self._ttl = lease_ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._is_closed = False
        watch_forks(self)

    def __repr__(self) -> str:
        return f"SQLiteStore({self._file.path!r})"

    @property
    def path(self) -> str | None:
        """The file; None for a store in memory."""
        return None if self._file.is_memory else str(self._file.path)

    async def __aenter__(self) -> Self:
        await asyncio.wrap_future(self._open().writer.submit(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is being written and let go of the file. Leases that are still out end by themselves."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            await asyncio.to_thread(opened.close)

    def _open(self) -> _Opened:
        with self._lock:
            if self._is_closed:
                raise StoreError(f"The store {self._file.path} was closed.")
            if self._opened is None:
                self._opened = _Opened(self._file, self._ttl, self._clock)
                weakref.finalize(self, _close_elsewhere, self._opened).atexit = False
            return self._opened

    def _after_fork(self) -> None:
        """In the child: the parent's connections are the parent's; touching them, or closing them, would harm it."""
        self._lock = threading.Lock()
        if self._opened is not None:
            leave_to_the_parent(self._opened)
            self._opened = None
            self._is_closed = self._is_closed or self._file.is_memory

    async def _write(self, work: Callable[[sqlite3.Connection], V]) -> V:
        return await asyncio.wrap_future(self._open().writer.submit(work))

    async def _read(self, work: Callable[[sqlite3.Connection], V]) -> V:
        opened = self._open()
        if self._file.is_memory:
            return await asyncio.wrap_future(opened.writer.submit(work))
        if not opened.is_ready:  # the writer makes the file what we read
            await asyncio.wrap_future(opened.writer.submit(None))
            opened.is_ready = True
        return await asyncio.get_running_loop().run_in_executor(opened.readers, opened.read, work)

    # -- driving a run ----------------------------------------------------------------------------------------------

    async def load(self, run_id: str) -> StoredRun | None:
        rows, cached = await self._read(lambda db: sqlite_folds.load(db, run_id))
        if not rows:
            return None
        length, head, key = rows[0][:3]
        texts = checked(run_id, length, [row[3:] for row in rows])
        return StoredRun(length, head, Log(run_id, key, head, texts, cached_at=cached))

    async def load_recent(self, run_id: str) -> StoredRun | None:
        recent = await self._read(lambda db: sqlite_folds.load_recent(db, run_id))
        return recent if recent is not None else without_cache(await self.load(run_id))

    async def lease(self, run_id: str, driver: object) -> Lease:
        book = self._open().book
        asked_at = book.now()
        owner = new_owner()
        gone = book.epoch_of_the_gone(run_id)
        try:
            epoch = await self._write(lambda db: sqlite_writes.take_lease(db, run_id, owner, gone, book.ttl))
        except asyncio.CancelledError:
            with suppress(StoreError):
                self._open().writer.submit(lambda db: sqlite_writes.forget_owner(db, run_id, owner))
            raise
        return book.add(run_id, epoch, driver, asked_at)

    async def release(self, lease: Lease, length: int) -> bool:
        book = self._open().book
        if await self._write(lambda db: sqlite_writes.end_lease(db, lease, length, book.ttl)):
            book.remove(lease)
            return True
        return False

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        given = append_of(lease, log, lines, run)
        await self._write(lambda db: sqlite_writes.append(db, given))
        if given.fold is not None:
            log.cached_at = given.fold.position

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        rows = await self._read(lambda db: db.execute(SQL["waiting_on"], (session_key,)).fetchall())
        return [run_id for (run_id,) in rows]

    # -- grants and holds -------------------------------------------------------------------------------------------

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        rows = await self._read(lambda db: db.execute(SQL["standing_grants"], (agent,)).fetchall())
        return [read_grant(data) for (data,) in rows]

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        return await self._write(lambda db: sqlite_writes.use_grant(db, grant, call_id))

    async def grants(self) -> list[GrantMade]:
        rows = await self._read(lambda db: db.execute(SQL["all_grants"]).fetchall())
        return [read_grant(data) for (data,) in rows]

    async def put_grant(self, grant: GrantMade) -> None:
        await self._write(lambda db: sqlite_writes.put_grant(db, grant))

    async def revoke_grant(
        self, grant_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        revoked = GrantRevoked(grant_id, by, self._clock.now() if at is None else at, reason)
        return await self._write(lambda db: sqlite_writes.revoke_grant(db, revoked))

    async def put_hold(self, hold: Hold, *, over_others: bool = True) -> bool:
        return await self._write(lambda db: sqlite_writes.put_hold(db, hold, over_others))

    async def remove_hold(
        self,
        kind: HoldKind,
        name: str,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
        placed_by: str | None = None,
    ) -> bool:
        lifted = HoldLifted(kind, name, by, self._clock.now() if at is None else at, reason)
        return await self._write(lambda db: sqlite_writes.remove_hold(db, lifted, placed_by))

    async def operators_log(self) -> Log:
        return whole_log(await self._read(lambda db: db.execute(SQL["operators_log"]).fetchall()))

    async def indexed(self, run_id: str) -> IndexedRun | None:
        given = {"id": run_id}

        def look(db: sqlite3.Connection) -> IndexedRun | None:
            runs = db.execute(SQL["indexed_run"], given).fetchall()
            return indexed_run(runs, db.execute(SQL["indexed_requests"], given).fetchall())

        return await self._read(look)

    async def indexed_operators(self) -> IndexedOperators:
        def look(db: sqlite3.Connection) -> IndexedOperators:
            grants = db.execute(SQL["indexed_grants"]).fetchall()
            return indexed_operators(grants, db.execute(SQL["strays"]).fetchall())

        return await self._read(look)

    async def holds(self) -> list[Hold]:
        rows = await self._read(lambda db: db.execute(SQL["holds"]).fetchall())
        return [Hold(kind=kind, name=name, by=by, at=at, reason=reason) for kind, name, by, at, reason in rows]

    # -- lists ------------------------------------------------------------------------------------------------------

    async def requests(self, query: RequestQuery) -> Page[RequestRow]:
        check_status(query.status, "request")
        limit = check_limit(query.limit)
        after = after_cursor(query.cursor, LAST if query.newest_first else 0)
        given = {"after": after, "limit": limit + 1, "run_id": query.run_id}
        name = ("requests" if query.run_id is None else "requests_of_run") + ("_newest" if query.newest_first else "")
        sql = _filtered(name, given, {"status": query.status, "agent": query.agent, "tool": query.tool})
        rows = await self._read(lambda db: db.execute(sql, given).fetchall())
        return page_of(rows, limit, lambda row: int(row[0]), lambda row: read_request(*row[1:]))

    async def request(self, request_id: str) -> RequestRow | None:
        row = await self._read(lambda db: db.execute(SQL["request"], (request_id,)).fetchone())
        return read_request(*row) if row is not None else None

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        check_status(query.status, "run")
        limit = check_limit(query.limit)
        given = {"before": after_cursor(query.cursor, LAST), "limit": limit + 1, "now": time.time()}
        sql = _filtered("runs", given, {"agent": query.agent}, status_filter(query.status))
        rows = await self._read(lambda db: db.execute(sql, given).fetchall())
        return page_of(rows, limit, lambda row: int(row[0]), read_run)

    async def run(self, run_id: str) -> RunRow | None:
        given = {"id": run_id, "now": time.time()}
        row = await self._read(lambda db: db.execute(SQL["run"], given).fetchone())
        return read_run(row) if row is not None else None

    async def runnable(self, now: float, limit: int) -> list[str]:
        given = {"now": now, "clock": time.time(), "limit": limit}
        rows = await self._read(lambda db: db.execute(SQL["runnable"], given).fetchall())
        return [run_id for (run_id,) in rows]

    async def numbers(self) -> StoreNumbers:
        return read_numbers(await self._read(lambda db: db.execute(SQL["numbers"], {"now": time.time()}).fetchone()))

    async def park(self, run_id: str, *, parked: bool) -> None:
        await self._write(lambda db: db.execute(SQL["park"], (parked, parked, run_id)).rowcount)

    # -- the feed ---------------------------------------------------------------------------------------------------

    async def feed(self, after: int, limit: int = 500) -> list[FeedEntry]:
        rows = await self._read(lambda db: db.execute(SQL["feed"], (after, limit)).fetchall())
        return [FeedEntry(sequence=each[0], run_id=each[1], position=each[2], text=each[3]) for each in rows]

    async def latest_sequence(self) -> int:
        (last,) = await self._read(lambda db: db.execute(SQL["last_sequence"]).fetchone())
        return int(last)

    async def wait_for_news(self, after: int, seconds: float) -> bool:
        bell = self._open().bell
        give_up = time.monotonic() + seconds
        while True:
            rung = bell.wait()
            last = await self.latest_sequence()
            left = give_up - time.monotonic()
            if last > after or left <= 0:
                rung.cancel()
                return last > after
            await asyncio.wait([rung], timeout=min(left, LOOK_SECONDS))
            rung.cancel()

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def erase(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        wanted = RunErased(run_id, by, self._clock.now() if at is None else at, reason, 0, "")
        is_done = await self._write(lambda db: sqlite_erasing.erase(db, wanted))
        if is_done and not self._file.is_memory:
            await asyncio.to_thread(sqlite_erasing.empty_the_wal, self._file)
        return is_done

    async def delete(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        wanted = RunsDeleted([], by, self._clock.now() if at is None else at, reason)
        return await self._write(lambda db: sqlite_deleting.delete(db, run_id, wanted))

    async def purge(
        self,
        ended_before: float,
        limit: int = 1000,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
    ) -> int:
        wanted = RunsDeleted([], by, self._clock.now() if at is None else at, reason, ended_before)
        return await self._write(lambda db: sqlite_deleting.purge(db, limit, wanted))


class _Opened:
    """Threads and connections of a store in use. It does not know the store, so that a forgotten store can go."""

    def __init__(self, file: SQLiteFile, ttl: float, clock: Clock) -> None:
        self.bell = Bell()
        self.writer = Writer(file, self.bell.ring)
        self.book = LeaseBook(lambda: _Renewals(file, self.writer), ttl, clock)
        self.readers = ThreadPoolExecutor(READERS, "placet-reader")
        self.is_ready = False
        self._file = file
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    def read(self, work: Callable[[sqlite3.Connection], V]) -> V:
        """In a reader's thread, with that thread's connection."""
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._file.connect(is_reader=True)
            self._connections.append(db)
        try:
            return work(db)
        except sqlite3.Error as error:
            self._local.db = None
            self._connections.remove(db)
            db.close()
            raise self._file.explain(error) from error

    def close(self) -> None:
        self.book.close()
        self.readers.shutdown()
        for db in self._connections:
            db.close()
        self._connections.clear()
        self.writer.close()


class _Renewals:
    """Leases are renewed on a connection of their own: neither a busy loop nor a long queue of writes delays it."""

    def __init__(self, file: SQLiteFile, writer: Writer) -> None:
        # Without a sync to the disk: a machine that goes down takes its drivers with it.
        self._db = None if file.is_memory else file.connect(synchronous="NORMAL")
        self._writer = writer

    def renew(self, held: Sequence[Lease], ttl: float) -> Sequence[bool]:
        return self._do(lambda db: [self._renew_one(db, lease, ttl) for lease in held])

    def expire(self, gone: Sequence[Lease]) -> None:
        self._do(lambda db: [db.execute(SQL["expire_lease"], (lease.run_id, lease.epoch)) for lease in gone])

    def _renew_one(self, db: sqlite3.Connection, lease: Lease, ttl: float) -> bool:
        row = db.execute(SQL["renew_lease"], (time.time() + ttl, lease.run_id, lease.epoch)).fetchone()
        return row is not None

    def _do(self, work: Callable[[sqlite3.Connection], V]) -> V:
        if self._db is None:
            return self._writer.submit(work).result()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._db)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        return result

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _close_elsewhere(opened: _Opened) -> None:
    """For a store that was forgotten and not closed: who collects garbage may be one of the threads to be ended."""
    threading.Thread(target=opened.close, name="placet-closing", daemon=True).start()


def _filtered(name: str, given: dict[str, Any], filters: dict[str, str | None], fixed: str = "") -> str:
    """The statement with those conditions that the query has; their values go into `given`. `fixed` has none."""
    wanted = {column: value for column, value in filters.items() if value is not None}
    given.update(wanted)
    return SQL[name].format(filters=fixed + " ".join(f"AND {column} = :{column}" for column in wanted))

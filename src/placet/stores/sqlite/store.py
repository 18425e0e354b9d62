"""Runs in an SQLite file: `SQLiteStore("placet.db")`. Several processes can use one file; any thread, any event loop.

All writes go through one thread (`writer`), which commits whatever waits together; reads have connections of their own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from placet.clock import SYSTEM_CLOCK, Clock
from placet.facts.errors import StoreError
from placet.facts.events import RunErased
from placet.ports import Lease
from placet.stores.sql.appending import Append
from placet.stores.sql.forgetting import erase
from placet.stores.sql.forking import leave_to_the_parent, watch_forks
from placet.stores.sql.leases import DEFAULT_TTL, LeaseAnswer, LeaseBook
from placet.stores.sql.news import NewsSignal
from placet.stores.sql.statements import Given, Migration, Row, Statement, Steps, one
from placet.stores.sql.store import SQLStore
from placet.stores.sqlite import writes
from placet.stores.sqlite.file import SQLiteFile, begin, execute_steps
from placet.stores.sqlite.writer import Writer

P = ParamSpec("P")
V = TypeVar("V")

READERS = 4
LOOK_SECONDS = 0.05
"""How often to look whether another process has written something."""


class SQLiteStore(SQLStore):
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
        super().__init__(clock)
        self._file = SQLiteFile(str(path), patience, migrations, creates=create)
        self._ttl = lease_ttl
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

    async def _connect(self) -> None:
        await asyncio.wrap_future(self._open().writer.submit(None))

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
                weakref.finalize(self, _close_in_a_thread, self._opened).atexit = False
            return self._opened

    def _after_fork(self) -> None:
        """In the child: the parent's connections are the parent's; touching them, or closing them, would harm it."""
        self._lock = threading.Lock()
        if self._opened is not None:
            leave_to_the_parent(self._opened)
            self._opened = None
            self._is_closed = self._is_closed or self._file.is_memory

    async def _write(self, work: Callable[Concatenate[bool, P], Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        return await asyncio.wrap_future(self._open().writer.submit(work(False, *given, **named)))

    async def _read(self, work: Callable[P, Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        opened, steps = self._open(), work(*given, **named)
        if self._file.is_memory:
            return await asyncio.wrap_future(opened.writer.submit(steps))
        if not opened.is_ready:  # the writer makes the file what we read
            await asyncio.wrap_future(opened.writer.submit(None))
            opened.is_ready = True
        return await asyncio.get_running_loop().run_in_executor(opened.readers, opened.read, steps)

    async def _change(self, name: str, given: Given) -> list[Row]:
        return await asyncio.wrap_future(self._open().writer.submit(one(name, given)))

    def _words_wanted(self, words: Sequence[str]) -> str:
        return " AND ".join(f'"{word}"*' for word in words)  # no word has a quotation mark

    def _leases(self) -> LeaseBook:
        return self._open().book

    async def _take_lease(self, run_id: str, owner: str, gone: int | None, ttl: float) -> LeaseAnswer:
        return await self._write(writes.take_lease, run_id, owner, gone, ttl)

    async def _end_lease(self, run_id: str, epoch: int, length: int, pause: float) -> bool:
        return await self._write(writes.end_lease, run_id, epoch, length, pause)

    def _forget_owner(self, run_id: str, owner: str) -> None:
        with suppress(StoreError):
            self._open().writer.submit(writes.forget_owner(False, run_id, owner))

    async def _append(self, append: Append) -> None:
        await self._write(writes.append, append)

    async def _use_grant(self, grant_id: str, call_id: str, uses: int | None) -> bool:
        return await self._write(writes.use_grant, grant_id, call_id, uses)

    def _news(self) -> NewsSignal:
        return self._open().news

    def _pause_between_looks(self, *, is_written: bool) -> float:
        return LOOK_SECONDS

    async def index_words(self, words: Mapping[str, Sequence[str]]) -> None:
        """What a search index moves about must leave no copy behind: erasing would not find it."""
        await self._change("overwrite_erased", {})
        await super().index_words(words)

    async def _erase(self, wanted: RunErased) -> bool:
        is_done = await self._write(_erase_securely, wanted)
        if is_done and not self._file.is_memory:
            await asyncio.to_thread(self._file.empty_the_wal)
        return is_done


def _erase_securely(again: bool, wanted: RunErased) -> Steps[bool]:
    yield Statement("overwrite_erased")
    return (yield from erase(again, wanted))


class _Opened:
    """Threads and connections of a store in use. It does not know the store, so that a forgotten store can go."""

    def __init__(self, file: SQLiteFile, ttl: float, clock: Clock) -> None:
        self.news = NewsSignal()
        self.writer = Writer(file, self.news.notify)
        self.book = LeaseBook(lambda: _Renewals(file, self.writer), ttl, clock)
        self.readers = ThreadPoolExecutor(READERS, "placet-reader")
        self.is_ready = False
        self._file = file
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    def read(self, steps: Steps[V]) -> V:
        """In a reader's thread, with that thread's connection."""
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._file.connect(is_reader=True)
            self._connections.append(db)
        try:
            return execute_steps(db, steps)
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
        return self._do(_renew(held, ttl))

    def expire(self, gone: Sequence[Lease]) -> None:
        self._do(_expire(gone))

    def _do(self, steps: Steps[V]) -> V:
        if self._db is None:
            return self._writer.submit(steps).result()
        with begin(self._db):
            return execute_steps(self._db, steps)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _renew(held: Sequence[Lease], ttl: float) -> Steps[list[bool]]:
    renewed: list[bool] = []
    for lease in held:
        rows = yield Statement("renew_lease", {"id": lease.run_id, "epoch": lease.epoch, "ttl": ttl})
        renewed.append(bool(rows))
    return renewed


def _expire(gone: Sequence[Lease]) -> Steps[None]:
    yield Statement("expire_lease", [{"id": lease.run_id, "epoch": lease.epoch} for lease in gone])


def _close_in_a_thread(opened: _Opened) -> None:
    """For a store that was forgotten and not closed: who collects garbage may be one of the threads to be ended."""
    threading.Thread(target=opened.close, name="placet-closing", daemon=True).start()

"""Runs in PostgreSQL: `PostgresStore("postgresql://user@host/database")`, for many processes on many machines.

One store object belongs to one event loop: the first that uses it. (When that one is closed, as after `asyncio.run`,
the next may have it.) An append is one statement. What is settled in the feed waits for older transactions of the whole
server to end, those of other programs too: a long one delays the feed, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from placet.clock import SYSTEM_CLOCK, Clock
from placet.facts.addresses import without_credentials
from placet.facts.errors import StoreError
from placet.stores.postgres import writes
from placet.stores.postgres.cancelling import Cancellations
from placet.stores.postgres.connections import (
    Connection,
    Connections,
    connect,
    execute_steps,
    is_pooled,
    sql,
)
from placet.stores.postgres.renewals import Renewals
from placet.stores.sql.appending import Append
from placet.stores.sql.forking import leave_to_the_parent, watch_forks
from placet.stores.sql.leases import DEFAULT_TTL, LeaseAnswer, LeaseBook
from placet.stores.sql.news import NewsSignal
from placet.stores.sql.statements import Given, Migration, Row, Steps
from placet.stores.sql.store import SQLStore

logger = logging.getLogger("placet.stores")

P = ParamSpec("P")
V = TypeVar("V")

LOOK_SECONDS = 1.0
"""How often to look for news without a notification: one may be lost with its process."""
POLL_SECONDS = 0.25
"""How often to look where one cannot listen: behind a pooler, other processes' notifications do not arrive."""
SETTLE_SECONDS = 0.02
"""How often to look when something was written that is not settled yet."""
NOTIFY_SECONDS = 0.05
"""The least time between two notifications: they cost every transaction of the server a little."""


class PostgresStore(SQLStore):
    """A store in a PostgreSQL database. It connects at the first use, or by `async with`; `close()` disconnects."""

    def __init__(
        self,
        url: str,
        *,
        lease_ttl: float = DEFAULT_TTL,
        patience: float = 30.0,
        connections: int = 10,
        clock: Clock = SYSTEM_CLOCK,
        migrations: tuple[Migration, ...] | None = None,
        listen: bool = True,
        create: bool = True,
    ) -> None:
        """`patience`: how many seconds to wait for a database that is away. `clock`: whose monotonic time the leases
        are measured in. `listen=False`: look for news once in a while instead of listening for it, and keep nothing in
        a session, for poolers that give each transaction another connection. (One that shows is found out anyway.)
        `create=False`: a database without our tables does not get them."""
        super().__init__(clock)
        self._url = url
        self._ttl = lease_ttl
        self._patience = patience
        self._size = connections
        self._migrations = migrations
        self._listens = listen
        self._creates = create
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._is_closed = False
        watch_forks(self)

    def __repr__(self) -> str:
        return f"PostgresStore({without_credentials(self._url)!r})"

    async def _connect(self) -> None:
        await self._open().connections.open()

    async def close(self) -> None:
        """Disconnect. Leases that are still out end by themselves."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _open(self) -> _Opened:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._is_closed:
                raise StoreError("The store was closed.")
            if self._opened is not None and self._opened.loop.is_closed():
                self._opened.abandon()
                self._opened = None
            if self._opened is None:
                connections = Connections(
                    self._url,
                    self._size,
                    self._patience,
                    self._migrations,
                    in_sessions=self._listens,
                    creates=self._creates,
                )
                self._opened = _Opened(self._url, loop, connections, self._ttl, self._clock, listens=self._listens)
                weakref.finalize(self, self._opened.book.stop).atexit = False
            if self._opened.loop is not loop:
                raise StoreError("A PostgresStore belongs to one event loop: make one for each.")
            return self._opened

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._opened is not None:
            leave_to_the_parent(self._opened)
            self._opened = None

    async def _read(self, work: Callable[P, Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        async def read(db: Connection, _tried: bool) -> V:
            return await execute_steps(db, work(*given, **named))

        return await self._open().connections.do(read)

    async def _write(self, work: Callable[Concatenate[bool, P], Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        async def write(db: Connection, tried: bool) -> V:
            async with db.transaction():
                return await execute_steps(db, work(tried, *given, **named))

        return await self._open().connections.do(write)

    async def _change(self, name: str, given: Given) -> list[Row]:
        return await self._rows(name, given)  # one statement is a transaction of its own

    async def query(self, text: bytes, given: Given | None = None) -> list[Row]:
        """A statement of somebody who shares the database: the fleet."""

        async def ask(db: Connection, _tried: bool) -> list[Row]:
            cursor = await db.execute(text, given, binary=True)
            return await cursor.fetchall() if cursor.description is not None else []

        return await self._open().connections.do(ask)

    @property
    def connections(self) -> Connections:
        """For work of somebody who shares the database: in a transaction, say."""
        return self._open().connections

    @property
    def url(self) -> str:
        return self._url

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler stands before the server. It is known after the first use."""
        return self._opened is not None and self._opened.connections.is_pooled

    @property
    def listens(self) -> bool:
        """Whether connections are sessions of the server, in which one can listen."""
        return self._listens and not self.is_pooled

    # -- what is PostgreSQL's own -----------------------------------------------------------------------------------

    def _words_wanted(self, words: Sequence[str]) -> str:
        return " & ".join(f"'{word}':*" for word in words)  # no word has a quotation mark

    def _leases(self) -> LeaseBook:
        return self._open().book

    async def _take_lease(self, run_id: str, owner: str, gone: int | None, ttl: float) -> LeaseAnswer:
        (row,) = await self._change("lease", {"id": run_id, "owner": owner, "gone": gone, "ttl": ttl})
        return LeaseAnswer(*row)

    async def _end_lease(self, run_id: str, epoch: int, length: int, pause: float) -> bool:
        length = min(length, 2**31)  # a driver that gives up names the largest number of all
        given = {"id": run_id, "epoch": epoch, "length": length, "pause": pause}
        ((is_given_back,),) = await self._change("release", given)
        return bool(is_given_back)

    def _forget_owner(self, run_id: str, owner: str) -> None:
        with suppress(StoreError):  # it was closed meanwhile: then the lease ends by itself
            self._open().in_background(self._change("forget_owner", {"id": run_id, "owner": owner}))

    async def _append(self, append: Append) -> None:
        opened = self._open()
        if writes.is_alone(append):  # one statement: it needs no transaction around it
            await opened.connections.do(lambda db, tried: execute_steps(db, writes.append(tried, append)))
        else:
            await self._write(writes.append, append)
        opened.notify()

    async def _use_grant(self, grant_id: str, call_id: str, uses: int | None) -> bool:
        ((may_use,),) = await self._change("use_grant", {"id": grant_id, "call": call_id, "uses": uses})
        return bool(may_use)

    def _news(self) -> NewsSignal:
        opened = self._open()
        opened.listen()
        return opened.news

    def _pause_between_looks(self, *, is_written: bool) -> float:
        return SETTLE_SECONDS if is_written else LOOK_SECONDS if self.listens else POLL_SECONDS


class _Opened:
    """Connections, listener and leases of a store in use, all of one event loop."""

    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        ttl: float,
        clock: Clock,
        *,
        listens: bool,
    ) -> None:
        self.loop = loop
        self.connections = connections
        self.news = NewsSignal()
        self.book = LeaseBook(lambda: Renewals(url, in_session=listens), ttl, clock)
        self._url = url
        self._listens = listens
        self._listener: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()  # Any: nobody waits for their results
        self._has_news = False
        self._is_announcing = False

    def notify(self) -> None:
        """Something was written: notify this process at once, and the others soon. That is not part of the append,
        because transactions that notify commit one after another."""
        self.news.notify()
        self._has_news = True
        if not self._is_announcing:
            self._is_announcing = True
            self.in_background(self._announce())

    async def _announce(self) -> None:
        try:
            while self._has_news:
                self._has_news = False
                await self.connections.do(_announce)
                await asyncio.sleep(NOTIFY_SECONDS)
        finally:
            self._is_announcing = False

    def in_background(self, work: Any) -> None:  # Any: a coroutine whose result nobody needs
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:  # Any: as above
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("ring lost", extra={"action": "ring_lost", "error": str(task.exception())})

    def listen(self) -> None:
        if self._listener is None and self._listens:
            self._listener = self.loop.create_task(self._listen())

    async def _listen(self) -> None:
        cancellations = Cancellations()
        while True:
            with suppress(psycopg.Error, StoreError, OSError):
                db = await connect(self._url)
                try:
                    if await is_pooled(db):
                        return  # a notification would reach another client of the pooler; who waits looks by itself
                    await db.execute(b"LISTEN placet_news")
                    self.news.notify()
                    async for _ in db.notifies():
                        self.news.notify()
                finally:
                    await db.close()
            cancellations.raise_new()
            await asyncio.sleep(LOOK_SECONDS)  # who waits looks by itself meanwhile

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener])
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=1.0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.to_thread(self.book.close)
        await self.connections.close()

    def abandon(self) -> None:
        """The event loop is closed: nothing can be awaited any more."""
        self.book.stop()
        self.connections.abandon()


async def _announce(db: Connection, _tried: bool) -> None:
    await db.execute(sql("announce"))

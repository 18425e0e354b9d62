"""Runs in PostgreSQL: `PostgresStore("postgresql://user@host/database")`, for many processes on many machines.

One store object belongs to one event loop: the first that uses it. (When that one is closed, as after `asyncio.run`,
the next may have it.) An append is one statement. What is settled in the feed waits for older transactions of the whole
server to end, those of other programs too: a long one delays the feed, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import psycopg

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.index import RequestRow
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.facts.addresses import without_credentials
from placet.facts.errors import StoreError
from placet.facts.events import (
    AnyFact,
    GrantMade,
    GrantRevoked,
    HoldKind,
    HoldLifted,
    RunErased,
    RunsDeleted,
    StandingGrantMade,
)
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
)
from placet.stores.auditing import indexed_operators, indexed_run
from placet.stores.caching import SHORT, CachedFold, fold_version, recent_log, without_cache
from placet.stores.cancelling import Cancellations
from placet.stores.forking import leave_to_the_parent, watch_forks
from placet.stores.leases import DEFAULT_TTL, LeaseBook
from placet.stores.news import Bell
from placet.stores.operators import placed, whole_log
from placet.stores.ownership import driven_by, new_owner, pause_after_giving_up, taken_over
from placet.stores.postgres_connections import (
    SQL,
    Connection,
    Connections,
    Work,
    connect,
    is_pooled,
)
from placet.stores.postgres_deleting import delete, purge
from placet.stores.postgres_erasing import erase
from placet.stores.postgres_operators import audited, write_grants
from placet.stores.postgres_parameters import filtered, parameters, searchable
from placet.stores.postgres_records import PostgresRecords
from placet.stores.postgres_renewals import Renewals
from placet.stores.queries import Migration
from placet.stores.rows import (
    LAST,
    after_cursor,
    check_limit,
    check_status,
    checked,
    page_of,
    read_grant,
    read_request,
    read_run,
    status_filter,
    text_of,
)
from placet.stores.writing import Append, append_of, position_conflict

logger = logging.getLogger("placet.stores")

LOOK_SECONDS = 1.0
"""How often to look for news although nobody rang: a ring may be lost with its process."""
POLL_SECONDS = 0.25
"""How often to look where nobody can listen, behind a pooler: other processes' rings are not heard there."""
SETTLE_SECONDS = 0.02
"""How often to look when something was written that is not settled yet."""
RING_SECONDS = 0.02
"""The least time between two rings: they cost every transaction of the server a little."""

Row = tuple[Any, ...]  # Any: what the columns hold


class PostgresStore(PostgresRecords):
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
        self._url = url
        self._ttl = lease_ttl
        self._patience = patience
        self._size = connections
        self._clock = clock
        self._migrations = migrations
        self._listens = listen
        self._creates = create
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._is_closed = False
        watch_forks(self)

    def __repr__(self) -> str:
        return f"PostgresStore({without_credentials(self._url)!r})"

    async def __aenter__(self) -> Self:
        await self._open().connections.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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

    async def _rows(self, name: str, given: Mapping[str, object] | None = None, sql: bytes | None = None) -> list[Row]:
        statement = sql if sql is not None else SQL[name]

        async def work(db: Connection, _tried: bool) -> list[Row]:
            cursor = await db.execute(statement, given, binary=True)
            return await cursor.fetchall() if cursor.description is not None else []

        return await self._open().connections.do(work)

    async def _do(self, work: Work[bool]) -> bool:
        return await self._open().connections.do(work)

    async def query(self, sql: bytes, given: Mapping[str, object] | None = None) -> list[Row]:
        """A statement of somebody who shares the database: the fleet."""
        return await self._rows("", given, sql)

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

    async def _row(self, name: str, given: Mapping[str, object]) -> Row | None:
        rows = await self._rows(name, given)
        return rows[0] if rows else None

    async def _value(self, name: str, given: Mapping[str, object]) -> Any:  # Any: what the column holds
        row = await self._row(name, given)
        return row[0] if row is not None else None

    # -- driving a run ----------------------------------------------------------------------------------------------

    async def load(self, run_id: str) -> StoredRun | None:
        rows = await self._rows("load", {"id": run_id})
        if not rows:
            return None
        length, head, key = rows[0][:3]
        texts = checked(run_id, length, [(row[3], row[4], row[5]) for row in rows])
        cached_at = 0  # a short log has none
        if length >= SHORT:
            cached_at = await self._value("cached_at", {"id": run_id, "version": fold_version()}) or 0
        return StoredRun(length, head, Log(run_id, key, head, texts, cached_at=cached_at))

    async def load_recent(self, run_id: str) -> StoredRun | None:
        row = await self._row("cached_fold", {"id": run_id, "version": fold_version()})
        if row is None:
            return without_cache(await self.load(run_id))
        position, size, version, checksum, data = row
        cached = CachedFold(position=position, size=size, version=version, checksum=checksum, data=data)
        rows = await self._rows("load_from", {"id": run_id, "start": position}) if cached.is_sound else []
        if not rows or rows[0][0] < position:
            return without_cache(await self.load(run_id))
        length, head, key = rows[0][:3]
        lines = [(row[3], row[4], row[5]) for row in rows if row[3] is not None]
        texts = checked(run_id, length, lines, position)
        return StoredRun(length, head, recent_log(run_id, key, head, texts, cached))

    async def lease(self, run_id: str, driver: object) -> Lease:
        book = self._open().book
        asked_at = book.now()
        owner = new_owner()
        given = {"run_id": run_id, "owner": owner, "gone": book.epoch_of_the_gone(run_id), "ttl": self._ttl}
        try:
            row = await self._row("lease", given)
        except asyncio.CancelledError:
            self._open().in_background(self._rows("forget_owner", {"run_id": run_id, "owner": owner}))
            raise
        assert row is not None, "the function always answers"
        epoch, holder = row
        if epoch is None:
            raise driven_by(run_id, holder)
        return book.add(run_id, epoch, driver, asked_at)

    async def release(self, lease: Lease, length: int) -> bool:
        pause = pause_after_giving_up(self._ttl)
        length = min(length, 2**31)  # a driver that gives up names the largest number of all
        given = {"run_id": lease.run_id, "epoch": lease.epoch, "length": length, "pause": pause}
        if await self._value("release", given):
            self._open().book.remove(lease)
            return True
        return False

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        append = append_of(lease, log, lines, run)
        given = parameters(append)

        async def work(db: Connection, tried: bool) -> Row | None:
            if not append.grants and append.fold is None and not append.drops_fold:
                return await (await db.execute(SQL["append"], given | {"again": tried})).fetchone()
            async with db.transaction() as transaction:
                if append.grants:
                    await write_grants(db, append.run_id, append.at, append.grants)
                row = await (await db.execute(SQL["append"], given | {"again": tried})).fetchone()
                if row is None or row[0] != "done":
                    raise psycopg.Rollback(transaction)
                await _change_fold(db, append)
            return row

        opened = self._open()
        row = await opened.connections.do(work)
        assert row is not None, "the function always answers"
        outcome, stands_at = row
        if outcome == "taken":
            raise taken_over(append.run_id)
        if outcome == "position":
            raise position_conflict(append, stands_at)
        if append.fold is not None:
            log.cached_at = append.fold.position
        opened.ring()

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        return [run_id for (run_id,) in await self._rows("waiting_on", {"session": searchable(session_key)})]

    # -- grants and holds -------------------------------------------------------------------------------------------

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        return [read_grant(data) for (data,) in await self._rows("standing_grants", {"agent": searchable(agent)})]

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        return bool(await self._value("use_grant", {"grant": grant.id, "call": call_id, "uses": grant.uses}))

    async def grants(self) -> list[GrantMade]:
        return [read_grant(data) for (data,) in await self._rows("all_grants")]

    async def put_grant(self, grant: GrantMade) -> None:
        given = {"id": grant.id, "agent": grant.agent, "data": text_of(grant)}
        await self._audited(grant.at, StandingGrantMade("", grant), "put_grant", given)

    async def revoke_grant(
        self, grant_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        revoked = GrantRevoked(grant_id, by, self._clock.now() if at is None else at, reason)
        return await self._audited(revoked.at, revoked, "revoke_grant", {"id": grant_id})

    async def put_hold(self, hold: Hold, *, over_others: bool = True) -> bool:
        given = {"kind": hold.kind, "name": hold.name, "by": hold.by, "at": hold.at, "reason": hold.reason}
        return await self._audited(hold.at, placed(hold), "put_hold", given | {"over_others": over_others})

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
        given = {"kind": kind, "name": name, "placed_by": placed_by}
        return await self._audited(lifted.at, lifted, "remove_hold", given)

    async def _audited(self, at: float, fact: AnyFact, name: str, given: Mapping[str, object]) -> bool:
        """Do what a statement says and write it into the operators' log; the statement's value says whether there was
        anything to do."""

        async def work(db: Connection, tried: bool) -> bool:
            async def act() -> bool:
                row = await (await db.execute(SQL[name], given)).fetchone()
                return row is not None and bool(row[0])

            return await audited(db, tried, at, fact, act)

        return await self._do(work)

    async def operators_log(self) -> Log:
        return whole_log(await self._rows("operators_log"))

    async def indexed(self, run_id: str) -> IndexedRun | None:
        given = {"id": run_id}
        return indexed_run(await self._rows("indexed_run", given), await self._rows("indexed_requests", given))

    async def indexed_operators(self) -> IndexedOperators:
        return indexed_operators(await self._rows("indexed_grants"), await self._rows("strays"))

    async def holds(self) -> list[Hold]:
        rows = await self._rows("holds")
        return [Hold(kind=kind, name=name, by=by, at=at, reason=reason) for kind, name, by, at, reason in rows]

    # -- lists ------------------------------------------------------------------------------------------------------

    async def requests(self, query: RequestQuery) -> Page[RequestRow]:
        check_status(query.status, "request")
        limit = check_limit(query.limit)
        after = after_cursor(query.cursor, LAST if query.newest_first else 0)
        given = {"after": after, "limit": limit + 1, "run_id": query.run_id}
        name = ("requests" if query.run_id is None else "requests_of_run") + ("_newest" if query.newest_first else "")
        sql = filtered(name, given, {"status": query.status, "agent": query.agent, "tool": query.tool})
        rows = await self._rows(name, given, sql)
        return page_of(rows, limit, lambda row: int(row[0]), lambda row: read_request(*row[1:]))

    async def request(self, request_id: str) -> RequestRow | None:
        row = await self._row("request", {"id": request_id})
        return read_request(*row) if row is not None else None

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        check_status(query.status, "run")
        limit = check_limit(query.limit)
        given: dict[str, object] = {"before": after_cursor(query.cursor, LAST), "limit": limit + 1}
        sql = filtered("runs", given, {"agent": query.agent}, status_filter(query.status))
        return page_of(await self._rows("runs", given, sql), limit, lambda row: int(row[0]), read_run)

    async def run(self, run_id: str) -> RunRow | None:
        row = await self._row("run", {"id": run_id})
        return read_run(row) if row is not None else None

    async def runnable(self, now: float, limit: int) -> list[str]:
        return [run_id for (run_id,) in await self._rows("runnable", {"now": now, "limit": limit})]

    async def park(self, run_id: str, *, parked: bool) -> None:
        await self._rows("park", {"id": run_id, "parked": parked})

    # -- the feed ---------------------------------------------------------------------------------------------------

    async def feed(self, after: int, limit: int = 500) -> list[FeedEntry]:
        rows = await self._rows("feed", {"after": after, "limit": limit})
        return [FeedEntry(sequence=each[0], run_id=each[1], position=each[2], text=each[3]) for each in rows]

    async def latest_sequence(self) -> int:
        return int(await self._value("last_sequence", {}))

    async def wait_for_news(self, after: int, seconds: float) -> bool:
        opened = self._open()
        opened.listen()
        give_up = time.monotonic() + seconds
        while True:
            rung = opened.bell.wait()
            row = await self._row("news", {"after": after})
            assert row is not None, "the statement always gives a row"
            is_settled, is_written = row
            left = give_up - time.monotonic()
            if is_settled or left <= 0:
                rung.cancel()
                return bool(is_settled)
            pause = SETTLE_SECONDS if is_written else LOOK_SECONDS if self.listens else POLL_SECONDS
            await asyncio.wait([rung], timeout=min(left, pause))
            rung.cancel()

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def erase(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        wanted = RunErased(run_id, by, self._clock.now() if at is None else at, reason, 0, "")
        return await self._open().connections.do(lambda db, tried: erase(db, tried, wanted))

    async def delete(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        wanted = RunsDeleted([], by, self._clock.now() if at is None else at, reason)
        return await self._open().connections.do(lambda db, tried: delete(db, tried, run_id, wanted))

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
        return await self._open().connections.do(lambda db, tried: purge(db, tried, limit, wanted))


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
        self.bell = Bell()
        self.book = LeaseBook(lambda: Renewals(url, in_session=listens), ttl, clock)
        self._url = url
        self._listens = listens
        self._listener: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()  # Any: nobody waits for their results
        self._has_news = False
        self._is_announcing = False

    def ring(self) -> None:
        """Something was written: tell this process at once, and the others soon. Rings are not part of the append,
        because transactions that notify commit one after another."""
        self.bell.ring()
        self._has_news = True
        if not self._is_announcing:
            self._is_announcing = True
            self.in_background(self._announce())

    async def _announce(self) -> None:
        try:
            while self._has_news:
                self._has_news = False
                await self.connections.do(_announce)
                await asyncio.sleep(RING_SECONDS)
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
                        return  # a ring would reach whoever has that connection then; whoever waits looks by itself
                    await db.execute(b"LISTEN placet_news")
                    self.bell.ring()
                    async for _ in db.notifies():
                        self.bell.ring()
                finally:
                    await db.close()
            cancellations.raise_new()
            await asyncio.sleep(LOOK_SECONDS)  # whoever waits looks by itself meanwhile

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
    await db.execute(SQL["announce"])


async def _change_fold(db: Connection, append: Append) -> None:
    """Cache the fold with the append that it goes with, or let go of one that has no use any more."""
    if append.fold is not None:
        given = {name: getattr(append.fold, name) for name in ("position", "size", "version", "checksum", "data")}
        await db.execute(SQL["cache_fold"], given | {"id": append.run_id})
    elif append.drops_fold:
        await db.execute(SQL["drop_fold"], {"id": append.run_id})

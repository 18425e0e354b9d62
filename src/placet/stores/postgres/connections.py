"""Connections to PostgreSQL: a small pool, patience with a database that is away for a while, and migrations.

A connection that broke is thrown away and the work is tried again on a new one; so work must bear being done twice.

The pool is ours, a list and a semaphore, because of what `psycopg_pool` does on purpose: it connects in the background,
so who waits learns that there was no connection in time, but not why (a wrong password, a database that is not there);
after a failure it waits longer and longer before it connects again; and it logs each failure, where an outage is one
line in our log. The queue of the fleet, which needs none of this, uses it.

Behind a pooler that gives each transaction another connection (PgBouncer in transaction mode) nothing may be kept in a
session: a statement that was prepared in one would be executed in another, where its name means something else. Such a
pooler is found out at every connection, so nobody has to say that there is one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from placet.facts.errors import PlacetError, StoreError
from placet.stores.postgres.cancelling import Cancellations
from placet.stores.postgres.writes import with_searchable
from placet.stores.sql.rows import COLUMNS
from placet.stores.sql.statements import (
    Migration,
    Row,
    Statement,
    Steps,
    check_code,
    migrations,
    no_store_in,
    statement_text,
)

logger = logging.getLogger("placet.stores")

V = TypeVar("V")
Connection: TypeAlias = AsyncConnection[Row]
Work: TypeAlias = Callable[[Connection, bool], Awaitable[V]]
"""Given a connection, and whether this was tried before."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


@cache
def sql(name: str, filters: str = "") -> bytes:
    return statement_text("postgres", name, COLUMNS | {"filters": filters}).encode()


async def execute(db: Connection, statement: Statement) -> list[Row]:
    text, given = sql(statement.name, statement.filters), statement.given
    if isinstance(given, list):
        async with db.cursor() as cursor:
            await cursor.executemany(text, given)
        return []
    cursor = await db.execute(text, with_searchable(given), binary=True)
    return await cursor.fetchall() if cursor.description is not None else []


async def execute_steps(db: Connection, steps: Steps[V]) -> V:
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await execute(db, statement))
    except StopIteration as done:
        value: V = done.value
        return value


class Connections:
    """Up to `size` connections, all of one event loop."""

    def __init__(
        self,
        url: str,
        size: int,
        patience: float,
        known: tuple[Migration, ...] | None = None,
        *,
        in_sessions: bool = True,
        creates: bool = True,
    ) -> None:
        """`in_sessions`: connections may keep something, such as prepared statements, from one use to the next."""
        self._url = url
        self._in_sessions = in_sessions
        self._creates = creates
        self._patience = patience
        self._known = known if known is not None else migrations("postgres")
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)
        self._migrating = asyncio.Lock()
        self._is_migrated = False
        self._is_closed = False
        self.is_pooled = False
        """Somebody stands between us and the server, as the connections so far have shown."""

    async def do(self, work: Work[V]) -> V:
        """Have work done, again if the connection breaks; StoreError when the patience is over."""
        give_up = time.monotonic() + self._patience
        pause, tried = FIRST_PAUSE, False
        cancellations = Cancellations()
        while True:
            try:
                async with self._connection() as db:
                    return await work(db, tried)
            except psycopg.Error as error:
                cancellations.raise_new()
                if not _may_pass(error) or time.monotonic() > give_up:
                    raise explained(error) from error
            await asyncio.sleep(pause)
            pause, tried = min(2 * pause, LONGEST_PAUSE), True

    async def open(self) -> None:
        await self.do(_nothing)

    async def close(self) -> None:
        self._is_closed = True
        idle, self._idle = self._idle, []
        for db in idle:
            await db.close()

    def abandon(self) -> None:
        """Close without the event loop, which is gone."""
        self._is_closed = True
        for db in self._idle:
            db.pgconn.finish()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with self._places:
            if self._is_closed:
                raise StoreError("The store was closed.")
            db = self._idle.pop() if self._idle else await self._connect()
            try:
                yield db
            except PlacetError:  # ours: the transaction was rolled back, and the connection is as good as before
                await self._keep(db)
                raise
            except BaseException:
                await _drop(db)  # whatever happened, a new connection is in a known state
                raise
            await self._keep(db)

    async def _keep(self, db: Connection) -> None:
        if self._is_closed or db.broken:
            await db.close()
        else:
            self._idle.append(db)

    async def _connect(self) -> Connection:
        db = await connect(self._url)
        try:
            if await is_pooled(db):
                self._note_pooler()
            if not self._in_sessions or self.is_pooled:
                db.prepare_threshold = None
            async with self._migrating:
                if not self._is_migrated:
                    await self._migrate(db)
                    self._is_migrated = True
        except BaseException:
            await _drop(db)
            raise
        return db

    def _note_pooler(self) -> None:
        if not self.is_pooled:
            self.is_pooled = True
            logger.info("pooler found", extra={"action": "pooler_found"})

    async def _migrate(self, db: Connection) -> None:
        if not self._creates and not (await _row(db, sql("has_schema")))[0]:
            raise no_store_in("The database")
        if not await self._is_current(db):
            async with db.transaction():
                await db.execute(sql("lock_schema"))
                await db.execute(sql("create_schema_table"))
                done, oldest_code = await _row(db, sql("applied"))
                check_code(self._known, oldest_code, "The database")
                for migration in self._known:
                    if migration.number > done:
                        await db.execute(migration.sql.encode())
                        given = {name: getattr(migration, name) for name in ("number", "oldest_code", "name")}
                        await execute(db, Statement("record_migration", given))
        if (await _row(db, sql("feed_is_behind")))[0]:
            async with db.transaction():
                await db.execute(sql("lock_schema"))
                if (await _row(db, sql("feed_is_behind")))[0]:
                    await db.execute(sql("lift_feed"))

    async def _is_current(self, db: Connection) -> bool:
        if not (await _row(db, sql("has_schema")))[0]:
            return False
        done, oldest_code = await _row(db, sql("applied"))
        check_code(self._known, oldest_code, "The database")
        return bool(done >= self._known[-1].number)


async def connect(url: str) -> Connection:
    refuse_if_ambiguous(url)
    try:
        return await AsyncConnection.connect(url, autocommit=True, **connection_options(url))
    except psycopg.ProgrammingError as error:
        # libpq quotes what it stumbled over, which may be the password: neither here nor in a traceback.
        raise _not_understood(_QUOTED.sub("", str(error)).strip(" :\n")) from None


_QUOTED = re.compile(r"\"[^\"]*\"?")


def _not_understood(why: str) -> StoreError:
    return StoreError(
        f"This is not a URL that PostgreSQL understands ({why}). In a user's name or password, % is written %25, "
        "@ is %40, : is %3A, / is %2F and ? is %3F."
    )


def refuse_if_ambiguous(url: str) -> None:
    """An «@» that is not the one before the host: libpq would take a part of the password for the host, and say so."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise _not_understood("it has an @ besides the one before the host")


async def is_pooled(db: Connection) -> bool:
    """Whether a pooler answers: it gives its clients numbers of its own instead of the number of a server's process."""
    row = await (await db.execute(sql("backend"), prepare=False)).fetchone()
    return row is None or row[0] != db.info.backend_pid


_DEFAULTS: dict[str, int] = {
    "connect_timeout": 10,
    # A network that swallows everything says nothing: without these a statement would wait for a quarter of an hour.
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def connection_options(url: str) -> dict[str, Any]:  # Any: what libpq is told
    """What we tell libpq where the URL does not."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return {}  # connecting says what is wrong with it
    return {name: value for name, value in _DEFAULTS.items() if name not in given}


async def _nothing(_db: Connection, _tried: bool) -> None:
    """Opening is all."""


async def _row(db: Connection, text: bytes) -> Row:
    row = await (await db.execute(text)).fetchone()
    assert row is not None, "such statements always give a row"
    return row


async def _drop(db: Connection) -> None:
    if not db.closed:
        await db.close()


_PASSING = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01")
"""Connection lost, server going down, down or starting, too many connections, chosen as the victim of a conflict."""
_LASTING = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "no such database",  # these three are a pooler's
    "no such user",
    "unsupported startup parameter",
)


def _may_pass(error: psycopg.Error) -> bool:
    """Whether the same may succeed in a moment."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_PASSING)
    is_of_the_connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_of_the_connection and not any(words in str(error) for words in _LASTING)


def explained(error: psycopg.Error) -> StoreError:
    """What went wrong, and what to do about it."""
    text = str(error).strip() or type(error).__name__
    if _may_pass(error):
        return StoreError(f"PostgreSQL cannot be reached: see whether it runs, and try again ({text}).")
    if error.sqlstate is None:
        return StoreError(f"PostgreSQL refuses the connection: check the store's URL ({text}).")
    found = _EXPLAINED.get(error.sqlstate[:2], "could not do its work")
    return StoreError(f"PostgreSQL {found} ({error.sqlstate}: {text}).")


_EXPLAINED = {
    "25": "does not allow writing: it is a standby, or set to read-only",
    "42": "does not know something that the store needs, or does not allow it: check the schema and this user's rights",
    "53": "has run out of something. Nothing was written; make room and try again",
    "57": "stopped the statement",
    "58": "has trouble with its disk: see its log",
    "XX": "found its data damaged: see its log",
    "22": "cannot hold a value: text may not contain NUL characters",
}

"""Sessions in any database that SQLAlchemy reaches by an async driver, in the tables that the SDK makes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.agents.memory.session import SessionABC
from placet.agents.memory.sqlite_session import MESSAGES, SESSIONS, table_name
from placet.declare.run_config import SessionSettings
from placet.facts.checks import TEXT, check
from placet.runtime.session_matching import MemoryPlace, digest_of_place

try:
    import sqlalchemy as sa
    from sqlalchemy.ext.asyncio import create_async_engine
except ImportError as error:
    raise ImportError("SQLAlchemySession needs SQLAlchemy: pip install 'placet[sqlalchemy]'") from error

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_one_at_a_time: weakref.WeakKeyDictionary[Any, asyncio.Lock] = weakref.WeakKeyDictionary()
"""SQLite has one writer, and a database in memory one connection: their transactions wait here, not in an error."""
_in_memory: weakref.WeakKeyDictionary[Any, MemoryPlace] = weakref.WeakKeyDictionary()


class SQLAlchemySession(SessionABC):
    """`SQLAlchemySession.from_url("user-7", url="postgresql+asyncpg://…", create_tables=True)`, or `engine=…`."""

    def __init__(
        self,
        session_id: str,
        *,
        engine: AsyncEngine,
        create_tables: bool = False,
        sessions_table: str = SESSIONS,
        messages_table: str = MESSAGES,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        ensure_ascii: bool = True,
        kept_in: str | None = None,
    ) -> None:
        check("SQLAlchemySession: ", session_id=(session_id, TEXT))
        self.session_id = session_id
        self.session_settings = SessionSettings() if session_settings is None else SessionSettings.of(session_settings)
        self._engine = engine
        self._ensure_ascii = ensure_ascii
        self._must_create = create_tables
        self._kept_in = kept_in
        self._tables = sa.MetaData()
        self._sessions = _sessions(table_name(sessions_table), self._tables)
        self._messages = _messages(table_name(messages_table), self._sessions, self._tables)

    @classmethod
    def from_url(
        cls, session_id: str, *, url: str, engine_kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> SQLAlchemySession:
        return cls(session_id, engine=create_async_engine(url, **(engine_kwargs or {})), **options)

    @property
    def engine(self) -> AsyncEngine:
        return self._engine

    @property
    def kept_in(self) -> str:
        """The database and its table, without who logs in to it."""
        if self._kept_in is not None:
            return self._kept_in
        url = self._engine.url
        database = url.database
        if url.get_backend_name() == "sqlite":
            if database in (None, "", ":memory:"):
                return _in_memory.setdefault(self._engine.sync_engine, MemoryPlace()).name
            database = os.path.realpath(str(database))
        where = [url.get_backend_name(), url.host, url.port, database, sorted(url.query.items()), self._messages.name]
        return digest_of_place("sqlalchemy", json.dumps(where, default=str))

    async def get_items(self, limit: int | None = None) -> list[Any]:
        limit = limit if limit is not None or self.session_settings is None else self.session_settings.limit
        messages = self._messages
        wanted = sa.select(messages.c.message_data).where(messages.c.session_id == self.session_id)
        wanted = wanted.order_by(messages.c.id.desc())
        async with self._transaction() as connection:
            rows = (await connection.execute(wanted if limit is None else wanted.limit(max(0, limit)))).scalars().all()
        return [json.loads(data) for data in reversed(rows)]

    async def add_items(self, items: Sequence[Any]) -> None:
        if items:
            async with self._transaction() as connection:
                await self._insert(connection, items)

    async def replace_items(self, items: Sequence[Any]) -> None:
        """Put these items in the place of all that are there, in one step."""
        async with self._transaction() as connection:
            await self._delete(connection)
            if items:
                await self._insert(connection, items)

    async def pop_item(self) -> Any | None:
        messages = self._messages
        newest = sa.select(messages.c.id, messages.c.message_data).where(messages.c.session_id == self.session_id)
        newest = newest.order_by(messages.c.id.desc()).limit(1)
        while True:
            async with self._transaction() as connection:
                row = (await connection.execute(newest.with_for_update())).first()
                if row is None:
                    return None
                done = await connection.execute(sa.delete(messages).where(messages.c.id == row.id))
            if done.rowcount:  # otherwise another process took it
                return json.loads(row.message_data)

    async def clear_session(self) -> None:
        async with self._transaction() as connection:
            await self._delete(connection)

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with contextlib.AsyncExitStack() as stack:
            if self._engine.url.get_backend_name() == "sqlite":
                lock = _one_at_a_time.setdefault(self._engine.sync_engine, asyncio.Lock())
                await stack.enter_async_context(lock)
            if self._must_create:
                async with self._engine.begin() as connection:
                    await connection.run_sync(self._tables.create_all)
                self._must_create = False
            yield await stack.enter_async_context(self._engine.begin())

    async def _insert(self, connection: AsyncConnection, items: Sequence[Any]) -> None:
        sessions = self._sessions
        mine = sessions.c.session_id == self.session_id
        now = sa.func.current_timestamp()
        if not (await connection.execute(sa.update(sessions).where(mine).values(updated_at=now))).rowcount:
            await self._begin_session(connection)
        rows = [
            {
                "session_id": self.session_id,
                "message_data": json.dumps(item, ensure_ascii=self._ensure_ascii, separators=(",", ":")),
            }
            for item in items
        ]
        for row in rows:  # one by one: some drivers do not keep the order of ids in a bulk
            await connection.execute(sa.insert(self._messages).values(row))

    async def _begin_session(self, connection: AsyncConnection) -> None:
        """The session's own row. Two that begin it at once are one session."""
        try:
            async with connection.begin_nested():
                await connection.execute(sa.insert(self._sessions).values(session_id=self.session_id))
        except sa.exc.IntegrityError:
            pass

    async def _delete(self, connection: AsyncConnection) -> None:
        for table in (self._messages, self._sessions):
            await connection.execute(sa.delete(table).where(table.c.session_id == self.session_id))


def _when(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.TIMESTAMP(timezone=False), server_default=sa.text("CURRENT_TIMESTAMP"), nullable=False)


def _sessions(name: str, tables: sa.MetaData) -> sa.Table:
    key = sa.Column("session_id", sa.String, primary_key=True)
    return sa.Table(name, tables, key, _when("created_at"), _when("updated_at"))


def _messages(name: str, sessions: sa.Table, tables: sa.MetaData) -> sa.Table:
    return sa.Table(
        name,
        tables,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("session_id", sa.ForeignKey(sessions.c.session_id, ondelete="CASCADE"), nullable=False),
        sa.Column("message_data", sa.Text, nullable=False),
        _when("created_at"),
        sa.Index(f"idx_{name}_session_time", "session_id", "created_at"),
        sqlite_autoincrement=True,
    )


__all__ = ["SQLAlchemySession"]

"""The session in SQLite, closed by a coroutine: Placet's own works on threads already, so it needs no other driver."""

from __future__ import annotations

import asyncio

from placet.agents.memory.sqlite_session import SQLiteSession


class AsyncSQLiteSession(SQLiteSession):
    """`AsyncSQLiteSession("user-7", db_path="chats.db")`, `await session.close()`."""

    async def close(self) -> None:  # type: ignore[override]  # as in the SDK
        await asyncio.to_thread(super().close)


__all__ = ["AsyncSQLiteSession"]

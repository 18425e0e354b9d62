"""A session in an SQLite file (or in memory): one row an item, in order."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from placet.facts.checks import NAME, TEXT, check, optional
from placet.facts.codec import JsonObject, encode
from placet.facts.errors import StoreError
from placet.private_files import make_private, warn_if_readable
from placet.runtime.session_matching import MemoryPlace, digest_of_place

V = TypeVar("V")

_NO_FILE = (":memory:", "")
"""What SQLite keeps in memory, or in a file that goes with its connection."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS placet_session_items (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    item       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS placet_session_items_by_session ON placet_session_items (session_id, position);
"""


class SQLiteSession:
    """`SQLiteSession("user-7", "chats.db")`; without a file it lives as long as the object.

    A run that waits on it is found by the id and by the file, wherever that is opened by another name. Give it
    `kept_in="…"`, a name of your own for the file, if the file moves, or has other paths on other machines.
    """

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *, kept_in: str | None = None) -> None:
        check("SQLiteSession: ", session_id=(session_id, TEXT), kept_in=(kept_in, optional(NAME)))
        self.session_id = session_id
        self._place = MemoryPlace() if str(db_path) in _NO_FILE else None
        self._kept_in = kept_in
        self._file = os.path.realpath(db_path)
        self._lock = threading.Lock()
        if str(db_path) != ":memory:":
            make_private(db_path)
            warn_if_readable(db_path, "The session file")
        # One connection, used under the lock: an in-memory database would be lost with its connection.
        try:
            self._connection = sqlite3.connect(db_path, check_same_thread=False, isolation_level=None, timeout=30)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(self._schema())
        except sqlite3.Error as error:
            raise StoreError(f"The session file {str(db_path)!r} cannot be opened: {error}.") from error

    @property
    def kept_in(self) -> str:
        """The file, however it is called here, or this object."""
        if self._kept_in is not None:
            return self._kept_in
        return self._place.name if self._place is not None else digest_of_place("sqlite", self._file)

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        rows = await self._do(lambda db: self._newest(db, limit))
        return [msgspec.json.decode(item) for (item,) in reversed(rows)]

    async def add_items(self, items: Sequence[JsonObject]) -> None:
        rows = [(self.session_id, encode(item).decode()) for item in items]
        await self._do(lambda db: self._insert(db, rows))

    async def pop_item(self) -> JsonObject | None:
        row = await self._do(self._delete_newest)
        return msgspec.json.decode(row[0]) if row is not None else None

    async def clear_session(self) -> None:
        await self._do(self._clear)

    async def replace_items(self, items: Sequence[JsonObject]) -> None:
        """Put these items in the place of all that are there, in one step."""
        rows = [(self.session_id, encode(item).decode()) for item in items]
        await self._do(lambda db: self._insert(db, rows, instead=True))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    async def _do(self, work: Callable[[sqlite3.Connection], V]) -> V:
        def locked() -> V:
            with self._lock:
                return work(self._connection)

        return await asyncio.to_thread(locked)

    # -- the tables: a class with others overrides these ----------------------------------------------------------

    def _schema(self) -> str:
        return _SCHEMA

    def _clear(self, db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM placet_session_items WHERE session_id = ?", (self.session_id,))

    def _newest(self, db: sqlite3.Connection, limit: int | None) -> list[tuple[str]]:
        return db.execute(
            "SELECT item FROM placet_session_items WHERE session_id = ? ORDER BY position DESC LIMIT ?",
            (self.session_id, -1 if limit is None else limit),
        ).fetchall()

    def _insert(self, db: sqlite3.Connection, rows: list[tuple[str, str]], *, instead: bool = False) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            if instead:
                db.execute("DELETE FROM placet_session_items WHERE session_id = ?", (self.session_id,))
            db.executemany("INSERT INTO placet_session_items (session_id, item) VALUES (?, ?)", rows)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _delete_newest(self, db: sqlite3.Connection) -> tuple[str] | None:
        found: tuple[str] | None = db.execute(
            "DELETE FROM placet_session_items WHERE position = "
            "(SELECT MAX(position) FROM placet_session_items WHERE session_id = ?) RETURNING item",
            (self.session_id,),
        ).fetchone()
        return found

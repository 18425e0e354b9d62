"""Sessions in SQLite, in the tables that the SDK makes: what was said before the move is still there after it."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placet.declare.run_config import SessionSettings
from placet.facts.checks import TEXT, check
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.runtime.session_matching import digest_of_place
from placet.sessions.sqlite import SQLiteSession as _NativeSession

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SESSIONS, MESSAGES = "agent_sessions", "agent_messages"


def table_name(name: object) -> str:
    """A name that can stand in a statement."""
    if not isinstance(name, str) or not _TABLE.fullmatch(name):
        raise UserError(f"A session's table has a name of letters, digits and underscores, not {name!r}.")
    return name


class SQLiteSession(_NativeSession):
    """`SQLiteSession("user-7", "chats.db")`. Placet's own session, on the SDK's tables."""

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = SESSIONS,
        messages_table: str = MESSAGES,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        *,
        kept_in: str | None = None,
    ) -> None:
        check("SQLiteSession: ", session_id=(session_id, TEXT))
        self.db_path = db_path
        self.sessions_table, self.messages_table = table_name(sessions_table), table_name(messages_table)
        self.session_settings = SessionSettings() if session_settings is None else SessionSettings.of(session_settings)
        super().__init__(session_id, db_path, kept_in=kept_in)

    @property
    def kept_in(self) -> str:
        """The file and its table, or this object: Placet's own sessions in the same file are others."""
        if self._kept_in is not None or self._place is not None:
            return super().kept_in
        return digest_of_place("agents-sqlite", f"{os.path.realpath(self.db_path)}\0{self.messages_table}")

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        settings = self.session_settings
        return await super().get_items(limit if limit is not None or settings is None else settings.limit)

    def _schema(self) -> str:
        return f"""
            CREATE TABLE IF NOT EXISTS {self.sessions_table} (
                session_id TEXT PRIMARY KEY,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
            );
            CREATE TABLE IF NOT EXISTS {self.messages_table} (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                session_id TEXT NOT NULL,
                message_data TEXT NOT NULL,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                FOREIGN KEY (session_id) REFERENCES {self.sessions_table} (session_id) ON DELETE CASCADE
            );
            CREATE INDEX IF NOT EXISTS idx_{self.messages_table}_session_id ON {self.messages_table} (session_id, id);
        """

    def _newest(self, db: sqlite3.Connection, limit: int | None) -> list[tuple[str]]:
        return db.execute(
            f"SELECT message_data FROM {self.messages_table} WHERE session_id = ? ORDER BY id DESC LIMIT ?",
            (self.session_id, -1 if limit is None else limit),
        ).fetchall()

    def _insert(self, db: sqlite3.Connection, rows: list[tuple[str, str]], *, instead: bool = False) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            if instead:
                self._delete(db)
            if rows:
                self._write(db, [data for _, data in rows])
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _write(self, db: sqlite3.Connection, rows: list[str]) -> list[int]:
        """The new rows' ids, in order."""
        mine = (self.session_id,)
        db.execute(f"INSERT OR IGNORE INTO {self.sessions_table} (session_id) VALUES (?)", mine)
        insert = f"INSERT INTO {self.messages_table} (session_id, message_data) VALUES (?, ?)"
        found = [db.execute(insert, (self.session_id, data)).lastrowid or 0 for data in rows]
        update = f"UPDATE {self.sessions_table} SET updated_at = CURRENT_TIMESTAMP WHERE session_id = ?"
        db.execute(update, mine)
        return found

    def _delete(self, db: sqlite3.Connection) -> None:
        for table in (self.messages_table, self.sessions_table):
            db.execute(f"DELETE FROM {table} WHERE session_id = ?", (self.session_id,))

    def _clear(self, db: sqlite3.Connection) -> None:
        self._insert(db, [], instead=True)

    def _delete_newest(self, db: sqlite3.Connection) -> tuple[str] | None:
        newest = f"SELECT MAX(id) FROM {self.messages_table} WHERE session_id = ?"
        found: tuple[str] | None = db.execute(
            f"DELETE FROM {self.messages_table} WHERE id = ({newest}) RETURNING message_data",
            (self.session_id,),
        ).fetchone()
        return found


__all__ = ["SQLiteSession"]

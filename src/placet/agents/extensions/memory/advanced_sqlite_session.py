"""A session in SQLite with branches, and with figures about turns, tools and tokens: in the SDK's tables.

A message is kept once. Which branches have it, in which turn, stands beside it (`message_structure`).
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placet.agents.memory.sqlite_session import SQLiteSession
from placet.declare.run_config import SessionSettings
from placet.facts.codec import JsonObject, encode
from placet.facts.items import text_of
from placet.runtime.session_matching import digest_of_place

MAIN = "main"
_PREVIEW = 100
_NAMELESS = {
    "apply_patch_call",
    "code_interpreter_call",
    "computer_call",
    "file_search_call",
    "shell_call",
    "web_search_call",
}
"""Calls that are named by their type."""
_CALLS = ("tool_call", "function_call", "custom_tool_call", "mcp_call", "mcp_approval_request", "tool_search_call")

_STRUCTURE = """
    CREATE TABLE IF NOT EXISTS message_structure (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        message_id INTEGER NOT NULL,
        branch_id TEXT NOT NULL DEFAULT 'main',
        message_type TEXT NOT NULL,
        sequence_number INTEGER NOT NULL,
        user_turn_number INTEGER,
        branch_turn_number INTEGER,
        tool_name TEXT,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        FOREIGN KEY (session_id) REFERENCES {sessions} (session_id) ON DELETE CASCADE,
        FOREIGN KEY (message_id) REFERENCES {messages} (id) ON DELETE CASCADE
    );
    CREATE TABLE IF NOT EXISTS turn_usage (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        branch_id TEXT NOT NULL DEFAULT 'main',
        user_turn_number INTEGER NOT NULL,
        requests INTEGER DEFAULT 0,
        input_tokens INTEGER DEFAULT 0,
        output_tokens INTEGER DEFAULT 0,
        total_tokens INTEGER DEFAULT 0,
        input_tokens_details JSON,
        output_tokens_details JSON,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        FOREIGN KEY (session_id) REFERENCES {sessions} (session_id) ON DELETE CASCADE,
        UNIQUE (session_id, branch_id, user_turn_number)
    );
    CREATE TABLE IF NOT EXISTS branch_reservations (
        session_id TEXT NOT NULL,
        branch_id TEXT NOT NULL,
        PRIMARY KEY (session_id, branch_id)
    );
"""
_FIGURES = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


class AdvancedSQLiteSession(SQLiteSession):
    """`AdvancedSQLiteSession(session_id="user-7", db_path="chats.db", create_tables=True)`.

    A run is bound to the branch that it was begun on: while a call waits there, another branch can be talked on.
    """

    def __init__(
        self,
        *,
        session_id: str,
        db_path: str | Path = ":memory:",
        create_tables: bool = False,
        logger: logging.Logger | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._creates = create_tables
        self._branch = MAIN
        self._logger = logger or logging.getLogger("placet.sessions")
        super().__init__(session_id, db_path, session_settings=session_settings, **options)
        is_there = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'message_structure'").fetchone()
        if is_there is None:
            self.close()
            raise ValueError(f"{db_path} has no tables of an AdvancedSQLiteSession: make it with create_tables=True.")

    @property
    def kept_in(self) -> str:
        """Each branch is a conversation of its own: what waits on one is not found on another."""
        place = super().kept_in
        return place if self._branch == MAIN else digest_of_place("branch", f"{place}\0{self._branch}")

    # -- items of the branch ------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[JsonObject]:
        settings = self.session_settings
        limit = limit if limit is not None or settings is None else settings.limit
        branch = branch_id or self._branch
        rows = await self._do(lambda db: self._newest(db, limit, branch))
        return [json.loads(data) for (data,) in reversed(rows)]

    def _schema(self) -> str:
        if not self._creates:
            return super()._schema()
        return super()._schema() + _STRUCTURE.format(sessions=self.sessions_table, messages=self.messages_table)

    def _newest(self, db: sqlite3.Connection, limit: int | None, branch: str | None = None) -> list[tuple[str]]:
        return db.execute(
            f"SELECT m.message_data FROM message_structure s JOIN {self.messages_table} m ON m.id = s.message_id "
            "WHERE s.session_id = ? AND s.branch_id = ? ORDER BY s.sequence_number DESC LIMIT ?",
            (self.session_id, branch or self._branch, -1 if limit is None else limit),
        ).fetchall()

    def _write(self, db: sqlite3.Connection, rows: list[str]) -> list[int]:
        ids = super()._write(db, rows)
        sequence, turn, branch_turn = self._ends(db)
        for offset, (message, data) in enumerate(zip(ids, rows, strict=True), 1):
            item = json.loads(data)
            if item.get("role") == "user":
                turn, branch_turn = turn + 1, branch_turn + 1
            self._place_message(db, message, _kind(item), sequence + offset, (turn, branch_turn), _tool_name(item))
        return ids

    def _ends(self, db: sqlite3.Connection) -> tuple[int, int, int]:
        """The highest sequence number of the session, and the newest turn of the branch by both ways of counting."""
        mine = "FROM message_structure WHERE session_id = ?"
        (sequence,) = db.execute(f"SELECT COALESCE(MAX(sequence_number), 0) {mine}", (self.session_id,)).fetchone()
        turns: tuple[int, int] = db.execute(
            f"SELECT COALESCE(MAX(user_turn_number), 0), COALESCE(MAX(branch_turn_number), 0) {mine} AND branch_id = ?",
            (self.session_id, self._branch),
        ).fetchone()
        return sequence, *turns

    def _place_message(
        self,
        db: sqlite3.Connection,
        message: int,
        kind: str,
        sequence: int,
        turns: tuple[int, int],
        tool: str | None,
        branch: str | None = None,
    ) -> None:
        db.execute(
            "INSERT INTO message_structure (session_id, message_id, branch_id, message_type, sequence_number, "
            "user_turn_number, branch_turn_number, tool_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self.session_id, message, branch or self._branch, kind, sequence, *turns, tool),
        )

    def _delete(self, db: sqlite3.Connection) -> None:
        for table in ("message_structure", "turn_usage"):
            db.execute(f"DELETE FROM {table} WHERE session_id = ?", (self.session_id,))
        super()._delete(db)
        self._branch = MAIN

    def _delete_newest(self, db: sqlite3.Connection) -> tuple[str] | None:
        db.execute("BEGIN IMMEDIATE")
        try:
            found = self._newest(db, 1)
            db.execute(
                "DELETE FROM message_structure WHERE id = (SELECT id FROM message_structure WHERE session_id = ? "
                "AND branch_id = ? ORDER BY sequence_number DESC LIMIT 1)",
                (self.session_id, self._branch),
            )
            self._forget_unused(db)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        return found[0] if found else None

    def _forget_unused(self, db: sqlite3.Connection) -> None:
        """Messages that no branch has any more, and figures of turns that are gone."""
        db.execute(
            f"DELETE FROM {self.messages_table} WHERE session_id = ? AND id NOT IN "
            "(SELECT message_id FROM message_structure WHERE session_id = ?)",
            (self.session_id, self.session_id),
        )
        db.execute(
            "DELETE FROM turn_usage WHERE session_id = ? AND NOT EXISTS (SELECT 1 FROM message_structure s WHERE "
            "s.session_id = turn_usage.session_id AND s.branch_id = turn_usage.branch_id "
            "AND s.user_turn_number = turn_usage.user_turn_number)",
            (self.session_id,),
        )

    # -- branches -----------------------------------------------------------------------------------------------------

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """A new branch with all that was said before that turn; the session goes on there."""
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        name: str = await self._do(
            lambda db: self._in_transaction(db, lambda: self._copied(db, turn_number, branch_name))
        )
        self._branch = name
        return name

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        await self._require_branch(branch_id)
        self._branch = branch_id

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == MAIN:
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id == self._branch and not force:
            raise ValueError(f"Cannot delete current branch '{branch_id}'. Use force=True or switch branches first")
        await self._require_branch(branch_id)

        def delete(db: sqlite3.Connection) -> None:
            mine = (self.session_id, branch_id)
            self._reserve(db, branch_id)
            db.execute("DELETE FROM message_structure WHERE session_id = ? AND branch_id = ?", mine)
            self._forget_unused(db)

        await self._do(lambda db: self._in_transaction(db, lambda: delete(db)))
        if branch_id == self._branch:
            self._branch = MAIN

    async def list_branches(self) -> list[dict[str, Any]]:
        rows = await self._do(
            lambda db: db.execute(
                "SELECT branch_id, COUNT(*), COUNT(CASE WHEN message_type = 'user' THEN 1 END), "
                "MIN(created_at) AS began FROM message_structure WHERE session_id = ? GROUP BY branch_id "
                "ORDER BY began, MIN(id)",
                (self.session_id,),
            ).fetchall()
        )
        names = ("branch_id", "message_count", "user_turns", "created_at")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [{**each, "is_current": each["branch_id"] == self._branch} for each in found]

    async def _require_branch(self, branch: str) -> None:
        if not any(each["branch_id"] == branch for each in await self.list_branches()):
            raise ValueError(f"Branch '{branch}' does not exist")

    def _in_transaction(self, db: sqlite3.Connection, work: Any) -> Any:
        db.execute("BEGIN IMMEDIATE")
        try:
            found = work()
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        return found

    def _copied(self, db: sqlite3.Connection, turn: int, name: str | None) -> str:
        mine = (self.session_id, self._branch, turn)
        where = "FROM message_structure WHERE session_id = ? AND branch_id = ? AND branch_turn_number"
        if db.execute(f"SELECT 1 {where} = ? AND message_type = 'user'", mine).fetchone() is None:
            raise ValueError(f"Turn {turn} does not contain a user message in branch '{self._branch}'")
        rows = db.execute(
            "SELECT message_id, message_type, user_turn_number, branch_turn_number, tool_name "
            f"{where} < ? ORDER BY sequence_number",
            mine,
        ).fetchall()
        branch = self._reserved(db, turn, name)
        sequence = self._ends(db)[0]
        for offset, (message, kind, user_turn, branch_turn, tool) in enumerate(rows, 1):
            self._place_message(db, message, kind, sequence + offset, (user_turn, branch_turn), tool, branch)
        return branch

    def _reserved(self, db: sqlite3.Connection, turn: int, name: str | None) -> str:
        """A name is used once: an object that still stands on a deleted branch must not write into a new one."""
        if name is not None:
            if not self._reserve(db, name):
                raise ValueError(f"Branch ID '{name}' has already been used. Choose a new branch ID.")
            return name
        base = f"branch_from_turn_{turn}_{int(time.time())}"
        number = 1
        while not self._reserve(db, base if number == 1 else f"{base}_{number}"):
            number += 1
        return base if number == 1 else f"{base}_{number}"

    def _reserve(self, db: sqlite3.Connection, branch: str) -> bool:
        known = "SELECT 1 FROM message_structure WHERE session_id = ? AND branch_id = ?"
        mine = (self.session_id, branch)
        if branch == MAIN or db.execute(known, mine).fetchone() is not None:
            return False
        return db.execute("INSERT OR IGNORE INTO branch_reservations VALUES (?, ?)", mine).rowcount == 1

    # -- turns, tools, tokens -----------------------------------------------------------------------------------------

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        rows = await self._do(
            lambda db: db.execute(
                "SELECT s.branch_turn_number, m.message_data, s.created_at FROM message_structure s "
                f"JOIN {self.messages_table} m ON m.id = s.message_id WHERE s.session_id = ? AND s.branch_id = ? "
                "AND s.message_type = 'user' ORDER BY s.branch_turn_number",
                (self.session_id, branch_id or self._branch),
            ).fetchall()
        )
        return [_turn(*row) for row in rows]

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        wanted = search_term.lower()
        turns = await self.get_conversation_turns(branch_id)
        return [turn for turn in turns if wanted in _as_text(turn["full_content"]).lower()]

    async def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        rows = await self._do(
            lambda db: db.execute(
                "SELECT user_turn_number, message_type, tool_name FROM message_structure "
                "WHERE session_id = ? AND branch_id = ? ORDER BY sequence_number",
                (self.session_id, branch_id or self._branch),
            ).fetchall()
        )
        turns: dict[int, list[dict[str, str | None]]] = {}
        for turn, kind, tool in rows:
            turns.setdefault(turn, []).append({"type": kind, "tool_name": tool})
        return turns

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        kinds = (*_CALLS, *sorted(_NAMELESS))
        return await self._do(
            lambda db: db.execute(
                "SELECT tool_name, COUNT(*), user_turn_number FROM message_structure WHERE session_id = ? "
                f"AND branch_id = ? AND message_type IN ({', '.join('?' * len(kinds))}) "
                "GROUP BY tool_name, user_turn_number ORDER BY user_turn_number",
                (self.session_id, branch_id or self._branch, *kinds),
            ).fetchall()
        )

    async def store_run_usage(self, result: Any) -> None:
        """Keep the tokens of a run with its turn: the newest of the branch."""
        usage = result.context_wrapper.usage

        def store(db: sqlite3.Connection) -> None:
            turn = self._ends(db)[1]
            figures = [getattr(usage, name) or 0 for name in _FIGURES]
            details = [encode(getattr(usage, name)).decode() for name in _DETAILS]
            db.execute(
                "INSERT OR REPLACE INTO turn_usage (session_id, branch_id, user_turn_number, requests, input_tokens, "
                "output_tokens, total_tokens, input_tokens_details, output_tokens_details) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (self.session_id, self._branch, turn, *figures, *details),
            )

        await self._do(lambda db: self._in_transaction(db, lambda: store(db)))

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        where = "session_id = ?" if branch_id is None else "session_id = ? AND branch_id = ?"
        mine = (self.session_id,) if branch_id is None else (self.session_id, branch_id)
        sums = ", ".join(f"SUM({name})" for name in _FIGURES)
        row = await self._do(
            lambda db: db.execute(f"SELECT {sums}, COUNT(*) FROM turn_usage WHERE {where}", mine).fetchone()
        )
        return None if row[0] is None else dict(zip((*_FIGURES, "total_turns"), row, strict=True))

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        names = ("user_turn_number", *_FIGURES, *_DETAILS)
        rows = await self._do(
            lambda db: db.execute(
                f"SELECT {', '.join(names)} FROM turn_usage WHERE session_id = ? AND branch_id = ? "
                "ORDER BY user_turn_number",
                (self.session_id, branch_id or self._branch),
            ).fetchall()
        )
        found = [_figures(dict(zip(names, row, strict=True))) for row in rows]
        if user_turn_number is None:
            return found
        one = next((each for each in found if each["user_turn_number"] == user_turn_number), {})
        return {name: value for name, value in one.items() if name != "user_turn_number"}


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: json.loads(row[name]) if row[name] else None for name in _DETAILS}


def _kind(item: Mapping[str, Any]) -> str:
    role = item.get("role")
    return role if role in ("user", "assistant") else str(item.get("type") or "other")


def _tool_name(item: Mapping[str, Any]) -> str | None:
    kind, name = item.get("type"), item.get("name")
    if kind in ("tool_search_call", "tool_search_output"):
        return "tool_search"
    if kind in _NAMELESS:
        return str(kind)
    before = item.get("server_label") if kind in ("mcp_call", "mcp_approval_request") else item.get("namespace")
    parts = [str(part) for part in (before, name) if part]
    return ".".join(parts) or None


def _turn(number: int, data: str, created_at: str) -> dict[str, Any]:
    content = json.loads(data).get("content", "")
    text = _as_text(content)
    short = f"{text[:_PREVIEW]}..." if len(text) > _PREVIEW else text
    return {"turn": number, "content": short, "full_content": content, "timestamp": created_at, "can_branch": True}


def _as_text(content: str | Sequence[Any]) -> str:
    return content if isinstance(content, str) else text_of({"role": "user", "content": list(content)})


__all__ = ["AdvancedSQLiteSession"]

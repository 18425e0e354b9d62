"""SQLite files: how they are opened, migrated while several processes start at once, and what their errors mean."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from placet.facts.errors import StoreError
from placet.private_files import make_private, warn_if_readable
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

V = TypeVar("V")
_RETRY_SECONDS = 0.02


@cache
def sql(name: str, filters: str = "") -> str:
    return statement_text("sqlite", name, COLUMNS | {"filters": filters})


def execute(db: sqlite3.Connection, statement: Statement) -> list[Row]:
    """The statement's rows. Every statement is told the time: this is the clock by which leases are measured."""
    text, given, now = sql(statement.name, statement.filters), statement.given, time.time()
    if isinstance(given, list):
        return db.executemany(text, [{**each, "now": now} for each in given]).fetchall()
    return db.execute(text, {**given, "now": now}).fetchall()


def execute_steps(db: sqlite3.Connection, steps: Steps[V]) -> V:
    try:
        statement = next(steps)
        while True:
            statement = steps.send(execute(db, statement))
    except StopIteration as done:
        value: V = done.value
        return value


def begin(db: sqlite3.Connection) -> sqlite3.Connection:
    """Begin a transaction that writes; no other can until it ends. `with begin(db):` commits it, or rolls it back."""
    db.execute("BEGIN IMMEDIATE")
    return db


class SQLiteFile:
    """A database in a file, or (`:memory:`) in one connection."""

    def __init__(
        self, path: str, patience: float, known: tuple[Migration, ...] | None = None, *, creates: bool = True
    ) -> None:
        self.path = path
        self.patience = patience
        """Seconds to wait for other processes' writes."""
        self._known = known if known is not None else migrations("sqlite")
        self._creates = creates or self.is_memory
        self._is_looked_at = False

    @property
    def is_memory(self) -> bool:
        return self.path == ":memory:"

    def connect(self, *, synchronous: str = "FULL", is_reader: bool = False) -> sqlite3.Connection:
        if not (is_reader or self.is_memory):
            self._keep_private()
        try:
            if not (self._creates or Path(self.path).exists()):
                raise no_store_in(f"The file {self.path}")
            db = sqlite3.connect(self.path, timeout=self.patience, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self.explain(error) from error
        try:
            self._set_up(db, synchronous, is_reader)
        except sqlite3.Error as error:
            db.close()
            raise self.explain(error) from error
        except BaseException:
            db.close()
            raise
        return db

    def _keep_private(self) -> None:
        """It holds arguments and password hashes: SQLite alone would make it readable for everybody."""
        if self._creates:
            make_private(self.path)
        if not self._is_looked_at:
            self._is_looked_at = True
            warn_if_readable(self.path, "The store")

    def _set_up(self, db: sqlite3.Connection, synchronous: str, is_reader: bool) -> None:
        if is_reader:
            db.execute("PRAGMA query_only = ON")
            return
        if not self._creates and not _has_schema(db):  # before anything is written, be it only how it is written
            raise no_store_in(f"The file {self.path}")
        if not self.is_memory:
            self._retrying(db, "PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        self._migrate(db)

    def _retrying(self, db: sqlite3.Connection, statement: str) -> None:
        """For what SQLite does not wait for by itself: the change to WAL while others open the file."""
        give_up = time.monotonic() + self.patience
        while True:
            try:
                db.execute(statement).fetchall()
            except sqlite3.OperationalError as error:
                if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _migrate(self, db: sqlite3.Connection) -> None:
        if self._is_current(db):
            return
        with begin(db):  # the others wait here, and then find everything done
            db.execute(sql("create_schema_table"))
            done, oldest_code = db.execute(sql("applied")).fetchone()
            check_code(self._known, oldest_code, f"The store {self.path}")
            for migration in self._known:
                if migration.number > done:
                    self._apply(db, migration)

    def _is_current(self, db: sqlite3.Connection) -> bool:
        if not _has_schema(db):
            return False
        done, oldest_code = db.execute(sql("applied")).fetchone()
        check_code(self._known, oldest_code, f"The store {self.path}")
        return bool(done >= self._known[-1].number)

    def _apply(self, db: sqlite3.Connection, migration: Migration) -> None:
        for statement in _split(migration.sql):
            db.execute(statement)
        given = {"number": migration.number, "oldest_code": migration.oldest_code, "name": migration.name}
        execute(db, Statement("record_migration", given))

    def empty_the_wal(self) -> None:
        """Have what is in the write-ahead log moved into the file and cut off. While others read an older state of the
        file, SQLite leaves it for later."""
        db = self.connect()
        try:
            db.execute("PRAGMA busy_timeout = 2000")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            db.close()

    def explain(self, error: sqlite3.Error) -> StoreError:
        """What went wrong, and what to do about it. In all of these cases nothing was written."""
        found = _EXPLAINED.get(_primary(error), "could not do its work: try again")
        if _primary(error) == sqlite3.SQLITE_CANTOPEN and not Path(self.path).resolve().parent.is_dir():
            found = "cannot be opened because its directory does not exist: create it"
        return StoreError(f"The store {self.path} {found} ({error}).")


_EXPLAINED = {
    sqlite3.SQLITE_BUSY: "is locked by another process that does not let go: find it, or wait and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process that does not let go: find it, or wait and try again",
    sqlite3.SQLITE_FULL: "has no room: the disk is full. Nothing was written; make room and try again",
    sqlite3.SQLITE_IOERR: "could not be written or read: the disk refused. Check the disk and try again",
    sqlite3.SQLITE_READONLY: "cannot be written: the file, or its directory, is read-only for this user",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: it, or its directory, is not accessible for this user",
    sqlite3.SQLITE_PERM: "cannot be opened: it is not accessible for this user",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database: name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup, or try `sqlite3 FILE .recover`",
}


def _has_schema(db: sqlite3.Connection) -> bool:
    return db.execute(sql("has_schema")).fetchone() is not None


def _primary(error: sqlite3.Error) -> int:
    """The error's kind; SQLite's extended codes carry it in their lowest byte."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else -1


def _split(script: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit in between.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        if not statement and (not line.strip() or line.startswith("--")):
            continue
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

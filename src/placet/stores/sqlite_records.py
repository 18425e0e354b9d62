"""The small things that a desk keeps beside the runs, in SQLite, and how much there is."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from placet.facts.events import AnyFact, Pattern
from placet.ports import Record, RecordStep
from placet.stores.operators import FOUR_EYES, SETTING, read_patterns
from placet.stores.sqlite_files import SQL
from placet.stores.sqlite_writes import note_operators

V = TypeVar("V")


class SQLiteRecords(ABC):
    """The part of the store that knows records."""

    @abstractmethod
    async def _write(self, work: Callable[[sqlite3.Connection], V]) -> V: ...

    @abstractmethod
    async def _read(self, work: Callable[[sqlite3.Connection], V]) -> V: ...

    async def record(self, kind: str, record_id: str) -> Record | None:
        given = {"kind": kind, "id": record_id, "now": time.time()}
        return read_record(await self._read(lambda db: db.execute(SQL["record"], given).fetchone()))

    async def records(self, kind: str, *, owner: str | None = None, after: str = "", limit: int = 1000) -> list[Record]:
        given = {"kind": kind, "owner": owner, "after": after, "limit": limit, "now": time.time()}
        sql = SQL["records"].format(filters="" if owner is None else "AND owner = :owner")
        rows = await self._read(lambda db: db.execute(sql, given).fetchall())
        return [found for row in rows if (found := read_record(row)) is not None]

    async def add_record(self, record: Record) -> bool:
        given = _columns(record)
        return await self._write(lambda db: db.execute(SQL["add_record"], given).rowcount > 0)

    async def replace_record(self, record: Record, *, was: str | None = None) -> bool:
        given = _columns(record) | {"was": was}
        return await self._write(lambda db: db.execute(SQL["replace_record"], given).rowcount > 0)

    async def take_record(self, kind: str, record_id: str) -> Record | None:
        given = {"kind": kind, "id": record_id, "now": time.time()}
        return read_record(await self._write(lambda db: db.execute(SQL["take_record"], given).fetchone()))

    async def remove_records(self, kind: str, owner: str) -> int:
        return await self._write(lambda db: db.execute(SQL["remove_records"], (kind, owner)).rowcount)

    async def change_records(
        self,
        steps: Sequence[RecordStep],
        facts: Sequence[AnyFact],
        *,
        at: float,
        without: Sequence[tuple[str, str]] = (),
    ) -> bool:
        return await self._write(lambda db: change_records(db, steps, facts, at, without))

    async def four_eyes(self) -> Sequence[Pattern]:
        return read_patterns(await self.record(SETTING, FOUR_EYES))

    async def expire_records(self, limit: int = 1000) -> int:
        given = (time.time(), limit)
        return await self._write(lambda db: db.execute(SQL["expire_records"], given).rowcount)


def change_records(
    db: sqlite3.Connection,
    steps: Sequence[RecordStep],
    facts: Sequence[AnyFact],
    at: float,
    without: Sequence[tuple[str, str]],
) -> bool:
    """First look whether everything is what it has to be: the transaction is the only one that writes."""
    for step in steps:
        row = db.execute(SQL["record"], {"kind": step.kind, "id": step.id, "now": time.time()}).fetchone()
        found = read_record(row)
        if (None if found is None else found.data) != step.was:
            return False
    for owned in without:
        db.execute(SQL["remove_records"], owned)
    for step in steps:
        if step.now is None:
            db.execute(SQL["take_record"], {"kind": step.kind, "id": step.id, "now": time.time()})
        else:
            name = "add_record" if step.was is None else "replace_record"
            db.execute(SQL[name], _columns(step.now) | {"was": None})
    note_operators(db, at, facts)
    return True


def _columns(record: Record) -> dict[str, object]:
    return {
        "kind": record.kind,
        "id": record.id,
        "owner": record.owner,
        "data": record.data,
        "expires_at": record.expires_at,
        "now": time.time(),
    }


def read_record(row: tuple[Any, ...] | None) -> Record | None:  # Any: what the columns hold
    if row is None:
        return None
    kind, record_id, owner, data, expires_at = row
    return Record(kind=kind, id=record_id, owner=owner, data=data, expires_at=expires_at)

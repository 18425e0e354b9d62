"""The small things that a desk keeps beside the runs, in PostgreSQL, and how much there is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from placet.facts.events import AnyFact, Pattern
from placet.ports import Record, RecordStep, StoreNumbers
from placet.stores.operators import FOUR_EYES, SETTING, read_patterns
from placet.stores.postgres_connections import SQL, TEXTS, Connection, Work
from placet.stores.postgres_operators import last_line, lock, write
from placet.stores.rows import read_numbers
from placet.stores.sqlite_records import read_record

Row = tuple[Any, ...]  # Any: what the columns hold


class PostgresRecords(ABC):
    """The part of the store that knows records."""

    @abstractmethod
    async def _rows(
        self, name: str, given: Mapping[str, object] | None = None, sql: bytes | None = None
    ) -> list[Row]: ...

    @abstractmethod
    async def _do(self, work: Work[bool]) -> bool: ...

    async def record(self, kind: str, record_id: str) -> Record | None:
        rows = await self._rows("record", {"kind": kind, "id": record_id})
        return read_record(rows[0]) if rows else None

    async def records(self, kind: str, *, owner: str | None = None, after: str = "", limit: int = 1000) -> list[Record]:
        given = {"kind": kind, "owner": owner, "after": after, "limit": limit}
        sql = TEXTS["records"].format(filters="" if owner is None else "AND owner = %(owner)s")
        rows = await self._rows("records", given, sql.encode())
        return [found for row in rows if (found := read_record(row)) is not None]

    async def add_record(self, record: Record) -> bool:
        return bool(await self._rows("add_record", _columns(record)))

    async def replace_record(self, record: Record, *, was: str | None = None) -> bool:
        return bool(await self._rows("replace_record", _columns(record) | {"was": was}))

    async def take_record(self, kind: str, record_id: str) -> Record | None:
        rows = await self._rows("take_record", {"kind": kind, "id": record_id})
        return read_record(rows[0]) if rows else None

    async def remove_records(self, kind: str, owner: str) -> int:
        return len(await self._rows("remove_records", {"kind": kind, "owner": owner}))

    async def change_records(
        self,
        steps: Sequence[RecordStep],
        facts: Sequence[AnyFact],
        *,
        at: float,
        without: Sequence[tuple[str, str]] = (),
    ) -> bool:
        async def work(db: Connection, tried: bool) -> bool:
            return await change_records(db, tried, steps, facts, at, without)

        return await self._do(work)

    async def four_eyes(self) -> Sequence[Pattern]:
        return read_patterns(await self.record(SETTING, FOUR_EYES))

    async def expire_records(self, limit: int = 1000) -> int:
        return len(await self._rows("expire_records", {"limit": limit}))

    async def numbers(self) -> StoreNumbers:
        (row,) = await self._rows("numbers")
        return read_numbers(row)


async def change_records(
    db: Connection,
    tried: bool,
    steps: Sequence[RecordStep],
    facts: Sequence[AnyFact],
    at: float,
    without: Sequence[tuple[str, str]],
) -> bool:
    """The row of the operators' log is locked first, so that no other such change comes between looking and writing."""
    async with db.transaction():
        log = await lock(db)
        line = log.next_line(at, facts)
        if tried and await last_line(db) == line.text:  # the answer to the first try was lost
            return True
        for step in steps:
            row = await (await db.execute(SQL["record"], {"kind": step.kind, "id": step.id})).fetchone()
            found = read_record(row)
            if (None if found is None else found.data) != step.was:
                return False
        for kind, owner in without:
            await db.execute(SQL["remove_records"], {"kind": kind, "owner": owner})
        for step in steps:
            if step.now is None:
                await db.execute(SQL["take_record"], {"kind": step.kind, "id": step.id})
            else:
                name = "add_record" if step.was is None else "replace_record"
                await db.execute(SQL[name], _columns(step.now) | {"was": None})
        await write(db, log, line)
        return True


def _columns(record: Record) -> dict[str, object]:
    return {
        "kind": record.kind,
        "id": record.id,
        "owner": record.owner,
        "data": record.data,
        "expires_at": record.expires_at,
    }

"""The small things that a desk keeps beside the runs, in PostgreSQL, and how much there is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from placet.ports import Record, StoreNumbers
from placet.stores.postgres_connections import TEXTS
from placet.stores.rows import read_numbers
from placet.stores.sqlite_records import read_record

Row = tuple[Any, ...]  # Any: what the columns hold


class PostgresRecords(ABC):
    """The part of the store that knows records."""

    @abstractmethod
    async def _rows(
        self, name: str, given: Mapping[str, object] | None = None, sql: bytes | None = None
    ) -> list[Row]: ...

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

    async def expire_records(self, limit: int = 1000) -> int:
        return len(await self._rows("expire_records", {"limit": limit}))

    async def numbers(self) -> StoreNumbers:
        (row,) = await self._rows("numbers")
        return read_numbers(row)


def _columns(record: Record) -> dict[str, object]:
    return {
        "kind": record.kind,
        "id": record.id,
        "owner": record.owner,
        "data": record.data,
        "expires_at": record.expires_at,
    }

"""Erasing in PostgreSQL: in one transaction with its record in the operators' log."""

from __future__ import annotations

import zlib

from placet.core.log import Log
from placet.facts.events import RunErased
from placet.stores.erasing import check_status_to_erase, closing_erased, request_erased, with_place
from placet.stores.postgres_connections import SQL, Connection
from placet.stores.postgres_operators import lock, write
from placet.stores.rows import checked


async def erase(db: Connection, tried: bool, wanted: RunErased) -> bool:
    """False: it was erased before."""
    async with db.transaction():
        operators = await lock(db)
        row = await (await db.execute(SQL["run_to_erase"], {"id": wanted.run}, binary=True)).fetchone()
        check_status_to_erase(wanted.run, row[2] if row is not None else None)
        assert row is not None
        number, length, _, head, key = row  # a driver that is about to let go of it writes nothing any more
        found = await (await db.execute(SQL["lines_of"], {"run": number}, binary=True)).fetchall()
        log = Log(wanted.run, key, head, checked(wanted.run, length, [(row[0], row[1], row[2]) for row in found]))
        if log.is_erased:
            return tried  # the answer to the first try was lost
        await _erase_rows(db, number, log.erased(), wanted.at)
        await write(db, operators, operators.next_line(wanted.at, [with_place(wanted, length, head)]))
        return True


async def _erase_rows(db: Connection, number: int, erased: Log, at: float) -> None:
    texts = erased.lines
    given = {"positions": list(range(len(texts))), "texts": texts, "checksums": [zlib.crc32(text) for text in texts]}
    await db.execute(SQL["erase_lines"], given | {"run": number})
    asked = await (await db.execute(SQL["requests_to_erase"], {"run": number})).fetchall()
    for ordinal, data, closing in asked:
        row = {"ordinal": ordinal, "data": request_erased(data), "closing": closing_erased(closing)}
        await db.execute(SQL["erase_request"], row)
    await db.execute(SQL["drop_fold"], {"id": erased.run_id})
    await db.execute(SQL["erase_run"], {"run": number, "at": at})

"""Deleting from PostgreSQL: in one transaction with its record in the operators' log, whose row is locked first."""

from __future__ import annotations

from placet.core.log import read_line
from placet.facts.events import DeletedRun, RunsDeleted
from placet.stores.erasing import deleted
from placet.stores.ownership import driven_by
from placet.stores.postgres_connections import SQL, Connection
from placet.stores.postgres_operators import last_line, lock, write


async def delete(db: Connection, tried: bool, run_id: str, wanted: RunsDeleted) -> bool:
    async with db.transaction():
        operators = await lock(db)
        row = await (await db.execute(SQL["run_to_delete"], {"id": run_id}, binary=True)).fetchone()
        if row is None:
            done = await _last_deletion(db, wanted) if tried else None
            return done is not None and done.runs[0].run == run_id
        number, length, head, driver = row
        if driver is not None:
            raise driven_by(run_id, driver)
        await db.execute(SQL["forget_runs"], {"numbers": [number]})
        if not length:
            return False  # somebody wanted to begin it, and never did
        fact = deleted(wanted, [DeletedRun(run_id, length, head.hex())])
        await write(db, operators, operators.next_line(wanted.at, [fact]))
        return True


async def purge(db: Connection, tried: bool, limit: int, wanted: RunsDeleted) -> int:
    async with db.transaction():
        operators = await lock(db)
        if tried and (done := await _last_deletion(db, wanted)) is not None:
            return len(done.runs)
        given = {"before": wanted.ended_before, "limit": limit}
        found = await (await db.execute(SQL["ended_before"], given, binary=True)).fetchall()
        await db.execute(SQL["delete_unbegun"])
        if found:
            await db.execute(SQL["forget_runs"], {"numbers": [row[0] for row in found]})
            gone = [DeletedRun(run_id, length, head.hex()) for _, run_id, length, head in found]
            await write(db, operators, operators.next_line(wanted.at, [deleted(wanted, gone)]))
        return len(found)


async def _last_deletion(db: Connection, wanted: RunsDeleted) -> RunsDeleted | None:
    """What the first try did, if it did something and only its answer was lost."""
    text = await last_line(db)
    facts = read_line(text).facts if text is not None else []
    return next((fact for fact in facts if isinstance(fact, RunsDeleted) and deleted(fact, []) == wanted), None)

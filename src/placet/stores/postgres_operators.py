"""The operators' log in PostgreSQL: its row is locked first, then what it tells of is done, all in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from placet.core.log import Line, Log
from placet.facts.events import AnyFact, GrantMade, GrantRevoked
from placet.stores.operators import checksum_of, log_at, news_about_grants
from placet.stores.postgres_connections import SQL, Connection


async def audited(db: Connection, tried: bool, at: float, fact: AnyFact, act: Callable[[], Awaitable[bool]]) -> bool:
    """Do something and write it down, both or neither. `act` says whether there was anything to do."""
    async with db.transaction():
        log = await lock(db)
        line = log.next_line(at, [fact])
        if tried and await last_line(db) == line.text:  # the answer to the first try was lost
            return True
        if not await act():
            return False
        await write(db, log, line)
        return True


async def lock(db: Connection) -> Log:
    row = await (await db.execute(SQL["operators_place"], binary=True)).fetchone()
    assert row is not None, "the migration made the row"
    return log_at(*row)


async def write(db: Connection, log: Log, line: Line) -> None:
    given = {"position": len(log), "text": line.text, "checksum": checksum_of(line)}
    await db.execute(SQL["operators_line"], given)
    await db.execute(SQL["operators_advance"], {"length": len(log) + 1, "head": line.head, "key": log.key})


async def write_grants(db: Connection, run_id: str, at: float, facts: Sequence[GrantMade | GrantRevoked]) -> None:
    """Before an append that makes or revokes grants, in its transaction: what of it is news."""
    log = await lock(db)
    rows = await (await db.execute(SQL["known_grants"], {"ids": [fact.id for fact in facts]})).fetchall()
    known: dict[str, bool] = dict(rows)
    news = news_about_grants(run_id, facts, known, {each for each, revoked in known.items() if not revoked})
    if news:
        await write(db, log, log.next_line(at, news))


async def last_line(db: Connection) -> bytes | None:
    row = await (await db.execute(SQL["operators_last"], binary=True)).fetchone()
    return bytes(row[0]) if row is not None else None

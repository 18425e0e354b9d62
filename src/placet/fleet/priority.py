"""What a run is worth to workers that have the choice: kept beside its row, and copied onto every ring."""

from __future__ import annotations

from placet.facts.errors import UserError
from placet.ports import DeskStore

LEAST, MOST = -(2**31), 2**31 - 1


async def prioritise(store: DeskStore, run_id: str, priority: int) -> None:
    """Give a run its worth, before it begins or later. Those worth more are driven first."""
    given: object = priority
    if not isinstance(given, int) or isinstance(given, bool) or not LEAST <= given <= MOST:
        raise UserError(f"A priority is a whole number of 32 bits, not {priority!r}.")
    from placet.fleet.schema import fleet_sql, migrate
    from placet.stores.postgres import PostgresStore

    if not isinstance(store, PostgresStore):
        raise UserError("Priorities are for the workers of a fleet, on PostgreSQL: leave priority=… out.")
    await migrate(store)
    await store.query(fleet_sql()["prioritise"], {"run_id": run_id, "priority": priority})

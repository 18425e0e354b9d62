"""`placet migrate`: create the schema of a store, or bring it up to date, before anything uses it."""

from __future__ import annotations

import asyncio

import msgspec

from placet.cli.options import command, json_option, store_option
from placet.stores.opening import open_store
from placet.stores.sqlite import SQLiteStore


@command("migrate")
@store_option
@json_option
def migrate(store: str, *, as_json: bool) -> None:
    """Create the schema of a store, or bring it up to date.

    On PostgreSQL that is the runs, the queue of the fleet and its doorbell, in one go. Any number of processes may do
    it at the same time, and workers do it by themselves when they begin; the command is for deploys that want it done
    before, by a user with the rights to do it.
    """
    asyncio.run(_migrate(store, as_json=as_json))


async def _migrate(url: str, *, as_json: bool) -> None:
    applied: list[str] = []
    postponed: list[str] = []
    async with open_store(url) as store:
        if not isinstance(store, SQLiteStore):
            from placet.fleet.schema import migrate as migrate_fleet

            done = await migrate_fleet(store)
            applied, postponed = done.applied, done.postponed
    if as_json:
        print(msgspec.json.encode({"applied": applied, "postponed": postponed}).decode())
        return
    for name in applied:
        print(f"applied    {name}")
    for name in postponed:
        print(f"postponed  {name}: workers with an older version still run; do this again when they have ended")
    print("The schema is up to date." if not postponed else "The schema can be used.")

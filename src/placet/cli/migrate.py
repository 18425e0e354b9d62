"""`placet migrate`: create the schema of a store, or bring it up to date, before anything uses it."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from placet.cli.exit_codes import OK
from placet.cli.loading import add_json, add_store
from placet.stores.opening import open_store
from placet.stores.sqlite import SQLiteStore

DESCRIPTION = """\
Creates the schema of a store, or brings it up to date. On PostgreSQL that is
the runs, the queue of the fleet and its doorbell, in one go. Any number of
processes may do it at the same time, and workers do it by themselves when they
begin; the command is for deploys that want it done before, by a user with the
rights to do it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    applied: list[str] = []
    postponed: list[str] = []
    async with open_store(str(options.store)) as store:
        if not isinstance(store, SQLiteStore):
            from placet.fleet.schema import migrate

            done = await migrate(store)
            applied, postponed = done.applied, done.postponed
    if options.json:
        print(msgspec.json.encode({"applied": applied, "postponed": postponed}).decode())
        return OK
    for name in applied:
        print(f"applied    {name}")
    for name in postponed:
        print(f"postponed  {name}: workers with an older version still run; do this again when they have ended")
    print("The schema is up to date." if not postponed else "The schema can be used.")
    return OK

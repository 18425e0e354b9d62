"""`placet doctor`: which waiting runs cannot go on with today's code, and why."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import add_json, add_store, agents_of, store_of
from placet.ports import DeskStore
from placet.private_files import open_to_others
from placet.service.doctor import Examined, examine
from placet.stores.sqlite import SQLiteStore

DESCRIPTION = """\
Loads every run that has not ended against today's agents, and says which of
them cannot go on and why: a tool that is gone, an agent that was renamed,
arguments that no longer fit. Run it with the new code before it is deployed.
A store file that others on this machine can read or write is remarked on.
Nothing is changed.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = "It ends with 1 when a run cannot go on."
    parser.add_argument("agents", metavar="MODULE:NAME", help="where today's agents are: an Agent or a list")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    agents, store = agents_of(options.agents), store_of(options)
    looked_at = stopped = asked_anew = 0
    try:
        async for examined in examine(store, agents):
            looked_at += 1
            stopped += any(finding.stops for finding in examined.findings)
            asked_anew += any(not finding.stops for finding in examined.findings)
            _show(examined, as_json=options.json)
        _warn_of_readable_files(store, as_json=options.json)
    finally:
        await store.close()
    if not options.json:
        print(f"{looked_at} runs looked at: {stopped} cannot go on, {asked_anew} will be asked about anew.")
    return FAILED if stopped else OK


def _show(examined: Examined, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(examined).decode())
        return
    for finding in examined.findings:
        print(f"{'✗' if finding.stops else '!'} {examined.run_id}  {examined.agent}  {finding.code}")
        print(f"    {finding.message}")


def _warn_of_readable_files(store: DeskStore, *, as_json: bool) -> None:
    """Say which files of the store others can get at. It keeps no run from going on, so it does not fail."""
    path = store.path if isinstance(store, SQLiteStore) else None
    for file in (path, f"{path}-wal", f"{path}-shm") if path is not None else ():
        rights = open_to_others(file)
        if not rights:
            continue
        message = f"Others on this machine can read or write it ({rights:03o}): chmod 600 '{path}'* keeps it to you."
        if as_json:
            print(msgspec.json.encode({"file": file, "code": "file_open_to_others", "message": message}).decode())
        else:
            print(f"! {file}  file_open_to_others\n    {message}")

"""`placet doctor`: which waiting runs cannot go on with today's code, and why."""

from __future__ import annotations

import asyncio

import msgspec

from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import agents_of, store_of
from placet.cli.options import agents_argument, command, json_option, store_option
from placet.cli.output import Screen, shown
from placet.ports import DeskStore
from placet.private_files import open_to_others
from placet.service.doctor import Examined, examine
from placet.service.policy_state import policy_state
from placet.stores.sqlite import SQLiteStore


@command("doctor", epilog="It ends with 1 when a run cannot go on, or a policy file does not load.")
@agents_argument()
@store_option
@json_option
def doctor(agents: str, store: str, *, as_json: bool) -> int:
    """Say which waiting runs cannot go on with today's code.

    Every run that has not ended is loaded against today's agents: a tool that is gone, an agent that was renamed,
    arguments that no longer fit. Run it with the new code before it is deployed. A store file that others on this
    machine can read or write is remarked on, and so is a policy file that a desk or worker cannot load. Nothing is
    changed.
    """
    return asyncio.run(_examine(agents, store, as_json=as_json))


async def _examine(place: str, url: str, *, as_json: bool) -> int:
    agents, store = agents_of(place), store_of(url)
    looked_at = stopped = asked_anew = 0
    try:
        async for examined in examine(store, agents):
            looked_at += 1
            stopped += any(finding.stops for finding in examined.findings)
            asked_anew += any(not finding.stops for finding in examined.findings)
            _show(examined, as_json=as_json)
        refused = await _tell_of_policies(store, as_json=as_json)
        _warn_of_readable_files(store, as_json=as_json)
    finally:
        await store.close()
    if not as_json:
        print(f"{looked_at} runs looked at: {stopped} cannot go on, {asked_anew} will be asked about anew.")
    return FAILED if stopped or refused else OK


def _show(examined: Examined, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(examined).decode())
        return
    for finding in examined.findings:
        sign = Screen().signs.refused if finding.stops else "!"
        print(f"{sign} {examined.run_id}  {shown(examined.agent)}  {finding.code}")
        print(f"    {shown(finding.message)}")


async def _tell_of_policies(store: DeskStore, *, as_json: bool) -> int:
    """Say which processes have a policy file that does not load; how many."""
    refused = (await policy_state(store)).refused
    for each in refused:
        if as_json:
            found = {"file": each.file, "code": "policy_refused", "message": each.message, "place": each.place}
            print(msgspec.json.encode({**found, "in_force": each.in_force}).decode())
            continue
        print(f"{Screen().signs.refused} {shown(each.file)}  policy_refused  at {shown(each.place)}")
        print(f"    {shown(each.message, keep_lines=True)}")
        print(f"    Version {each.in_force} stays in force.")
    return len(refused)


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

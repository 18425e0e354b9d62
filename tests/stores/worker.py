"""What runs in a process of its own and uses a store. What it has done it says over its line, after it was done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

from placet.core import log
from placet.facts import events as e
from placet.facts.errors import PositionConflict, RunConflict
from placet.ports import DeskStore
from placet.runtime.journal import fold_log
from placet.stores.opening import open_store
from placet.testing.desk_contracts import Driver, RunWriter

TTL = 3.0  # on a busy machine a process may not be heard of for a second


class Line:
    """To the test: words each way. It ends with either process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, *words: object) -> None:
        self._connection.send(" ".join(map(str, words)))

    def heard(self) -> str:
        try:
            return str(self._connection.recv())
        except EOFError:
            return ""


async def race(line: Line, store: DeskStore, rounds: str) -> None:
    """Open the store as all others do at the same moment. Then append to a run of one's own, and compete for the places
    of one that all share, and for the right to drive another."""
    line.say("here")
    line.heard()
    mine = RunWriter()
    await mine.begin(store)
    line.say("opened")
    shared = line.heard()
    for number in range(int(rounds)):
        await mine.append(store, e.TurnLimitSet(number))
        if await _append_to(store, shared, number):
            line.say("wrote", number)
        driver = Driver()
        try:
            lease = await store.lease(f"{shared}-driven", driver)
        except RunConflict:
            continue
        line.say("leased", lease.epoch)
        await store.release(lease, 0)
    line.say("own", mine.id, len(mine.log))


async def _append_to(store: DeskStore, run_id: str, number: int) -> bool:
    stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    written = stored.log.next_line(2000.0 + number, [e.TurnLimitSet(number)])
    try:
        await store.append(None, stored.log, [written], fold_log(stored.log))
    except PositionConflict:
        return False
    return True


async def batches(line: Line, store: DeskStore, size: str) -> None:
    """Append batches of so many lines for ever, and say how long the log is after each."""
    story = RunWriter()
    await story.begin(store)
    line.say("run", story.id)
    number = 0
    while True:
        number += 1
        ahead, lines = story.log.copy(), list[log.Line]()
        for _ in range(int(size)):
            lines.append(ahead.next_line(float(number), [e.TurnLimitSet(number)]))
            ahead.append(lines[-1])
        await store.append(None, story.log, lines, story.run)
        story.log = ahead
        line.say("length", len(story.log))


async def drive(line: Line, store: DeskStore) -> None:
    """Take a run, append when told to, and say what came of it and whether the lease still seems to live."""
    story, driver = RunWriter(), Driver()
    lease = await store.lease(story.id, driver)
    await story.begin(store, lease)
    line.say("run", story.id)
    while line.heard():
        is_live = asyncio.get_running_loop().time() <= lease.live_until
        try:
            await story.append(store, e.TurnLimitSet(1), lease=lease)
        except RunConflict as error:
            line.say("refused", is_live, error.message)
        else:
            line.say("appended", is_live)


COMMANDS: dict[str, Callable[..., Awaitable[None]]] = {
    "race": race,
    "batches": batches,
    "drive": drive,
}


def main(connection: Connection, command: str, url: str, *arguments: str) -> None:
    asyncio.run(_use(Line(connection), command, url, *arguments))


async def _use(line: Line, command: str, url: str, *arguments: str) -> None:
    store = open_store(url, lease_ttl=TTL)
    try:
        await COMMANDS[command](line, store, *arguments)
    finally:
        await store.close()

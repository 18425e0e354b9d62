"""One process of a contender: python -m bench.durable.program MODULE ROLE DATABASE

`alone` does one run after another; `front` begins runs and decides what waits, as a desk does; `work` drives runs until
its input ends. Each says `ready`, and then answers every line of JSON with one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

LOOK_SECONDS = 0.05
"""How often the front looks for what waits and what has ended."""
AT_ONCE = 16
PATIENCE = 600.0
"""Seconds in which a crowd of runs has to end: a run that a contender lost would be waited for without an end."""


class Front(Protocol):
    """Who begins runs and decides, in a process that drives none."""

    async def start(self, run: str) -> None: ...

    async def waiting(self) -> Mapping[str, str]:
        """What can be decided now: by the call's order, what the contender calls it."""
        ...

    async def decide(self, asked: str) -> None: ...

    async def ended(self) -> int:
        """How many runs have ended in all."""
        ...

    async def close(self) -> None: ...


class Contender(Protocol):
    """What a contender's module has."""

    async def prepare(self, database: str) -> None:
        """Make what it needs in an empty database."""
        ...

    async def alone(self, database: str, runs: Sequence[str]) -> None:
        """One run after the other; an error where one does not end."""
        ...

    async def front(self, database: str) -> Front: ...

    async def work(self, database: str, concurrency: int, ready: Any) -> None: ...


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


async def heard() -> Any:
    line = await asyncio.to_thread(sys.stdin.readline)
    return json.loads(line) if line else None


async def crowd(front: Front, runs: Sequence[str], rate: float | None) -> dict[str, float]:
    """Begin all, decide all, wait until all have ended. With a rate, so many are decided in a second, when all wait:
    the answer says when each was."""
    ended = await front.ended() + len(runs)
    left = iter(runs)

    async def start_some() -> None:
        for run in left:
            await front.start(run)

    await asyncio.gather(*(start_some() for _ in range(AT_ONCE)))
    decided: dict[str, float] = {}
    gated, ours = sum(run.endswith("g") for run in runs), set(runs)
    while len(decided) < gated or await front.ended() < ended:
        waiting = (await front.waiting()).items()
        asked = [each for each in waiting if each[0] not in decided and each[0].rpartition(".")[0] in ours]
        if rate is None:
            await asyncio.gather(*(_decide(front, each, decided) for each in asked))
        elif len(asked) + len(decided) >= gated:
            for number, each in enumerate(asked):
                at = time.monotonic() + 1 / rate
                await _decide(front, each, decided)
                await asyncio.sleep(max(0.0, at - time.monotonic()) if number + 1 < len(asked) else 0)
        await asyncio.sleep(LOOK_SECONDS)
    return decided


async def _decide(front: Front, asked: tuple[str, str], decided: dict[str, float]) -> None:
    order, handle = asked
    decided[order] = time.time()
    await front.decide(handle)


async def lead(contender: Contender, database: str) -> None:
    front = await contender.front(database)
    say("ready")
    try:
        while (asked := await heard()) is not None:
            async with asyncio.timeout(PATIENCE):
                done = await crowd(front, asked["runs"], asked.get("rate"))
            say(done)
    finally:
        await front.close()


async def go_alone(contender: Contender, database: str) -> None:
    say("ready")
    while (asked := await heard()) is not None:
        await contender.alone(database, asked["runs"])
        say({})


async def work(contender: Contender, database: str, concurrency: int) -> None:
    ready = asyncio.Event()
    working = asyncio.create_task(contender.work(database, concurrency, ready))
    is_ready = asyncio.create_task(ready.wait())
    await asyncio.wait([working, is_ready], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        say("ready")
        hearing = asyncio.create_task(heard())
        await asyncio.wait([working, hearing], return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    await asyncio.gather(working, return_exceptions=False)


def main(arguments: list[str]) -> None:
    module, role, database, *more = arguments
    contender: Contender = importlib.import_module(module)  # type: ignore[assignment]  # a module has what the protocol asks
    if role == "prepare":
        asyncio.run(contender.prepare(database))
        say("ready")
    elif role == "alone":
        asyncio.run(go_alone(contender, database))
    elif role == "front":
        asyncio.run(lead(contender, database))
    else:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(work(contender, database, int(more[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

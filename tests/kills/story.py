"""Two ways to die, each as a story that tests tell briefly and `tests.kills.sweep` at length."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from placet import StoreError
from placet.desk import Desk
from tests.desk.scenes import Witness
from tests.kills.crew import lead, problems_with, review
from tests.kills.processes import (
    DEAD,
    Moment,
    count_moments,
    decide_for_ever,
    desk_on,
    live_and_die,
    serve,
    start,
    unpark,
)

UNFINISHED = 12
"""How many runs are kept going while the killer is at work."""
LONGEST_PAUSE = 0.35
AT_ONCE = 3


class NotOver(AssertionError):
    """Runs that did not come to their end."""


async def killed_from_outside(
    url: str, witness: Witness, *, kills: int, seed: int, patience: float, tell: Callable[[str], None] = print
) -> list[str]:
    """Two workers and a reviewer, killed at random instants and replaced. All runs end; what is wrong with them?"""
    tell(f"seed {seed}, {kills} kills")
    chance = random.Random(seed)
    roles = [serve, serve, decide_for_ever]
    async with desk_on(url, agents=[lead(witness)], run=False) as desk:
        runs = [(await desk.start("Lead", "go")).id]
        crowd = [start(role, url, witness.path) for role in roles]
        try:
            for number in range(kills):
                await asyncio.sleep(chance.uniform(0, LONGEST_PAUSE))
                place = chance.choice((0, 0, 0, 1, 1, 1, 2))
                crowd[place].kill()
                crowd[place].join()
                crowd[place] = start(roles[place], url, witness.path)
                runs += await _some_more(desk, runs)
                if number % 100 == 99:
                    tell(f"{number + 1} kills, {len(runs)} runs")
            await _until_all_end(desk, runs, patience)
        finally:
            for process in crowd:
                process.kill()
                process.join()
        doubts = [each for each in await _all_requests(desk) if each.kind == "in_doubt"]
        tell(f"{len(runs)} runs, {len(doubts)} questions about calls in doubt")
        return [*problems_with(witness, runs), *([] if doubts else ["no kill hit a body: the instants prove nothing"])]


async def _some_more(desk: Desk, runs: Sequence[str]) -> list[str]:
    unfinished = len((await desk.runs(status="running", limit=UNFINISHED)).rows)
    unfinished += len((await desk.runs(status="waiting", limit=UNFINISHED)).rows)
    return [(await desk.start("Lead", "go")).id for _ in range(min(2, UNFINISHED - unfinished))]


async def _until_all_end(desk: Desk, runs: Sequence[str], patience: float) -> None:
    give_up = time.monotonic() + patience
    for run_id in runs:
        try:
            await desk.wait(run_id, timeout=max(0.1, give_up - time.monotonic()))
        except TimeoutError:
            raise NotOver(f"{await desk.store.run(run_id)} {await desk.pending(run_id=run_id)}") from None


async def _all_requests(desk: Desk) -> list[object]:
    page = await desk.requests(status=None, limit=200)
    found = list(page.rows)
    while page.cursor is not None:
        page = await desk.requests(status=None, limit=200, cursor=page.cursor)
        found += page.rows
    return found


# -- dying at a chosen place ------------------------------------------------------------------------------------------


async def moments_of(url: str, witness: Witness, moment: Moment) -> int:
    """How many places of this kind there are to die at, in the life of one run."""
    async with desk_on(url, agents=[lead(witness)], run=False) as desk:
        run = await desk.start("Lead", "go")
    answer = multiprocessing.get_context("forkserver").SimpleQueue()
    process = start(count_moments, url, witness.path, run.id, moment, answer)
    await asyncio.to_thread(process.join)
    return int(answer.get())


async def dead_at_each(url: str, witness: Witness, moment: Moment, numbers: Sequence[int], *, patience: float) -> int:
    """A run for each place, whose worker dies there; then somebody goes on with all of them. How many did die?"""
    async with desk_on(url, agents=[lead(witness)], run=False) as desk:
        runs = [(await desk.start("Lead", "go")).id for _ in numbers]
        deaths = 0
        for first in range(0, len(runs), AT_ONCE):
            some = list(zip(runs, numbers, strict=True))[first : first + AT_ONCE]
            lives = [start(live_and_die, url, witness.path, run_id, moment, number) for run_id, number in some]
            for life in lives:
                await asyncio.to_thread(life.join)
                assert life.exitcode in (0, DEAD), f"a worker ended with {life.exitcode}"
                deaths += life.exitcode == DEAD
    await _go_on(url, witness, runs, patience)
    return deaths


async def _go_on(url: str, witness: Witness, runs: Sequence[str], patience: float) -> None:
    async with desk_on(url, agents=[lead(witness)]) as desk:
        reviewing = asyncio.create_task(_keep_reviewing(desk, witness))
        try:
            await _until_all_end(desk, runs, patience)
        finally:
            reviewing.cancel()
            with suppress(asyncio.CancelledError):
                await reviewing


async def _keep_reviewing(desk: Desk, witness: Witness) -> None:
    while True:
        with suppress(StoreError):
            await review(desk, witness)
            await unpark(desk)
        await asyncio.sleep(0.02)

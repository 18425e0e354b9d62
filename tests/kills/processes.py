"""Workers that die: forked off a process that has imported everything once, so that a new life costs little."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, TypeAlias

from placet import RunConfig, StoreError
from placet.desk import Desk
from placet.service.driving import Contexts, RunDriver
from placet.stores.opening import open_store
from tests.desk.scenes import Witness
from tests.kills.crew import lead, review

TTL = 0.5
"""Seconds after which a dead worker's runs may be taken over."""
DURABLE = ("append", "lease", "release")
"""What a store writes down for a driver."""
DEAD = 9
AT_LENGTH = 0.04
"""How long bodies work where a killer who knows nothing of them shall hit some."""

Moment: TypeAlias = Literal["before", "after", "await"]
"""Where a worker dies: before or after its n-th durable write, or at its n-th await."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "psycopg", "tests.kills.processes", "placet.stores.postgres"])


def start(main: Callable[..., None], *arguments: object) -> BaseProcess:
    process = _context.Process(target=main, args=arguments, daemon=True)
    process.start()
    return process


@contextlib.asynccontextmanager
async def desk_on(url: str, **options: Any) -> AsyncIterator[Desk]:
    """A desk on a store whose leases are short, so that the dead are not waited for."""
    async with open_store(url, lease_ttl=TTL) as store, Desk(store, **options) as desk:
        yield desk


# -- workers for an outside killer ------------------------------------------------------------------------------------


def serve(url: str, witness: Path) -> None:
    """Drive what there is to drive until somebody kills us."""

    async def main() -> None:
        async with desk_on(url, agents=[lead(Witness(witness), AT_LENGTH)], max_concurrent=8):
            await asyncio.Event().wait()

    asyncio.run(main())


def decide_for_ever(url: str, witness: Path) -> None:
    """Be the reviewer, and the operator who gives parked runs another chance, until somebody kills us."""

    async def main() -> None:
        async with desk_on(url, run=False) as desk:
            while True:
                with contextlib.suppress(StoreError):  # a database that is away comes back
                    await review(desk, Witness(witness))
                    await unpark(desk)
                await asyncio.sleep(0.02)

    asyncio.run(main())


async def unpark(desk: Desk) -> None:
    for run in (await desk.runs()).rows:
        if run.is_parked:
            await desk.resume(run.id, by="operator")


# -- workers that die by themselves -----------------------------------------------------------------------------------


class Death:
    """Counts the moments of one kind, and ends the process at the n-th as a power cut would."""

    def __init__(self, moment: Moment, number: int) -> None:
        self.moment = moment
        self._number = number
        self.count = 0

    def passes(self, moment: Moment) -> None:
        if moment == self.moment:
            self.count += 1
            if self.count == self._number:
                os._exit(DEAD)


class DyingStore:
    """A store whose process dies around what it makes durable."""

    def __init__(self, inner: Any, death: Death) -> None:
        self._inner = inner
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in DURABLE:
            return method

        async def with_death(*args: Any) -> Any:
            self._death.passes("before")
            found = await method(*args)
            self._death.passes("after")
            return found

        return with_death


def step_by_step(coroutine: Coroutine[Any, Any, Any], death: Death) -> Coroutine[Any, Any, Any]:
    """The same coroutine, with death passing by whenever it begins to wait and whenever it goes on."""

    @types.coroutine
    def steps() -> Generator[Any, Any, Any]:
        go_on: Callable[[], Any] = lambda: coroutine.send(None)  # noqa: E731
        while True:
            try:
                waited = go_on()
            except StopIteration as end:
                return end.value
            death.passes("await")
            try:
                value = yield waited
                go_on = lambda value=value: coroutine.send(value)  # noqa: E731
            except BaseException as error:  # noqa: BLE001  # it belongs to the coroutine
                go_on = lambda error=error: coroutine.throw(error)  # noqa: E731
            death.passes("await")

    async def whole() -> Any:
        return await steps()

    return whole()


def live_and_die(url: str, witness: Path, run_id: str, moment: Moment, number: int) -> None:
    """Drive and decide one run to its end, if death does not come first."""
    asyncio.run(_live(url, witness, run_id, Death(moment, number)))


def count_moments(url: str, witness: Path, run_id: str, moment: Moment, answer: Any) -> None:
    """How many moments of this kind a whole life has."""
    death = Death(moment, -1)
    asyncio.run(_live(url, witness, run_id, death))
    answer.put(death.count)


async def _live(url: str, path: Path, run_id: str, death: Death) -> None:
    witness = Witness(path)
    store: Any = DyingStore(open_store(url, lease_ttl=TTL), death)
    asyncio.get_running_loop().set_task_factory(
        lambda loop, coroutine, **options: asyncio.Task(step_by_step(coroutine, death), loop=loop, **options)
    )
    driver = RunDriver(store, [lead(witness)], Contexts(), RunConfig())
    async with Desk(store, run=False) as desk:
        while (await desk.get(run_id)).status != "ended":
            await asyncio.create_task(driver.drive(run_id))
            await asyncio.create_task(review(desk, witness, run_id))
    await store.close()

"""The embedded engine: drives runs in the background of this process, so many at once, and looks for more by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from placet.clock import Clock
from placet.facts.errors import StoreError
from placet.ports import DeskStore, Drive, EngineHealth
from placet.stores.outages import Outage

SWEEP_SECONDS = 1.0
"""How long a ring that was lost can go unnoticed: deadlines and runs of drivers that died are found by looking."""

NEWS_SECONDS = 0.02
"""The least time between two looks because of news: a busy store has news all the time."""

LEFT_ALONE_SECONDS = 5.0
"""How long a run of which nothing came is left alone, so that it does not keep others from being driven."""

logger = logging.getLogger("placet.fleet")


class EmbeddedEngine:
    """Looks for runs that have something to do when it is rung, when there is news in the store (a decision that
    another process took, say), and once a second anyway."""

    def __init__(self, store: DeskStore, clock: Clock, *, limit: int = 16, grace: float = 0.0) -> None:
        """`grace`: how many seconds drives get to come to a good place when the engine is stopped."""
        self._store = store
        self._clock = clock
        self._limit = limit
        self._grace = grace
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._left_alone: dict[str, float] = {}
        """Runs of which nothing came, and until when they are not tried again (on the monotonic clock)."""
        self._bell = asyncio.Event()
        self._is_serving = False

    async def enqueue(self, run_id: str) -> None:
        """Ring. What is to be done is in the store; the engine only looks sooner."""
        self._left_alone.pop(run_id, None)
        self._bell.set()

    async def serve(self, drive: Drive) -> None:
        self._is_serving = True
        listening = asyncio.create_task(self._listen())
        outage = Outage(logger, "store_away", "store_back")
        try:
            while True:
                self._bell.clear()  # before the look: a ring during it is heard after it
                try:
                    await self._start_runnable(drive)
                    outage.end()
                except StoreError as error:  # a store that is away comes back
                    outage.note(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SWEEP_SECONDS):  # wait_for would swallow a cancellation with the ring
                        await self._bell.wait()
        finally:
            self._is_serving = False
            listening.cancel()
            await asyncio.wait([listening])
            await self._stop()

    async def _listen(self) -> None:
        """Ring when something was written, here or in another process."""
        seen: int | None = None
        while True:
            try:
                if seen is None:
                    seen = await self._store.latest_sequence()
                if await self._store.wait_for_news(seen, SWEEP_SECONDS):
                    seen = await self._store.latest_sequence()
                    self._bell.set()
                await asyncio.sleep(NEWS_SECONDS)
            except StoreError:  # it is away: the code that looks reports that
                await asyncio.sleep(SWEEP_SECONDS)
            except Exception:  # without an ear, news would be found by looking alone, and nobody would know why
                logger.exception("news not heard", extra={"action": "listening_failed"})
                await asyncio.sleep(SWEEP_SECONDS)

    async def health(self) -> EngineHealth:
        return EngineHealth(is_serving=self._is_serving, driving=len(self._driving), limit=self._limit)

    async def _start_runnable(self, drive: Drive) -> None:
        if len(self._driving) >= self._limit:
            return
        now = time.monotonic()
        self._left_alone = {run_id: until for run_id, until in self._left_alone.items() if until > now}
        look_at = self._limit + len(self._driving) + len(self._left_alone)
        for run_id in await self._store.runnable(self._clock.now(), look_at):
            is_free = run_id not in self._driving and run_id not in self._left_alone
            if is_free and len(self._driving) < self._limit:
                self._driving[run_id] = asyncio.create_task(self._drive(run_id, drive))

    async def _drive(self, run_id: str, drive: Drive) -> None:
        came_of_it = False
        try:
            if self._is_serving:  # or nothing is begun any more
                came_of_it = await drive(run_id)
        except Exception as error:  # noqa: BLE001  # one run's trouble is not the others'
            logger.warning("drive failed", extra={"action": "drive_failed", "run_id": run_id, "error": repr(error)})
        finally:
            if not came_of_it:
                self._left_alone[run_id] = time.monotonic() + LEFT_ALONE_SECONDS
            del self._driving[run_id]
            self._bell.set()  # a place is free, and this run may have news

    async def _stop(self) -> None:
        tasks = list(self._driving.values())
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=self._grace)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

"""The embedded engine: drives runs in the background of this process, so many at once, and looks for more by itself."""

from __future__ import annotations

import asyncio
import contextlib

from placet.clock import Clock
from placet.ports import DeskStore, Drive, EngineHealth

SWEEP_SECONDS = 1.0
"""How long a ring that was lost can go unnoticed: deadlines and runs of drivers that died are found by looking."""


class EmbeddedEngine:
    def __init__(self, store: DeskStore, clock: Clock, *, limit: int = 16) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._bell = asyncio.Event()
        self._is_serving = False

    async def enqueue(self, run_id: str) -> None:
        """Ring. What is to be done is in the store; the engine only looks sooner."""
        self._bell.set()

    async def serve(self, drive: Drive) -> None:
        self._is_serving = True
        try:
            while True:
                await self._start_runnable(drive)
                self._bell.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._bell.wait(), SWEEP_SECONDS)
        finally:
            self._is_serving = False
            await self._stop()

    async def health(self) -> EngineHealth:
        return EngineHealth(is_serving=self._is_serving, driving=len(self._driving), limit=self._limit)

    async def _start_runnable(self, drive: Drive) -> None:
        free = self._limit - len(self._driving)
        if free <= 0:
            return
        for run_id in await self._store.runnable(self._clock.now(), free + len(self._driving)):
            if run_id not in self._driving and len(self._driving) < self._limit:
                self._driving[run_id] = asyncio.create_task(self._drive(run_id, drive))

    async def _drive(self, run_id: str, drive: Drive) -> None:
        try:
            await drive(run_id)
        finally:
            del self._driving[run_id]
            self._bell.set()  # a place is free, and this run may have news

    async def _stop(self) -> None:
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

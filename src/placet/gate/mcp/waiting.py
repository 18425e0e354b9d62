"""All calls of one guest that wait for people: a few questions to the door for all of them, and no task for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from placet.core.guest import GateCall
from placet.facts.errors import CallNotFound, PlacetError
from placet.gate.port import Gate

logger = logging.getLogger("placet.gate.mcp")

GROUP = 64
"""Calls that are waited for with one question. A new call makes a small question anew, never a large one."""
SETTLE = 0.02
"""Seconds in which new calls gather."""
RETRY = 2.0

Settled = Callable[[GateCall], None]


class Waiting:
    """Says of each call when something can be done about it."""

    def __init__(self, gate: Gate, on_settled: Settled) -> None:
        self._gate = gate
        self._on_settled = on_settled
        self._young: set[str] = set()
        self._groups: list[_Group] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._young) + sum(len(group.calls) for group in self._groups)

    def add(self, call: str) -> None:
        if any(call in group.calls for group in self._groups):
            return
        self._young.add(call)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._gather())

    def discard(self, call: str) -> None:
        self._young.discard(call)
        for group in self._groups:
            group.calls.discard(call)

    async def close(self) -> None:
        tasks = [each for each in (self._task, *(group.task for group in self._groups)) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _gather(self) -> None:
        """Put new calls into a group: the last one, while it is small."""
        while True:
            await self._news.wait()
            await asyncio.sleep(SETTLE)
            self._news.clear()
            self._groups = [group for group in self._groups if group.calls]
            while self._young:
                group = self._groups[-1] if self._groups and len(self._groups[-1].calls) < GROUP else self._new()
                while self._young and len(group.calls) < GROUP:
                    group.calls.add(self._young.pop())
                group.ask_anew()

    def _new(self) -> _Group:
        self._groups.append(_Group(self._gate, self._on_settled))
        return self._groups[-1]


class _Group:
    """Some calls that are waited for together."""

    def __init__(self, gate: Gate, on_settled: Settled) -> None:
        self._gate = gate
        self._on_settled = on_settled
        self.calls: set[str] = set()
        self.task: asyncio.Task[None] | None = None

    def ask_anew(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.task = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while self.calls:
            try:
                self._tell(await self._gate.wait_for_any(sorted(self.calls)))
            except CallNotFound:
                await self._look_at_each()
            except PlacetError as error:  # the desk is away: no call runs meanwhile, and all go on waiting
                logger.warning("cannot wait", extra={"action": "mcp_cannot_wait", "error": str(error)})
                await asyncio.sleep(RETRY)

    def _tell(self, settled: Iterable[GateCall]) -> None:
        for call in settled:
            if call.id in self.calls:
                self.calls.discard(call.id)
                self._on_settled(call)

    async def _look_at_each(self) -> None:
        """One of them is gone, erased perhaps: nobody waits for that one any more."""
        for name in sorted(self.calls):
            try:
                await self._gate.look(name)
            except CallNotFound:
                self.calls.discard(name)

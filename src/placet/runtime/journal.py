"""The one door: every change of a run passes through the journal. Is it legal? Is it durable? Then it is published.

`note` applies facts to the fold at once, `commit` makes them durable. Two kinds of facts must be committed before what
they announce: claims before effects, «request sent» before the request. Everything else must be committed before user
code that may take for ever, and before the drive ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from placet.clock import Clock
from placet.core.fold import apply, fold
from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.errors import LimitExceeded
from placet.events import AnyFact, InChild, PlainFact
from placet.ports import Lease, Store


class Journal:
    def __init__(self, log: Log, run: RunFold, store: Store, lease: Lease, clock: Clock, max_bytes: int) -> None:
        self.log = log
        self.run = run
        self.store = store
        self.lease = lease
        self.subscribers: list[Callable[[Sequence[AnyFact]], None]] = []
        self._clock = clock
        self._noted: list[AnyFact] = []
        self._writing = asyncio.Lock()
        self._max_bytes = max_bytes
        self._bytes = sum(map(len, log.lines))

    def now(self) -> float:
        return round(self._clock.now(), 3)

    def note(self, path: str, *facts: PlainFact) -> None:
        """Apply facts of the run with this path. An illegal one raises and changes nothing."""
        for fact in facts:
            entry = InChild(path, fact) if path else fact
            apply(self.run, entry)
            self._noted.append(entry)

    def note_all(self, facts: Sequence[AnyFact]) -> None:
        for fact in facts:
            if isinstance(fact, InChild):
                self.note(fact.path, fact.fact)
            else:
                self.note("", fact)

    async def commit(self) -> None:
        """Make everything noted so far durable. One append for all of it: whole, or not at all."""
        if not self._noted and not self._writing.locked():
            return
        async with self._writing:  # facts that others note while we write wait for the next append
            if self._noted:
                facts, self._noted = self._noted, []
                await self._append(facts)
                for tell in list(self.subscribers):
                    tell(facts)

    async def _append(self, facts: list[AnyFact]) -> None:
        line, head = self.log.next_line(self.now(), facts)
        self._bytes += len(line)
        try:
            if self._bytes > self._max_bytes:
                raise LimitExceeded(
                    f"The run's log would grow over its limit of {self._max_bytes} bytes (RunConfig.limits.log)."
                )
            await self.store.append(self.lease, self.log, [(line, head)], self.run)
        except BaseException:
            # Nobody knows whether the line was written. What is certain is the log as it was, so the fold goes back
            # to that.
            self._noted.clear()
            self.run = fold_log(self.log)
            raise
        self.log.append(line, head)


def fold_log(log: Log) -> RunFold:
    """The fold of a whole log."""
    run = RunFold()
    for line in log.lines:
        fold(read_line(line).facts, into=run)
    return run

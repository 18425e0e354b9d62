"""What one PostgreSQL holds, by simulation: runs with one approval pass through workers, the server and its disk.

The figures that go in are measured (`Costs`); what comes out is runs a second, the time from a decision to its effect,
and how busy each part is. The model is small on purpose. The processors of workers and server are places that one
piece of work after the other takes. The disk writes one group of commits at a time: whoever comes meanwhile waits for
the next one. Commits that notify hold a lock until they are on the disk, so they come one after another.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Proc: TypeAlias = Generator[tuple[str, float], None, None]


@dataclass(frozen=True)
class Costs:
    """Of a run of five requests with one approval, in milliseconds of processor time."""

    program: float
    server: float
    flush: float
    """One group of commits to the disk, in milliseconds that pass."""
    commits: int = 13
    """Appends; two of them notify: the start and the decision."""
    before_pause: int = 9
    """Of the appends, with the start."""


@dataclass(frozen=True)
class Machines:
    """`shared`: workers and server are on the same processors, all in all so many as `server_cores`."""

    workers: int
    server_cores: int
    shared: bool = False


@dataclass
class Outcome:
    seconds: float
    runs: int
    effects: list[float]
    """Milliseconds from each decision to its effect, sorted."""
    busy: dict[str, float]
    """Of each part, which share of the time it was at work."""

    @property
    def per_second(self) -> float:
        return self.runs / self.seconds

    def within(self, share: float) -> float:
        return self.effects[round(share * (len(self.effects) - 1))] if self.effects else 0.0

    @property
    def first_limit(self) -> str:
        """The disk is none of them: it takes all that wait at once."""
        limits = {part: share for part, share in self.busy.items() if part != "disk"}
        return max(limits, key=lambda part: limits[part])


@dataclass
class _Part:
    """So many places, and who waits for one."""

    places: int
    free: int = field(init=False)
    waiting: deque[tuple[Proc, float]] = field(default_factory=deque)
    worked: float = 0.0

    def __post_init__(self) -> None:
        self.free = self.places


class Simulation:
    """One database, its workers, and runs that come at a rate, or all at once."""

    def __init__(self, costs: Costs, machines: Machines, seed: int = 1) -> None:
        self._costs = costs
        self._random = random.Random(seed)  # noqa: S311  # a story that can be told again
        cores = _Part(machines.server_cores)
        self._parts = {
            "server": cores,
            "workers": cores if machines.shared else _Part(machines.workers),
            "commits that notify": _Part(1),
        }
        self._machines = machines
        self._disk: deque[Proc] = deque()
        self._is_flushing = False
        self._flushed = 0.0
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._ended = 0
        self._effects: list[float] = []

    def run(self, runs: int, rate: float | None = None, thinks: float = 1000.0) -> Outcome:
        """`rate`: so many begin in a second, by chance; None: all at once. `thinks`: milliseconds until a decision."""
        at = 0.0
        for _ in range(runs):
            at += self._random.expovariate(rate / 1000) if rate else 0.0
            self._at(at, lambda: self._step(self._life(thinks)))
        while self._events:
            self._now, _, event = heapq.heappop(self._events)
            event()
        seconds = self._now / 1000
        busy = {name: part.worked / (part.places * self._now) for name, part in self._parts.items()}
        busy["disk"] = self._flushed / self._now
        if self._machines.shared:
            del busy["workers"]
        return Outcome(seconds, self._ended, sorted(self._effects), busy)

    def _life(self, thinks: float) -> Proc:
        """A run from its start to its end: what it asks of which part, one after the other."""
        costs = self._costs
        yield from self._append(notifies=True)
        for _ in range(costs.before_pause - 1):
            yield from self._append()
        yield "wait", self._random.expovariate(1 / thinks) if thinks else 0.0
        decided = self._now
        yield from self._append(notifies=True)
        yield from self._append()  # the claim: behind it the tool acts
        self._effects.append(self._now - decided)
        for _ in range(costs.commits - costs.before_pause - 2):
            yield from self._append()
        self._ended += 1

    def _append(self, *, notifies: bool = False) -> Proc:
        """One durable point with all that leads to it."""
        yield "workers", self._costs.program / self._costs.commits
        yield "server", self._costs.server / self._costs.commits
        if notifies:
            yield "lock", 0.0
        yield "disk", 0.0
        if notifies:
            yield "unlock", 0.0

    # -- the clockwork ------------------------------------------------------------------------------------------------

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, event))

    def _step(self, proc: Proc) -> None:
        try:
            part, takes = next(proc)
        except StopIteration:
            return
        if part == "wait":
            self._at(self._now + takes, lambda: self._step(proc))
        elif part == "disk":
            self._disk.append(proc)
            self._flush()
        elif part == "unlock":
            self._leave(self._parts["commits that notify"])
            self._step(proc)
        else:
            self._enter(self._parts["commits that notify" if part == "lock" else part], proc, takes)

    def _enter(self, part: _Part, proc: Proc, takes: float) -> None:
        if not part.free:
            part.waiting.append((proc, takes))
            return
        part.free -= 1
        began = self._now
        if part is self._parts["commits that notify"]:  # held until it is left
            part.worked -= began
            self._step(proc)
        else:
            self._at(self._now + takes, lambda: self._done(part, proc, takes))

    def _done(self, part: _Part, proc: Proc, takes: float) -> None:
        part.worked += takes
        self._next(part)
        self._step(proc)

    def _leave(self, part: _Part) -> None:
        part.worked += self._now
        self._next(part)

    def _next(self, part: _Part) -> None:
        part.free += 1
        if part.waiting:
            proc, takes = part.waiting.popleft()
            self._enter(part, proc, takes)

    def _flush(self) -> None:
        if self._is_flushing or not self._disk:
            return
        self._is_flushing = True
        group, self._disk = list(self._disk), deque()
        self._at(self._now + self._costs.flush, lambda: self._flush_done(group))

    def _flush_done(self, group: Sequence[Proc]) -> None:
        self._is_flushing = False
        self._flushed += self._costs.flush
        self._flush()
        for proc in group:
            self._step(proc)


def simulate(
    costs: Costs, machines: Machines, runs: int, rate: float | None = None, thinks: float = 1000.0, seed: int = 1
) -> Outcome:
    return Simulation(costs, machines, seed).run(runs, rate, thinks)


def most_per_second(costs: Costs, machines: Machines, runs: int = 3000) -> float:
    """The highest rate that is kept up: found by having all runs begin at once, with people who decide at once."""
    return simulate(costs, machines, runs, thinks=0.0).per_second

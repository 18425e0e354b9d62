"""The words of the benchmark: works, figures, contenders, and the scripts that every contender is given.

This file, the sections and the worker run in every contender's own environment: they import nothing but the standard
library.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias

ROOT = Path(__file__).resolve().parents[1]

Item: TypeAlias = dict[str, Any]
Script: TypeAlias = Sequence[Sequence[Item]]
"""A model's answers, one after the other, each a list of items in the shape of the Responses API."""
Figures: TypeAlias = dict[str, float]
"""What one repetition of a work gave: seconds or bytes by the figure's name. Less is always better."""
Unit: TypeAlias = Literal["µs", "ms", "s", "kB", "per s"]

FREE, GATED = "look_up", "refund"
"""The two tools of every benchmark agent: one runs at once, one waits for a person."""
DONE = "All done."


@dataclass(slots=True)
class Effects:
    """Counts the tool bodies that ran, so that a work can tell that it was really done."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class ServedDesk:
    """A desk that answers on a port, with requests that wait."""

    port: int
    headers: dict[str, str]
    decisions: list[tuple[str, bytes]]
    """Where to send which body, to decide one request each."""
    pages: dict[str, str]
    """The address of a page of the list, and of the page for people."""
    events: str
    count_pending: Callable[[], Awaitable[int]]


class Subject(Protocol):
    """What a contender's module gives the works. An agent, a handle and a ledger are whatever the contender makes them.

    What a contender cannot do it leaves out, and works that need it show a dash.
    """

    IMPORT: str
    """What `import …` loads it."""

    TOO_LARGE: Mapping[str, int]
    """By work, the size from which on it would take minutes to prepare. Left out by most."""

    def versions(self) -> Mapping[str, str]: ...

    def agent(self, script: Script, effects: Effects) -> Any:
        """An agent with the two tools, and a model that answers with the script."""
        ...

    async def run(self, agent: Any, text: str) -> Any:
        """Run until the final output, or until a person is needed. Gives a handle."""
        ...

    def output(self, handle: Any) -> str | None: ...

    def waiting(self, handle: Any) -> int:
        """How many calls wait for a person."""
        ...

    def store(self, handle: Any) -> str | bytes:
        """The paused run as text, or as the bytes that the contender's own serializer writes."""
        ...

    async def load(self, agent: Any, text: Any) -> Any:
        """What `store` wrote, as something on which calls can be decided."""
        ...

    def approve_all(self, state: Any) -> None: ...

    async def resume(self, agent: Any, state: Any) -> Any: ...

    def elsewhere(self) -> None:
        """Forget the runs that this process knows, as another process would not know them. Left out by a contender
        that knows of a paused run what its text says, and nothing else."""
        ...

    async def stream(self, agent: Any, text: str) -> int:
        """Run, reading the stream to its end. Gives the number of text events that arrived."""
        ...

    def decided(self, count: int) -> Any:
        """A ledger with approvals of the calls c0, c1, … of the tool GATED."""
        ...

    def is_approved(self, ledger: Any, label: str) -> bool | None: ...

    def serve_desk(self, pending: int) -> AbstractAsyncContextManager[ServedDesk]:
        """A desk over HTTP, with so many requests that wait."""
        ...


@dataclass(frozen=True, slots=True)
class Contender:
    """Who does the works: a Python of its own environment, and the module there that implements `Subject`."""

    name: str
    python: str
    module: str
    lock: str | None = None
    """The lock of its environment, in bench/peers; without one it runs in Placet's."""


@dataclass(frozen=True, slots=True)
class Figure:
    key: str
    title: str
    unit: Unit
    noun: str = ""
    """What it is called where its growth is told; without one, by its title or its key."""
    budget: float = math.inf
    """How many times as much as the limit Placet may cost at most: more is a failure of the benchmark."""
    targets: Mapping[int, float] = field(default_factory=dict)
    """By size: how many times faster, or smaller, than the best of the peers Placet is meant to be."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of a work's first figure against its size."""

    file: str
    title: str
    x_axis: str


@dataclass(frozen=True, slots=True)
class Work:
    """Something that every contender does, at some sizes. It checks its own result."""

    name: str
    title: str
    """With {size} where the size is read."""
    run: Callable[[Any, int], Figures | Awaitable[Figures]]
    """Does it once and gives its figures; only what is between a Stopwatch's start and stop counts."""
    figures: tuple[Figure, ...]
    sizes: tuple[int, ...]
    quick: int
    """The size that is enough to see that it works."""
    growth: tuple[int, int] | None = None
    """Two sizes whose ratio shows how the cost grows, of each figure."""
    growth_target: float | None = None
    """How much more Placet's cost at the larger of the two is meant to be at most, of each figure."""
    plot: Plot | None = None
    needs: tuple[str, ...] = ()
    """Names of `Subject` that some contenders do not have."""
    otherwise: str | None = None
    """The work that is the same thing to a contender without them: its figures count here too."""
    is_steady: bool = False
    """Once is enough: it counts bytes, or repeats inside."""


class WorkFailed(AssertionError):
    """A contender did not do what the work asks for: its time would mean nothing."""


def expect(actual: object, wanted: object, what: str) -> None:
    if actual != wanted:
        raise WorkFailed(f"{what}: {actual!r} instead of {wanted!r}")


@dataclass(slots=True)
class Stopwatch:
    """Adds up the processor time of this process, all threads, between its starts and stops."""

    seconds: float = 0.0
    _started: float = field(default=0.0, repr=False)

    def __enter__(self) -> Self:
        self._started = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._started


# -- scripts ----------------------------------------------------------------------------------------------------------


def call(name: str, number: int) -> Item:
    arguments = json.dumps({"order": f"order-{number}"})
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": f"c{number}"}


def message(text: str = DONE) -> list[Item]:
    return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


def turns(count: int, name: str = FREE) -> list[list[Item]]:
    """That many answers with one call each."""
    return [[call(name, number)] for number in range(count)]

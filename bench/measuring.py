"""Measuring: every contender does every work in fresh processes, taking turns, and the least of all rounds counts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

from bench.results import Results
from bench.work import ROOT, Contender, Figures, Work

Cell: TypeAlias = tuple[Work, int]
"""A work at a size."""


PATIENCE = 10.0
"""Seconds that a contender may spend on one cell, all rounds together, before later rounds leave it out: what takes
long is disturbed less, and a peer whose cost is quadratic would otherwise make the benchmark last for hours."""


class ContenderFailed(Exception):
    """A worker came back without figures; the message ends with what it said."""


def measure(
    contenders: Sequence[Contender],
    works: Sequence[Work],
    rounds: int,
    tell: Callable[[str], None],
    patience: float | None = None,
) -> Results:
    """Rounds are the outer loop, so that a disturbance of some seconds cannot spoil all measurements of one work."""
    results, schedule = _empty(rounds), _Schedule(PATIENCE if patience is None else patience)
    cells = [(work, size) for work in works for size in work.sizes]
    for number in range(rounds):
        for at, cell in enumerate(cells):
            for contender in filter(schedule.is_due(cell), contenders):
                tell(f"round {number + 1} of {rounds}, {at + 1} of {len(cells)}: {label(cell)}, {contender.name}")
                with schedule.timed(contender, cell):
                    is_done = _work(results, contender, [cell], quick=False)
                if not is_done:
                    schedule.leave_out(contender, cell)
    results.take_over(works)
    return results


class _Schedule:
    """Who does a cell once more, and who has done it often enough or cannot do it."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._spent: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._too_large: dict[tuple[str, str], int] = {}
        """By contender and work: the smallest size that came back without figures."""

    def is_due(self, cell: Cell) -> Callable[[Contender], bool]:
        work, size = cell
        return lambda contender: (
            size < self._too_large.get((contender.name, work.name), size + 1)
            and self._spent[contender.name, label(cell)] < self._patience
        )

    @contextmanager
    def timed(self, contender: Contender, cell: Cell) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._spent[contender.name, label(cell)] += time.monotonic() - began

    def leave_out(self, contender: Contender, cell: Cell) -> None:
        work, size = cell
        self._too_large.setdefault((contender.name, work.name), size)


def try_out(contenders: Sequence[Contender], works: Sequence[Work]) -> Results:
    """Every work once, as small as it can be: shows that all of them are done right, not what they cost."""
    results = _empty(rounds=0)
    for contender in contenders:
        _work(results, contender, [(work, work.quick) for work in works], quick=True)
    results.take_over(works)
    return results


def label(cell: Cell) -> str:
    work, size = cell
    return f"{work.name}:{size}"


def _empty(rounds: int) -> Results:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return Results(datetime.now(UTC).date().isoformat(), machine, python, rounds)


def _work(results: Results, contender: Contender, cells: Sequence[Cell], *, quick: bool) -> bool:
    """Have the cells done, and say whether all of them were."""
    can_do_all = True
    for line in _lines(contender, cells, quick=quick):
        if "versions" in line:
            results.versions[contender.name] = line["versions"]
        elif line["figures"] is not None:
            figures: Figures = line["figures"]
            results.add(line["work"], line["size"], contender.name, figures)
        else:
            can_do_all = False
    return can_do_all


def _lines(contender: Contender, cells: Iterable[Cell], *, quick: bool) -> Iterator[dict[str, Any]]:
    command = [contender.python, "-m", "bench.worker", contender.module, *map(label, cells), *["--quick"] * quick]
    # The contender's own environment decides what is imported; the hash seed is fixed because it moves sets and dicts.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=ROOT, env=env | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        reached = [line for line in lines if "work" in line]
        where = f"after {reached[-1]['work']}:{reached[-1]['size']}" if reached else "at its first work"
        raise ContenderFailed(f"{contender.name} failed {where}:\n{done.stderr.strip()[-3000:]}")
    yield from lines

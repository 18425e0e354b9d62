"""Measuring: every contender does every work in fresh processes, taking turns, and the least of all rounds counts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from bench.results import Results
from bench.work import ROOT, Contender, Figures, Work

Cell: TypeAlias = tuple[Work, int]
"""A work at a size."""


class ContenderFailed(Exception):
    """A worker came back without figures; the message ends with what it said."""


def measure(
    contenders: Sequence[Contender], works: Sequence[Work], rounds: int, tell: Callable[[str], None]
) -> Results:
    """Rounds are the outer loop, so that a disturbance of some seconds cannot spoil all measurements of one work."""
    results = _empty(rounds)
    cells = [(work, size) for work in works for size in work.sizes]
    for number in range(rounds):
        for at, cell in enumerate(cells):
            tell(f"round {number + 1} of {rounds}, {at + 1} of {len(cells)}: {label(cell)}")
            for contender in contenders:
                _work(results, contender, [cell], quick=False)
    return results


def try_out(contenders: Sequence[Contender], works: Sequence[Work]) -> Results:
    """Every work once, as small as it can be: shows that all of them are done right, not what they cost."""
    results = _empty(rounds=0)
    for contender in contenders:
        _work(results, contender, [(work, work.quick) for work in works], quick=True)
    return results


def label(cell: Cell) -> str:
    work, size = cell
    return f"{work.name}:{size}"


def _empty(rounds: int) -> Results:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return Results(datetime.now(UTC).date().isoformat(), machine, python, rounds)


def _work(results: Results, contender: Contender, cells: Sequence[Cell], *, quick: bool) -> None:
    for line in _lines(contender, cells, quick=quick):
        if "versions" in line:
            results.versions[contender.name] = line["versions"]
        elif line["figures"] is not None:
            figures: Figures = line["figures"]
            results.add(line["work"], line["size"], contender.name, figures)


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

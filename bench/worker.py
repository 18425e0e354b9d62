"""One fresh process: does some works with one contender and prints a line of JSON for each.

python -m bench.worker MODULE [--quick] WORK:SIZE …
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from bench.sections import works
from bench.work import Figures, Work

SECONDS_OF_REPEATING = 0.3
AT_LEAST, AT_MOST = 3, 200
LONG = 1.0
"""Seconds from which a repetition is long: disturbances even out within it, and it is not repeated."""


def once(subject: Any, work: Work, size: int) -> Figures:
    gc.collect()  # nobody pays for the garbage of the repetition before
    found = work.run(subject, size)
    return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found


async def _awaited(found: Any) -> Figures:
    figures: Figures = await found
    return figures


def least(subject: Any, work: Work, size: int, *, quick: bool) -> Figures:
    """The least of several repetitions: whatever disturbs a measurement makes it larger, never smaller."""
    began = time.perf_counter()
    best = once(subject, work, size)
    if quick or work.is_steady or time.perf_counter() - began > LONG:
        return best
    began, times = time.perf_counter(), 1
    while times < AT_LEAST or (times < AT_MOST and time.perf_counter() - began < SECONDS_OF_REPEATING):
        again = once(subject, work, size)
        best = {key: min(value, again[key]) for key, value in best.items()}
        times += 1
    return best


def can_do(subject: Any, work: Work, size: int) -> bool:
    too_large: Mapping[str, float] = getattr(subject, "TOO_LARGE", {})
    return size < too_large.get(work.name, math.inf) and all(hasattr(subject, name) for name in work.needs)


def main(arguments: list[str]) -> None:
    quick = "--quick" in arguments
    module, *cells = [each for each in arguments if each != "--quick"]
    subject = importlib.import_module(module)
    print(json.dumps({"versions": dict(subject.versions())}))
    known = {work.name: work for work in works()}
    for cell in cells:
        name, _, size = cell.partition(":")
        work = known[name]
        figures = least(subject, work, int(size), quick=quick) if can_do(subject, work, int(size)) else None
        print(json.dumps({"work": name, "size": int(size), "figures": figures}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

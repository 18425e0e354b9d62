"""What every contender does in the durable comparison, and the witness who sees it from outside.

A run's name says all: `17/5g` is run 17, five requests to the model, the last of its calls waits for a person; `3/10`
is run 3, ten requests, nobody is asked. All but the last request ask for one call. This file and `program` run in every
contender's own environment: they import nothing but the standard library.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

FREE, GATED = "look_up", "refund"
DONE = "All done."
EFFECTS = "PLACET_BENCH_EFFECTS"
LINGER = "PLACET_BENCH_LINGER"
"""How many seconds a tool goes on after its effect: the moment in which a kill hits it."""


class Asked(NamedTuple):
    """A call that the model asks for."""

    tool: str
    order: str
    """The one argument: the run's name and the number of the call in it."""


def name(number: int | str, requests: int, *, gated: bool) -> str:
    return f"{number}/{requests}{'g' if gated else ''}"


def calls_of(run: str) -> int:
    """How many calls a run makes in all."""
    return int(run.partition("/")[2].rstrip("g")) - 1


def next_call(run: str, done: int) -> Asked | None:
    """What the model wants when so many calls have their output; None: it says that all is done."""
    calls = calls_of(run)
    if done >= calls:
        return None
    is_gated = run.endswith("g") and done == calls - 1
    return Asked(GATED if is_gated else FREE, f"{run}.{done}")


def effect(order: str) -> str:
    """The effect: a line in a file that no contender knows of, written at once and whole."""
    line = f"{order} {time.time():.6f}\n".encode()
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    return f"done {order}"


def linger() -> float:
    return float(os.environ.get(LINGER, "0"))

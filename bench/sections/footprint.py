"""What it weighs: memory of a paused run, and the time that importing adds to an empty interpreter."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tracemalloc

from bench import work as w

IMPORT_BUDGET = 2.5
"""Times what importing asyncio and json takes: a ratio holds on slow and fast machines alike."""


async def memory_of_paused_runs(subject: w.Subject, runs: int) -> w.Figures:
    """What stays allocated while the caller holds on to what `run` returned; the store's share is in it."""
    effects = w.Effects()
    script = [[w.call(w.GATED, 0), w.call(w.FREE, 1)], w.message()]
    agents = [subject.agent(script, effects) for _ in range(runs + 1)]
    await subject.run(agents.pop(), "Whatever is made once is made here.")

    gc.collect()
    tracemalloc.start()
    handles = [await subject.run(agent, "Refund it.") for agent in agents]
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    w.expect({subject.waiting(handle) for handle in handles}, {1}, "calls that wait")
    w.expect(effects.count, runs + 1, "calls that ran")
    return {"memory": held / runs}


def import_time(subject: w.Subject, times: int) -> w.Figures:
    statement = f"import {subject.IMPORT}"
    _processor_time(statement)  # compiles the bytecode that was not compiled yet
    pairs = [(_processor_time("pass"), _processor_time(statement)) for _ in range(times)]
    empty, loaded = (min(column) for column in zip(*pairs, strict=True))
    return {"import": max(0.0, loaded - empty)}


def _processor_time(statement: str) -> float:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WORKS = [
    w.Work(
        name="memory",
        title="memory of one of {size} paused runs",
        run=memory_of_paused_runs,
        figures=(w.Figure("memory", "", "kB", targets={1000: 1}),),
        sizes=(1000,),
        quick=3,
        is_steady=True,
    ),
    w.Work(
        name="import",
        title="import: added to an empty interpreter, best of {size}",
        run=import_time,
        figures=(w.Figure("import", "", "ms", budget=IMPORT_BUDGET, targets={7: 5}),),
        sizes=(7,),
        quick=1,
        is_steady=True,
    ),
]

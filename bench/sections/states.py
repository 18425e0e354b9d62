"""States: writing down and reading back a run that paused after many turns, and how large it is then."""

from __future__ import annotations

from typing import Any

from bench import work as w

TIMES = 3
"""Within one repetition, since the run before the pause takes some contenders so long that it is not repeated."""


async def long_run(subject: w.Subject, turns: int) -> w.Figures:
    effects = w.Effects()
    agent = subject.agent([*w.turns(turns), [w.call(w.GATED, turns)], w.message()], effects)
    paused = await subject.run(agent, "Look everything up, then refund.")

    tries = [await _there_and_back(subject, agent, paused) for _ in range(TIMES)]
    serialize, load, sizes, states = zip(*tries, strict=True)

    subject.approve_all(states[-1])
    ended = await subject.resume(agent, states[-1])
    w.expect(subject.output(ended), w.DONE, "final output")
    w.expect(effects.count, turns + 1, "calls that ran")
    return {"serialize": min(serialize), "load": min(load), "size": float(min(sizes))}


async def _there_and_back(subject: w.Subject, agent: Any, paused: Any) -> tuple[float, float, int, Any]:
    with w.Stopwatch() as writing:
        stored = subject.store(paused)
    with w.Stopwatch() as reading:
        state = await subject.load(agent, stored)
    return writing.seconds, reading.seconds, len(stored if isinstance(stored, bytes) else stored.encode()), state


WORKS = [
    w.Work(
        name="state",
        title="a run paused after {size} turns",
        run=long_run,
        figures=(
            w.Figure("serialize", "serialize", "ms", targets={1000: 20}),
            w.Figure("load", "load", "ms", targets={1000: 8}),
            w.Figure("size", "size", "kB", targets={1000: 2}),
        ),
        sizes=(1000,),
        quick=4,
    )
]

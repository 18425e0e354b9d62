"""Many runs at once in one process."""

from __future__ import annotations

import asyncio

from bench import work as w

TURNS = 5


async def at_once(subject: w.Subject, runs: int) -> w.Figures:
    effects, watch = w.Effects(), w.Stopwatch()
    script = [*w.turns(TURNS - 1), w.message()]
    agents = [subject.agent(script, effects) for _ in range(runs)]

    with watch:
        handles = await asyncio.gather(*(subject.run(agent, "Look it up.") for agent in agents))

    w.expect({subject.output(handle) for handle in handles}, {w.DONE}, "final outputs")
    w.expect(effects.count, runs * (TURNS - 1), "calls that ran")
    return {"run": watch.seconds / runs}


WORKS = [
    w.Work(
        name="at-once",
        title=f"{{size}} runs at once, {TURNS} turns each: runs",
        run=at_once,
        figures=(w.Figure("run", "", "per s", targets={1000: 20}),),
        sizes=(1000,),
        quick=5,
    )
]

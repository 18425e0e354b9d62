"""The cycle: pause, serialize, load, decide, resume; where the run is known, and where it is not."""

from __future__ import annotations

from bench import work as w


async def _cycle(subject: w.Subject, pairs: int, *, elsewhere: bool) -> w.Figures:
    effects, watch = w.Effects(), w.Stopwatch()
    calls = [
        w.call(name, 2 * number + place) for number in range(pairs) for place, name in enumerate((w.GATED, w.FREE))
    ]
    agent = subject.agent([calls, w.message()], effects)

    with watch:
        paused = await subject.run(agent, "Refund what can be refunded.")
        text = subject.store(paused)
    w.expect((subject.waiting(paused), effects.count), (pairs, pairs), "calls that wait, calls that ran")
    if elsewhere:
        subject.elsewhere()
    with watch:
        state = await subject.load(agent, text)
        subject.approve_all(state)
        ended = await subject.resume(agent, state)

    w.expect(subject.output(ended), w.DONE, "final output")
    w.expect(effects.count, 2 * pairs, "calls that ran")
    return {"cycle": watch.seconds}


async def cycle_here(subject: w.Subject, pairs: int) -> w.Figures:
    return await _cycle(subject, pairs, elsewhere=False)


async def cycle_elsewhere(subject: w.Subject, pairs: int) -> w.Figures:
    return await _cycle(subject, pairs, elsewhere=True)


WORKS = [
    w.Work(
        name="cycle",
        title="pause, serialize, load, decide, resume: {size} gated + {size} free calls",
        run=cycle_here,
        figures=(w.Figure("cycle", "", "ms", targets={1: 12, 100: 5}),),
        sizes=(1, 10, 100),
        quick=2,
        plot=w.Plot(
            "cycle.svg", "Processor time to pause, serialize, load, decide and resume", "gated calls (and as many free)"
        ),
    ),
    w.Work(
        name="cycle-elsewhere",
        title="the same, resumed where the run is unknown: {size} + {size}",
        run=cycle_elsewhere,
        figures=(w.Figure("cycle", "", "ms"),),
        sizes=(1, 10, 100),
        quick=2,
        needs=("elsewhere",),
        otherwise="cycle",
    ),
]

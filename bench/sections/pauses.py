"""Runs that pause again and again, stored and loaded each time."""

from __future__ import annotations

from bench import work as w


async def _pauses(subject: w.Subject, pauses: int, *, elsewhere: bool) -> w.Figures:
    effects, watch = w.Effects(), w.Stopwatch()
    agent = subject.agent([*w.turns(pauses, w.GATED), w.message()], effects)

    with watch:
        handle = await subject.run(agent, "Refund them one by one.")
    for number in range(pauses):
        w.expect((subject.waiting(handle), effects.count), (1, number), "calls that wait, calls that ran")
        if elsewhere:
            subject.elsewhere()
        with watch:
            state = await subject.load(agent, subject.store(handle))
            subject.approve_all(state)
            handle = await subject.resume(agent, state)

    w.expect(subject.output(handle), w.DONE, "final output")
    w.expect(effects.count, pauses, "calls that ran")
    return {"pause": watch.seconds / pauses}


async def pauses_here(subject: w.Subject, pauses: int) -> w.Figures:
    return await _pauses(subject, pauses, elsewhere=False)


async def pauses_elsewhere(subject: w.Subject, pauses: int) -> w.Figures:
    return await _pauses(subject, pauses, elsewhere=True)


WORKS = [
    w.Work(
        name="pauses",
        title="one of {size} pauses of a run, stored and loaded each time",
        run=pauses_here,
        figures=(w.Figure("pause", "", "ms", noun="a pause's time", targets={200: 20}),),
        sizes=(25, 50, 100, 200),
        quick=3,
        growth=(25, 200),
        plot=w.Plot("pauses.svg", "Processor time of one pause, stored and loaded", "pauses of the run"),
    ),
    w.Work(
        name="pauses-elsewhere",
        title="the same, each time resumed where the run is unknown: {size} pauses",
        run=pauses_elsewhere,
        figures=(w.Figure("pause", "", "ms", noun="a pause's time"),),
        sizes=(25, 200),
        quick=3,
        growth=(25, 200),
        needs=("elsewhere",),
        otherwise="pauses",
    ),
]

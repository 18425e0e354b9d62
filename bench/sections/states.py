"""States: writing down and reading back a run that paused after many turns, and how large it is then."""

from __future__ import annotations

from bench import work as w


async def long_run(subject: w.Subject, turns: int) -> w.Figures:
    effects, writing, reading = w.Effects(), w.Stopwatch(), w.Stopwatch()
    agent = subject.agent([*w.turns(turns), [w.call(w.GATED, turns)], w.message()], effects)
    paused = await subject.run(agent, "Look everything up, then refund.")

    with writing:
        text = subject.store(paused)
    with reading:
        state = await subject.load(agent, text)

    size = len(text if isinstance(text, bytes) else text.encode())
    subject.approve_all(state)
    ended = await subject.resume(agent, state)
    w.expect(subject.output(ended), w.DONE, "final output")
    w.expect(effects.count, turns + 1, "calls that ran")
    return {"serialize": writing.seconds, "load": reading.seconds, "size": float(size)}


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

"""Turns: what one costs, whether it costs more in a long run, and what one of many parallel calls costs."""

from __future__ import annotations

from bench import work as w


async def one_call_per_turn(subject: w.Subject, turns: int) -> w.Figures:
    effects, watch = w.Effects(), w.Stopwatch()
    agent = subject.agent([*w.turns(turns), w.message()], effects)

    with watch:
        handle = await subject.run(agent, "Look it up.")

    w.expect(subject.output(handle), w.DONE, "final output")
    w.expect(effects.count, turns, "calls that ran")
    return {"turn": watch.seconds / turns}


async def parallel_calls(subject: w.Subject, calls: int) -> w.Figures:
    effects, watch = w.Effects(), w.Stopwatch()
    agent = subject.agent([[w.call(w.FREE, number) for number in range(calls)], w.message()], effects)

    with watch:
        handle = await subject.run(agent, "Look all of it up.")

    w.expect(subject.output(handle), w.DONE, "final output")
    w.expect(effects.count, calls, "calls that ran")
    return {"call": watch.seconds / calls}


WORKS = [
    w.Work(
        name="turn",
        title="one turn with one call, in a run of {size} turns",
        run=one_call_per_turn,
        figures=(w.Figure("turn", "", "µs", noun="a turn's time", targets={10: 15, 400: 40}),),
        sizes=(10, 25, 50, 100, 200, 400),
        quick=3,
        growth=(10, 400),
        growth_target=1.2,
        plot=w.Plot("turns.svg", "Processor time of one turn with one tool call", "turns in the run"),
    ),
    w.Work(
        name="parallel",
        title="one turn with {size} parallel calls, per call",
        run=parallel_calls,
        figures=(w.Figure("call", "", "µs", targets={1000: 4}),),
        sizes=(1000,),
        quick=5,
    ),
]

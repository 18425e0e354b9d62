"""Streaming: what it costs to hand on one piece of text."""

from __future__ import annotations

from bench import work as w


async def text_events(subject: w.Subject, events: int) -> w.Figures:
    watch = w.Stopwatch()
    agent = subject.agent([w.message(" ".join(["word"] * events))], w.Effects())

    with watch:
        arrived = await subject.stream(agent, "Tell me a long story.")

    w.expect(arrived, events, "text events that arrived")
    return {"event": watch.seconds / events}


WORKS = [
    w.Work(
        name="stream",
        title="one of {size} streamed text events",
        run=text_events,
        figures=(w.Figure("event", "", "µs", targets={10_000: 3}),),
        sizes=(10_000,),
        quick=20,
        needs=("stream",),
    )
]

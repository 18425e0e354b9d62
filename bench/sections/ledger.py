"""The ledger: was this call approved? Asked among few decisions and among very many."""

from __future__ import annotations

from bench import work as w

ASKED = 100
"""So few that the processor's caches hold them among few decisions and among many: what is asked is the algorithm."""
TIMES = 200


def status_among(subject: w.Subject, decisions: int) -> w.Figures:
    ledger = subject.decided(decisions)
    labels = [f"c{number * decisions // ASKED}" for number in range(ASKED)]
    best, answers = float("inf"), []

    for _ in range(TIMES):
        with w.Stopwatch() as watch:
            answers = [subject.is_approved(ledger, label) for label in labels]
        best = min(best, watch.seconds / ASKED)

    w.expect(set(answers), {True}, "what the ledger says")
    w.expect(subject.is_approved(ledger, "unknown"), None, "what the ledger says of an unknown call")
    return {"status": best}


WORKS = [
    w.Work(
        name="status",
        title="status of one call among {size} decisions",
        run=status_among,
        figures=(w.Figure("status", "", "µs", noun="the time to ask"),),
        sizes=(1000, 10_000, 100_000),
        quick=10,
        growth=(1000, 100_000),
        growth_target=1.2,
        plot=w.Plot("status.svg", "Processor time to ask whether one call was approved", "decisions"),
        needs=("decided", "is_approved"),
        is_steady=True,
    )
]

"""Runs that are over, with decisions of people in them: what cards compare with."""

from __future__ import annotations

from collections.abc import Sequence

from placet.clock import SYSTEM_CLOCK
from placet.facts import events as e
from placet.facts.codec import JsonObject, encode
from placet.ports import DeskStore
from placet.service.baselines import Baselines
from placet.testing.run_writer import RunWriter


async def decided(
    store: DeskStore,
    agent: str,
    tool: str,
    calls: Sequence[JsonObject],
    *,
    verdict: e.Verdict = "approve",
    by: str = "ann",
) -> str:
    """A run in which somebody decided about these calls, and which is over: its id. It is one append: no process comes
    upon it half way."""
    run = RunWriter(agent, at=SYSTEM_CLOCK.now() - 3600)
    output: list[JsonObject] = [
        {"type": "function_call", "name": tool, "arguments": encode(each).decode(), "call_id": f"c{n}"}
        for n, each in enumerate(calls)
    ]
    ids = [f"1.{n}" for n in range(len(calls))]
    held = [e.CallHeld(each, f"digest {each}", f"function:{tool}", "print") for each in ids]
    words = [e.DecisionMade(each, 1, f"digest {each}", verdict, by, run.at) for each in ids]
    begun = [e.CallsStarted(ids)] if verdict == "approve" else []
    ends = [e.CallEnded(each, "finished" if begun else "rejected", "done") for each in ids]
    await run.append(
        store,
        e.RunStarted(agent, "earlier", 10),
        e.RequestSent(),
        e.ResponseReceived(None, output, e.Usage()),
        *held,
        *words,
        *begun,
        *ends,
        e.CancelAsked(by, run.at),
        e.RunCancelled(),
    )
    return run.id


async def waiting(
    store: DeskStore,
    agent: str,
    tool: str,
    calls: Sequence[JsonObject],
    *,
    summaries: Sequence[str] = (),
    irreversible: bool = False,
    at: float | None = None,
    expires_at: float | None = None,
) -> RunWriter:
    """A run in which these calls wait for a person."""
    run = RunWriter(agent, at=SYSTEM_CLOCK.now() - 60 if at is None else at)
    output: list[JsonObject] = [
        {"type": "function_call", "name": tool, "arguments": encode(each).decode(), "call_id": f"c{n}"}
        for n, each in enumerate(calls)
    ]
    said = [*summaries, *[None] * (len(calls) - len(summaries))]
    held = [
        e.CallHeld(f"1.{n}", f"digest 1.{n}", f"function:{tool}", "print", None, expires_at, None, text, irreversible)
        for n, text in enumerate(said)
    ]
    answer = e.ResponseReceived(None, output, e.Usage())
    await run.append(store, e.RunStarted(agent, "what waits", 10), e.RequestSent(), answer, *held)
    return run


async def remembered(
    store: DeskStore, agent: str, tool: str, calls: Sequence[JsonObject], *, verdict: e.Verdict = "approve"
) -> None:
    """The same in two runs, and cards know of it."""
    half = len(calls) // 2
    for some in (calls[:half], calls[half:]):
        if some:
            await decided(store, agent, tool, some, verdict=verdict)
    await Baselines(store, SYSTEM_CLOCK).fill()

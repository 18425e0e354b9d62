"""Holds: what an operator keeps from starting, in a run that is driven and in one that is only shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.core.next_step import WaitForPeople, next_step
from placet.core.state import Call, RunFold
from placet.core.transitions import RUNNABLE, Status
from placet.facts.events import HoldKind


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's «not now»: nothing that it covers starts while it stands, approved or not."""

    kind: HoldKind
    name: str
    by: str | None
    at: float
    reason: str | None = None


def hold_on(holds: Sequence[Hold], run_id: str, agent: str, tool: str) -> Hold | None:
    """The hold that keeps this call from starting: on its run, its agent, its tool, or its agent's tool."""
    names = {"run": (run_id,), "agent": (agent,), "tool": (tool, f"{agent}.{tool}")}
    return next((hold for hold in holds if hold.name in names[hold.kind]), None)


def blocking_holds(run: RunFold, run_id: str, holds: Sequence[Hold], *, is_driven: bool = False) -> list[Hold]:
    """The holds for which the run waits, if nothing else in it can go on; else none."""
    found: dict[str, Hold] = {}
    for member in run.family():
        for call in member.calls.values():
            hold = hold_on(holds, run_id, member.response_agent, call.name)
            if hold is not None and _is_to_begin(member, call, is_driven=is_driven):
                found[call.id] = hold
    if not found or not isinstance(next_step(run, set_aside=found.keys()), WaitForPeople):
        return []
    return list({(hold.kind, hold.name): hold for hold in found.values()}.values())


def _is_to_begin(run: RunFold, call: Call, *, is_driven: bool) -> bool:
    """Whether the call would be begun next. One that was begun would be, if no process works on it any more."""
    is_elsewhere = is_driven or run.guest is not None
    is_left = call.status is Status.STARTED and call.id not in run.children and not is_elsewhere
    return call.status in RUNNABLE or call.status is Status.DEFERRED or is_left


def holds_text(holds: Sequence[Hold]) -> str | None:
    """Why a run does not go on, for people."""
    texts = (
        f"{hold.kind} {hold.name} is held by {hold.by or 'an unnamed person'}"
        + (f": {hold.reason}" if hold.reason else "")
        for hold in holds
    )
    return "; ".join(texts) or None

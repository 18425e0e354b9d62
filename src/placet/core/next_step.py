"""What to do next, as a pure function of the state.

The loop asks, a short function does it, and the loop asks again.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from placet.core.state import Call, RunFold
from placet.core.transitions import CONCLUDABLE, RUNNABLE, WAITING, Status
from placet.facts.events import GuardrailRecord


class SettleRequest(msgspec.Struct, frozen=True):
    """Find out whether the conversation took the last request."""


class AskModel(msgspec.Struct, frozen=True):
    """Send what is unsent; the answer acknowledges it."""


class RecoverCalls(msgspec.Struct, frozen=True):
    """The process that claimed these calls is gone: their contracts say what to do."""

    calls: list[Call]


class GateCalls(msgspec.Struct, frozen=True):
    """Judge calls that are not judged yet: run, ask, or deny."""

    calls: list[Call]


class AdvanceCalls(msgspec.Struct, frozen=True):
    """Run what may run, and give decided calls that run nothing their outputs."""

    runnable: list[Call]
    concludable: list[Call]


class AwaitToolFunctions(msgspec.Struct, frozen=True):
    """Tool functions are at work: wait until one ends, or a decision arrives."""


class JudgeTurn(msgspec.Struct, frozen=True):
    """All calls of the turn have ended: does the run go on, go over to another agent, or end?"""


class ConcludeRun(msgspec.Struct, frozen=True):
    """The model answered without asking for anything: that is the final output."""


class WaitForPeople(msgspec.Struct, frozen=True):
    """Nothing can go on until a person decides."""


class CancelRun(msgspec.Struct, frozen=True):
    """A person asked for it: end what is open, each call with an output, and then the run."""


class ReportTripwire(msgspec.Struct, frozen=True):
    """An input guardrail stopped the run: nothing more happens in it."""

    guardrail: GuardrailRecord


class Stop(msgspec.Struct, frozen=True):
    """The run has ended."""


Step: TypeAlias = (
    SettleRequest
    | AskModel
    | RecoverCalls
    | GateCalls
    | AdvanceCalls
    | AwaitToolFunctions
    | JudgeTurn
    | ConcludeRun
    | WaitForPeople
    | CancelRun
    | ReportTripwire
    | Stop
)
NO_CALLS: AbstractSet[str] = frozenset()
_PROPOSED, _STARTED, _ENDED = Status.PROPOSED, Status.STARTED, Status.ENDED  # members are slow to get at in an Enum
_ONLY_DEFERRED = frozenset({Status.DEFERRED})


def next_step(run: RunFold, at_work: AbstractSet[str] = NO_CALLS, set_aside: AbstractSet[str] = NO_CALLS) -> Step:
    """`at_work`: the calls whose tool functions run in the process that asks. `set_aside`: those that an operator
    holds."""
    if run.has_ended:
        return Stop()
    if run.guest is not None:
        return _in_guest_session(run)
    if run.cancel_asked is not None and not at_work:
        return CancelRun()
    if run.tripped is not None:
        return ReportTripwire(run.tripped)
    if run.open_calls:
        return _within_turn(run, at_work, set_aside)
    if run.request != "none":
        return SettleRequest() if run.delivery == "conversation" else AskModel()
    if run.calls:
        return AskModel() if run.judged_turn == run.turn else JudgeTurn()
    if run.responses == 0 or run.outbox:
        return AskModel()
    return ConcludeRun()


def _in_guest_session(run: RunFold) -> Step:
    """Another person executes what may run, and no model is asked: all that is left is to end what has been decided."""
    statuses = {call.status for call in run.calls.values()}
    if run.cancel_asked is not None and statuses <= {_ENDED}:
        return CancelRun()
    concludable = [call for call in run.calls.values() if call.status in CONCLUDABLE]
    return AdvanceCalls([], concludable) if concludable else WaitForPeople()


def _within_turn(run: RunFold, at_work: AbstractSet[str], set_aside: AbstractSet[str]) -> Step:
    taken = at_work | set_aside if set_aside else at_work
    calls: list[Call] = []
    statuses: set[Status] = set()
    for call in run.calls.values():
        if call.status is not _ENDED and call.id not in taken:
            calls.append(call)
            statuses.add(call.status)
    step = _with_calls(run, calls, statuses, set_aside) if calls else None
    if step is not None:
        return step
    return AwaitToolFunctions() if at_work else WaitForPeople()


def _with_calls(run: RunFold, calls: list[Call], statuses: set[Status], set_aside: AbstractSet[str]) -> Step | None:
    """What can be done about these open calls, on which no process works; None: nothing but wait."""
    if statuses <= RUNNABLE:
        return AdvanceCalls(calls, [])
    if _PROPOSED in statuses:
        return GateCalls(calls if len(statuses) == 1 else [call for call in calls if call.status is _PROPOSED])
    orphans = _orphans(run, calls) if _STARTED in statuses else []
    if orphans:
        return RecoverCalls(orphans)
    if statuses == _ONLY_DEFERRED and run.open_calls == len(calls):
        return AdvanceCalls(calls, [])
    return _advance(run, calls, set_aside)


def _orphans(run: RunFold, calls: list[Call]) -> list[Call]:
    """Started calls on which no process works: the process that claimed them is gone, and it is unknown what happened
    to them. They come before everything else that may begin, because what they did may matter to it. (A nested run has
    a log of its own, which says how far it got: it just goes on.)"""
    return [call for call in calls if call.status is _STARTED and call.id not in run.children]


def _advance(run: RunFold, calls: list[Call], set_aside: AbstractSet[str]) -> AdvanceCalls | None:
    runnable = [call for call in calls if call.status in RUNNABLE or _child_can_go_on(run, call, set_aside)]
    concludable = [call for call in calls if call.status in CONCLUDABLE]
    return AdvanceCalls(runnable, concludable) if runnable or concludable else None


def _child_can_go_on(run: RunFold, call: Call, set_aside: AbstractSet[str]) -> bool:
    child = run.children.get(call.id)
    if call.status is not _STARTED or child is None:
        return False
    return not isinstance(next_step(child, NO_CALLS, set_aside), WaitForPeople)


def is_waiting(run: RunFold) -> bool:
    """Whether some call of the open turn waits for a person, here or in a nested run."""
    return any(call.status in WAITING for call in run.calls.values()) or any(map(is_waiting, run.children.values()))

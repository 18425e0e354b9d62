"""Folding a log that is already written, the short way: a turn that went as most turns go is taken in one step.

Once the next answer has come, a turn is its items in the history, its usage, and what was decided in it. Its call, and
how it moved from step to step, is gone by then; so of a turn with one call that was let pass or approved, was started
and ran to its end, no call is made at all. All else goes fact by fact through `apply`, which alone says what is legal:
every other turn, and the last one. Both ways lead to the same fold, and refuse the same logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec

from placet.core.approvals import Entry
from placet.core.calls import is_call
from placet.core.fold import apply
from placet.core.state import RunFold
from placet.facts.codec import JsonObject, canonical
from placet.facts.events import (
    AnyFact,
    ArgumentsValidated,
    CallEnded,
    CallHeld,
    CallsAllowed,
    CallsStarted,
    DecisionMade,
    Outcome,
    Record,
    RequestSent,
    ResponseReceived,
)
from placet.facts.ids import local_call_id

_FREE = [ResponseReceived, CallsAllowed, CallsStarted, CallEnded, RequestSent]
_ASKED = [ResponseReceived, CallHeld, DecisionMade, CallsStarted, CallEnded, RequestSent]
_PLAIN = (
    _FREE,
    _ASKED,
    [ResponseReceived, ArgumentsValidated, *_FREE[1:]],
    [ResponseReceived, ArgumentsValidated, *_ASKED[1:]],
)
"""What stands from one answer to the next where one call was made, with or without an approval; with
arguments that validation changed, or without."""
_RAN: tuple[Outcome, ...] = ("finished", "failed")


def fold_records(records: Iterable[Record], run: RunFold) -> None:
    """Fold what a log says into the run. A fact that cannot follow those before it raises IllegalTransition."""
    facts: list[Any] = [fact for record in records for fact in record.facts]  # Any: `kinds` says which
    kinds = list(map(type, facts))
    # A turn can be taken whole only once the next answer stands behind it: the answer acknowledges what the turn put
    # out, and with it the call objects that an open turn needs are gone.
    answers = [place for place, kind in enumerate(kinds) if kind is ResponseReceived]
    done, is_ready = 0, False
    for begin, end in pairwise(answers):
        shape = kinds[begin:end]
        if shape not in _PLAIN:
            continue
        if done < begin:
            _apply_all(run, facts[done:begin])
            done, is_ready = begin, _awaits_answer(run)
        if is_ready and _take_turn(run, facts[begin:end]):
            done = end
    _apply_all(run, facts[done:])


def _apply_all(run: RunFold, facts: Iterable[AnyFact]) -> None:
    for fact in facts:
        apply(run, fact)


def _awaits_answer(run: RunFold) -> bool:
    """Whether a request that carries all there is to send is on its way, and nothing came in between. So it is after
    each turn that is taken here, too."""
    return run.request == "sent" and not run.has_new_input and run.stopped is None and not run.has_ended


def _take_turn(run: RunFold, facts: list[Any]) -> bool:
    """Fold a turn whose kinds of facts are plain. False, and nothing was done, if what they say is not."""
    answer, request, ended, started = facts[0], facts[-1], facts[-2], facts[-3]
    call = local_call_id(run.path, run.turn + 1, 0)
    if started.calls != [call] or ended.call != call or ended.outcome not in _RAN:
        return False
    item, label = _only_call(answer.output)
    if not label or label in run.seen_labels:
        return False
    values: ArgumentsValidated | None = None
    if type(facts[1]) is ArgumentsValidated:
        values = facts.pop(1)
        if values.call != call:
            return False
    if len(facts) == len(_FREE):
        if facts[1].calls != [call]:
            return False
    else:
        held, decision = facts[1], facts[2]
        if held.call != call or not _is_plain_yes(held, decision):
            return False
        run.ledger.keep(_entry(item, label, held, decision, run.agent, values))
    output: JsonObject = {"type": "function_call_output", "call_id": label, "output": ended.output}
    run.turn += 1
    run.responses += 1
    run.usage.add(answer.usage)
    run.seen_labels.add(label)
    run.history += answer.output
    run.history.append(output)
    run.outbox, run.in_flight = [output], 1
    run.sent_after = request.after
    return True


def _only_call(output: list[JsonObject]) -> tuple[JsonObject, str]:
    """The item of the only call in an answer, and the provider's label for it; no label where it is not so simple."""
    calls = output if len(output) == 1 else [item for item in output if is_call(item)]
    if len(calls) == 1 and calls[0].get("type") == "function_call":
        label = calls[0].get("call_id")
        return calls[0], label if isinstance(label, str) else ""
    return {}, ""


def _is_plain_yes(held: CallHeld, decision: DecisionMade) -> bool:
    asked = (held.call, held.digest, 1, "approve")
    return (decision.call, decision.digest, decision.request, decision.verdict) == asked


def _entry(
    item: JsonObject,
    label: str,
    held: CallHeld,
    decision: DecisionMade,
    agent: str,
    validated: ArgumentsValidated | None,
) -> Entry:
    """What the ledger keeps of a call that was asked about once, and approved."""
    arguments = item.get("arguments")
    proposed = arguments if isinstance(arguments, str) else ""
    values = msgspec.UNSET if validated is None else canonical(validated.values).decode()
    return Entry(
        call=held.call,
        label=label,
        name=str(item.get("name") or ""),
        tool=held.tool,
        fingerprint=held.fingerprint,
        agent=agent,
        arguments=values if isinstance(values, str) else proposed,
        request=1,
        digest=held.digest,
        decision=decision,
        decide_by=held.expires_at if held.at_expiry == "reject" else None,
        proposed=proposed,
        values=values,
        summary=held.summary,
        irreversible=held.irreversible,
        undo_window=held.undo_window,
    )

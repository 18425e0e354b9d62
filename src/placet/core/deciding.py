"""From what people said to facts: which call they mean, and what a decision is worth where one already stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from placet.core.approvals import Entry, Ledger
from placet.core.state import Call, RunFold
from placet.core.table import CONCLUDABLE, RUNNABLE, Status
from placet.facts.codec import canonical, parse_arguments
from placet.facts.errors import NotPending, RunFinished, StaleApproval
from placet.facts.events import AnyFact, CallHeld, CallInDoubt, DecisionMade, DecisionRevoked, GrantMade, InChild
from placet.facts.ids import path_of


def describe(entry: Entry) -> str:
    shown = entry.arguments if len(entry.arguments) <= 60 else entry.arguments[:59] + "…"
    return f"{entry.call} {entry.name}({shown})" + (f" [{entry.label}]" if entry.label else "")


def not_pending(wanted: str, waiting: Sequence[Entry], problem: str = "is not pending") -> NotPending:
    listed = "; ".join(describe(entry) for entry in waiting) or "nothing"
    return NotPending(f"{wanted} {problem}. Pending: {listed}.", [entry.call for entry in waiting])


def find_by_id(ledger: Ledger, local: str) -> Entry:
    entry = ledger.entry(local)
    if entry is None or not ledger.is_open(local):
        raise not_pending(f"Call {local}", ledger.open_entries())
    return entry


def find_by_look(ledger: Ledger, label: str, name: str | None, arguments: str | None) -> Entry:
    """The one waiting call that an item made by hand can mean: by label, tool and arguments. None or several:
    NotPending."""
    waiting = ledger.open_entries()
    fitting = [
        entry
        for entry in waiting
        if label == entry.label
        and (name is None or name == entry.name)
        and (arguments is None or same_arguments(arguments, entry.arguments))
    ]
    if len(fitting) == 1:
        return fitting[0]
    problem = "fits several pending calls: name one by its id" if fitting else "is not pending"
    raise not_pending(f"The call '{label or name}'", waiting, problem)


def same_arguments(one: str, other: str) -> bool:
    if one == other:
        return True
    first, second = parse_arguments(one), parse_arguments(other)
    return first is not None and second is not None and canonical(first) == canonical(second)


def facts_to_append(run: RunFold, decisions: Iterable[DecisionMade | GrantMade]) -> list[AnyFact]:
    """The decisions that are new to this log. Equal ones are left out; a contradicting one raises StaleApproval."""
    known = {grant.id for grant in run.ledger.grants()}
    found: list[AnyFact] = []
    for decision in decisions:
        if isinstance(decision, GrantMade):
            if decision.id not in known:
                found.append(decision)
        elif is_new(run.ledger, decision, has_ended=run.has_ended):
            path = path_of(decision.call)
            found.append(InChild(path, decision) if path else decision)
    if found and run.has_ended:
        raise _finished()
    return found


def is_new(ledger: Ledger, decision: DecisionMade, *, has_ended: bool) -> bool:
    """Whether the log does not hold this decision yet. One that it cannot take any more is an error that says why."""
    entry = ledger.entry(decision.call)
    standing = ledger.past_decision(decision.call, decision.request) or (entry.decision if entry is not None else None)
    if standing is not None:
        if same_decision(standing, decision):
            return False
        if has_ended:
            raise RunFinished(f"The run has ended. {contradiction(standing, decision)}")
        raise StaleApproval(contradiction(standing, decision))
    if has_ended:
        raise _finished()
    if entry is None or not ledger.is_open(decision.call):
        raise not_pending(f"Call {decision.call}", ledger.open_entries())
    if decision.request != entry.request:
        raise StaleApproval(
            f"Question #{decision.request} about call {entry.call} is over: the call is asked about anew under "
            f"…:{entry.call}#{entry.request}. Look at that one, and decide there."
        )
    return True


def _finished() -> RunFinished:
    return RunFinished("The run has ended: nothing can be decided any more. Its recorded result stands.")


def same_decision(one: DecisionMade, other: DecisionMade) -> bool:
    """Whether two decisions say the same of a call, whoever made them and whenever."""
    return _substance(one) == _substance(other)


def _substance(decision: DecisionMade) -> tuple[object, ...]:
    return (
        decision.verdict,
        decision.request,
        decision.digest,
        decision.message,
        canonical([decision.arguments, decision.output]),
    )


def contradiction(standing: DecisionMade, late: DecisionMade) -> str:
    return (
        f"Call {standing.call} is decided: {spoken(standing)}. "
        f"The later word, {spoken(late)}, contradicts that and was not applied."
    )


def spoken(decision: DecisionMade) -> str:
    when = datetime.fromtimestamp(decision.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"'{decision.verdict}' by {decision.by or 'somebody unnamed'} at {when}"


def facts_to_revoke(
    run: RunFold, local: str, number: int, by: str | None, at: float, reason: str | None
) -> list[AnyFact]:
    """Take the approval of a call back, and ask about it anew: under a new number, so that no copy of the old
    approval counts. Only until the call is claimed; what cannot be taken back any more is an error that says why."""
    entry = run.ledger.entry(local)
    if entry is None:
        raise not_pending(f"Call {local}", run.ledger.open_entries())
    if number != entry.request:
        raise StaleApproval(f"Call {local} was asked about anew since that was decided: look again.")
    if entry.decision is None:
        raise not_pending(f"Call {local}", run.ledger.open_entries(), "has no decision that could be revoked")
    owner = run.find(path_of(local))
    call = owner.calls.get(local) if owner is not None else None
    if call is None or call.status not in RUNNABLE:
        raise _cannot_revoke(run, call, entry.decision)
    who = f"its approval was taken back by {by or 'somebody unnamed'}" + (f": {reason}" if reason else "")
    asked: CallHeld | CallInDoubt
    if call.status is Status.CLEARED:
        asked = CallInDoubt(local, call.digest, entry.tool, entry.fingerprint, who)
    else:
        until, outcome = call.expires_at, call.at_expiry
        asked = CallHeld(local, call.digest, entry.tool, entry.fingerprint, who, until, outcome)
    path, facts = path_of(local), (DecisionRevoked(local, by, at, reason), asked)
    return [InChild(path, fact) if path else fact for fact in facts]


def _cannot_revoke(run: RunFold, call: Call | None, decision: DecisionMade) -> StaleApproval | RunFinished:
    word = f"The decision about call {decision.call}, {spoken(decision)}, cannot be revoked"
    if run.has_ended:
        return RunFinished(f"The run has ended. {word} any more.")
    if call is not None and call.status in CONCLUDABLE:
        return StaleApproval(f"{word}: only an approval can, until its call begins.")
    began = "the call is at work" if call is not None and call.status is Status.STARTED else "the call is over"
    return StaleApproval(f"{word} any more: {began}.")

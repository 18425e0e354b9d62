"""From what people said to facts: which call they mean, and what a decision is worth where one already stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from placet.core.approvals import Entry, Ledger, Said, is_made_with
from placet.core.state import Call, RunFold
from placet.core.transitions import CONCLUDABLE, RUNNABLE, Status
from placet.facts.codec import canonical, parse_arguments
from placet.facts.errors import AccessDenied, NotPending, RunFinished, StaleApproval
from placet.facts.events import (
    AnyFact,
    CallHeld,
    CallInDoubt,
    DecisionMade,
    DecisionRevoked,
    GrantMade,
    GrantRevoked,
    InChild,
    InputAsked,
    PlainFact,
    RunForked,
    VoteCast,
    VoteTakenBack,
)
from placet.facts.ids import path_of, request_id


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
        and (arguments is None or is_about(arguments, entry))
    ]
    if len(fitting) == 1:
        return fitting[0]
    problem = "fits several pending calls: name one by its id" if fitting else "is not pending"
    raise not_pending(f"The call '{label or name}'", waiting, problem)


def is_about(arguments: str, entry: Entry) -> bool:
    """Whether these are the call's arguments: as they would run, or as the model wrote them."""
    written = entry.proposed if isinstance(entry.proposed, str) else entry.arguments
    return same_arguments(arguments, entry.arguments) or same_arguments(arguments, written)


def same_arguments(one: str, other: str) -> bool:
    if one == other:
        return True
    first, second = parse_arguments(one), parse_arguments(other)
    return first is not None and second is not None and canonical(first) == canonical(second)


def facts_to_append(run: RunFold, decisions: Iterable[Said]) -> list[AnyFact]:
    """The decisions that are new to this log. Equal ones are left out; a contradicting one raises StaleApproval. Votes
    are counted elsewhere (`core.casting`): for that one has to know the people."""
    found: list[AnyFact] = []
    for decision in decisions:
        if isinstance(decision, VoteCast):
            continue
        if isinstance(decision, GrantMade):
            if not run.ledger.has_had(decision.id):
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
    earlier = ledger.past_decision(decision.call, decision.request) or (entry.decision if entry is not None else None)
    if earlier is not None:
        if same_decision(earlier, decision):
            return False
        if has_ended:
            raise RunFinished(f"The run has ended. {contradiction(earlier, decision)}")
        raise StaleApproval(contradiction(earlier, decision))
    if has_ended:
        raise _finished()
    if entry is None or not ledger.is_open(decision.call):
        raise not_pending(f"Call {decision.call}", ledger.open_entries())
    if decision.request != entry.request:
        raise StaleApproval(
            f"Question #{decision.request} about call {entry.call} is over: the call is asked about anew under "
            f"{request_id('…', entry.call, entry.request)}. Look at that one, and decide there."
        )
    refuse_if_late(entry, decision.at)
    return True


def refuse_if_late(entry: Entry, at: float) -> None:
    """StaleApproval for a decision about a question that had ended by then, whether or not its end
    is recorded."""
    if entry.decide_by is not None and at >= entry.decide_by:
        raise StaleApproval(f"Call {entry.call} was to be decided by {time_text(entry.decide_by)}: it is too late.")


def _finished() -> RunFinished:
    return RunFinished("The run has ended: nothing can be decided any more. Its recorded result stands.")


def same_decision(one: DecisionMade, other: DecisionMade) -> bool:
    """Whether two decisions say the same of a call; their authors and times do not count."""
    return _substance(one) == _substance(other)


def _substance(decision: DecisionMade) -> tuple[object, ...]:
    return (
        decision.verdict,
        decision.request,
        decision.digest,
        decision.message,
        canonical([decision.arguments, decision.output]),
    )


def decisions_to_take(mine: Ledger, theirs: Ledger) -> tuple[list[DecisionMade], list[GrantMade]]:
    """What the other ledger's staged decisions add to this one's. StaleApproval where two people contradict each other.

    A grant goes with the decision that it was made with: it does not come along if that one was taken back here.
    """
    staged = {other.call: other for other in mine.staged() if isinstance(other, DecisionMade)}
    grants = [other for other in theirs.staged() if isinstance(other, GrantMade) and not mine.has_had(other.id)]
    decisions: list[DecisionMade] = []
    for other in theirs.staged():
        if not isinstance(other, DecisionMade):
            continue
        before, entry = staged.get(other.call), theirs.entry(other.call)
        if before is None:
            decisions += [other] if _is_new_decision(mine, other) else []
        elif not _is_of_one_person(before, other):
            _require_agreement(before, other)
        elif _is_later_decision(before, other):
            decisions.append(other)
        elif entry is not None:
            grants = [grant for grant in grants if not is_made_with(grant, other, entry)]
    return decisions, grants


def _require_agreement(one: DecisionMade, other: DecisionMade) -> None:
    """Between two people no time decides: which of them is right is for people to say."""
    if not same_decision(one, other):
        raise StaleApproval(contradiction(one, other))


def _is_new_decision(ledger: Ledger, other: DecisionMade) -> bool:
    """Whether the log holds no decision about the call. Another one than this is StaleApproval."""
    entry = ledger.entry(other.call)
    logged = entry.decision if entry is not None else None
    if logged is not None and not same_decision(logged, other):
        raise StaleApproval(contradiction(logged, other))
    return logged is None


def _is_of_one_person(one: DecisionMade, other: DecisionMade) -> bool:
    return one.by is not None and one.by == other.by  # who gives no name may be anybody


def _is_later_decision(before: DecisionMade, other: DecisionMade) -> bool:
    """Whether the second of two decisions of one person counts: the newer one, and where the times do not tell, the no.
    The answer is the same whichever of them is here first."""
    if before.at != other.at and before.at > 0 and other.at > 0:
        return other.at > before.at
    if "reject" in (before.verdict, other.verdict):
        return before.verdict != "reject"
    if not same_decision(before, other):
        raise StaleApproval(contradiction(before, other))
    return False


def contradiction(earlier: DecisionMade, late: DecisionMade) -> str:
    return (
        f"Call {earlier.call} is decided: {decision_text(earlier)}. "
        f"The later decision, {decision_text(late)}, contradicts that and was not applied."
    )


def decision_text(decision: DecisionMade) -> str:
    return f"'{decision.verdict}' by {decision.by or 'an unnamed person'} at {time_text(decision.at)}"


def time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def facts_to_revoke(
    run: RunFold, local: str, number: int, by: str | None, at: float, reason: str | None
) -> list[AnyFact]:
    """Take the approval of a call back, and all that it did: the grant that was made with it, and the calls that this
    grant let through and that have not begun. They are asked about again: under a new number, so that no copy of the
    old approval counts. Only until the call is claimed; what cannot be taken back any more is an error that says
    why."""
    voter = _voter_taking_back(run.ledger.entry(local), number, by)
    if (taken := _taken_back(run.ledger.entry(local), number, by, voter, at, reason)) is not None:
        return [InChild(path_of(local), taken) if path_of(local) else taken]
    entry, decision = _revocable(run, local, number)
    who = f"its approval was taken back by {by or 'an unnamed person'}" + (f": {reason}" if reason else "")
    made = [grant.id for grant in run.ledger.grants() if is_made_with(grant, decision, entry)]
    facts: list[AnyFact] = [GrantRevoked(grant, by, at, reason) for grant in made]
    for owner, each in _not_begun(run):
        is_let_through = each.decision is not None and each.decision.grant in made
        if each.id == local or is_let_through:
            without = voter if each.id == local else msgspec.UNSET
            facts += asked_anew(owner, each, who, DecisionRevoked(each.id, by, at, reason), without=without)
    return facts


def _voter_taking_back(entry: Entry | None, number: int, by: str | None) -> str | None:
    """Whose vote is taken back. Under a requirement those may who voted, and who cast a vote for somebody else:
    AccessDenied for others."""
    if entry is None or entry.request != number or entry.open_ballot is None:
        return by
    if entry.decision is not None and entry.decision.grant is not None:
        return by
    digest = entry.digest if entry.decision is None else entry.decision.digest  # an edit voids the votes before it
    voter = entry.open_ballot.voter_for(by, digest)
    if voter is msgspec.UNSET:
        raise AccessDenied(
            f"Nothing was taken back: {by or 'an unnamed person'} has no vote on call {entry.call}. Who voted can take "
            "their vote back; others place a hold."
        )
    return voter


def _taken_back(
    entry: Entry | None, number: int, by: str | None, voter: str | None, at: float, reason: str | None
) -> VoteTakenBack | None:
    """A vote is all that there is to take back, where the question is not decided yet."""
    if entry is None or entry.request != number or entry.decision is not None:
        return None
    ballot = entry.open_ballot
    if ballot is None:
        return None
    other = voter if voter != by else None
    return VoteTakenBack(entry.call, number, by, ballot.time_after(voter, at), reason, other)


def _revocable(run: RunFold, local: str, number: int) -> tuple[Entry, DecisionMade]:
    """What the ledger knows of a call whose approval can still be taken back, and that approval; otherwise an error
    that says why it cannot."""
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
    return entry, entry.decision


def _not_begun(run: RunFold) -> Iterator[tuple[RunFold, Call]]:
    """The calls, at any depth, that were approved and have not begun, or not begun again."""
    for owner in run.family():
        yield from ((owner, call) for call in owner.calls.values() if call.status in RUNNABLE and call.decision)


FORKED = "the run was forked: what was approved in the other one and had not begun is asked about anew"


def facts_to_fork(run: RunFold, origin: str, at: float) -> list[AnyFact]:
    """The first facts of a copy of the run. One yes must not count twice: approvals that were not carried out, and
    standing ones that hold for the run, stay with the original. What was begun stays begun, and a no stays a no."""
    own_yes = [grant for grant in run.ledger.grants() if grant.scope == "run" and grant.verdict == "approve"]
    facts: list[AnyFact] = [RunForked(origin), *(GrantRevoked(grant.id, None, at, FORKED) for grant in own_yes)]
    for owner, call in _not_begun(run):
        facts += asked_anew(owner, call, FORKED, DecisionRevoked(call.id, None, at, FORKED), votes_stand=False)
    for owner, call in run.waiting():  # a vote is a yes in parts
        entry = run.ledger.entry(call.id)
        ballot = entry.open_ballot if entry is not None else None
        if ballot is not None and ballot.votes:
            facts += asked_anew(owner, call, FORKED, None, votes_stand=False)
    return facts


def asked_anew(
    owner: RunFold,
    call: Call,
    why: str,
    revoked: DecisionRevoked | None,
    *,
    votes_stand: bool = True,
    without: str | msgspec.UnsetType | None = msgspec.UNSET,
) -> list[AnyFact]:
    """The facts by which a call that has not begun loses its approval and is asked about under a new number. Under a
    requirement the votes stand, except those of one person."""
    entry = owner.ledger.entry(call.id)
    assert entry is not None, "what was approved is in the ledger"
    asked = _same_question(call, entry, why, revoked)
    facts: list[PlainFact] = [asked] if revoked is None else [revoked, asked]
    ballot = entry.open_ballot
    if ballot is not None:
        is_edit = entry.decision is not None and entry.decision.verdict == "edit"  # it voided what was said before
        earlier = ballot if votes_stand and not is_edit else msgspec.structs.replace(ballot, votes=())
        facts.append(earlier.again(call.id, without=without))
    return [InChild(owner.path, fact) if owner.path else fact for fact in facts]


def _same_question(
    call: Call, entry: Entry, why: str, revoked: DecisionRevoked | None
) -> CallHeld | CallInDoubt | InputAsked:
    """What was asked about the call, once more."""
    until, outcome = call.expires_at, call.at_expiry
    if revoked is not None and until is not None and until <= revoked.at:  # the first question's time is over
        until = outcome = None
    about = (call.id, entry.digest, entry.tool, entry.fingerprint)
    if call.status in (Status.CLEARED, Status.IN_DOUBT):
        return CallInDoubt(*about, why)
    if call.status is Status.SUPPLIED:
        return InputAsked(*about, call.questions or {}, call.asked_state, until, outcome)
    rules = call.policy.rules if call.policy is not None else None
    return CallHeld(*about, why, until, outcome, entry.summary, entry.irreversible, entry.undo_window, rules)


def _cannot_revoke(run: RunFold, call: Call | None, decision: DecisionMade) -> StaleApproval | RunFinished:
    sentence = f"The decision about call {decision.call}, {decision_text(decision)}, cannot be revoked"
    if run.has_ended:
        return RunFinished(f"The run has ended. {sentence} any more.")
    if call is not None and call.status in CONCLUDABLE:
        return StaleApproval(f"{sentence}: only an approval can, until its call begins.")
    began = "the call is at work" if call is not None and call.status is Status.STARTED else "the call is over"
    return StaleApproval(f"{sentence} any more: {began}.")

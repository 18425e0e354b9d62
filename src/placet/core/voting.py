"""Part of the fold: how requirements and votes change the state. What votes amount to is counted in `core.votes`.

The fold knows no people, so it does not count: it keeps what was said about what. Whoever appends a decision counts,
and so does the last look before a call is claimed.
"""

from __future__ import annotations

from placet.core.ballot import Ballot, voter_of
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts.errors import IllegalTransition
from placet.facts.events import ApproversRequired, LadderSet, RungClimbed, VoteCast, VoteTakenBack


def approvers_required(run: RunFold, fact: ApproversRequired) -> None:
    call = _asked_about(run, fact.call)
    if any(vote.call != call.id or vote.digest != call.digest for vote in fact.votes):
        raise IllegalTransition(f"Votes about something else do not stand for call {call.id}.")
    if fact.arguments is not None:
        call.edited = fact.arguments
    ballot = Ballot(
        requirement=fact.requirement,
        request=call.request,
        votes=tuple(fact.votes),
        arguments=fact.arguments,
        editor=fact.editor,
    )
    run.ledger.count(call.id, ballot, call.effective_text)


def vote_cast(run: RunFold, fact: VoteCast) -> None:
    call = _asked_about(run, fact.call)
    if fact.request != call.request or (fact.digest != call.digest and fact.verdict != "edit"):
        raise IllegalTransition(f"The vote about call {call.id} is about something else than what waits.")
    run.ledger.count(call.id, _ballot(run, call).with_vote(fact))


def vote_taken_back(run: RunFold, fact: VoteTakenBack) -> None:
    call = _asked_about(run, fact.call)
    ballot = _ballot(run, call)
    if fact.request != call.request or all(voter_of(vote) != voter_of(fact) for vote in ballot.votes):
        raise IllegalTransition(f"There is no such vote about call {call.id} that could be taken back.")
    run.ledger.count(call.id, ballot.without(fact))


def ladder_set(run: RunFold, fact: LadderSet) -> None:
    call = _asked_about(run, fact.call)
    call.ladder, call.climbed = tuple(fact.rungs), 0


def rung_climbed(run: RunFold, fact: RungClimbed) -> None:
    call = run.calls.get(fact.call)
    if call is None or call.status not in (Status.HELD, Status.ELICITED):
        raise IllegalTransition(f"Call {fact.call} does not wait: nobody is told that it does.")
    if fact.place != call.climbed or fact.place >= len(call.ladder):
        raise IllegalTransition(f"Rung {fact.place} of the ladder of call {call.id} is not its next one.")
    call.climbed += 1


def _asked_about(run: RunFold, call_id: str) -> Call:
    call = run.calls.get(call_id)
    if call is None:
        raise IllegalTransition(f"There is no call {call_id} in the open turn.")
    if call.status not in (Status.HELD, Status.IN_DOUBT):
        raise IllegalTransition(f"Call {call.id} is {call.status.value}: nobody votes on it.")
    return call


def _ballot(run: RunFold, call: Call) -> Ballot:
    entry = run.ledger.entry(call.id)
    ballot = entry.open_ballot if entry is not None else None
    if ballot is None:
        raise IllegalTransition(f"Call {call.id} needs one word of anybody, and no votes.")
    return ballot

"""From votes to facts: what somebody's vote is worth where others have voted, and what all of them amount to.

Rule of this file: the vote that fulfils a requirement and the decision are written together. Whoever reads decisions
reads them as before; code that claims a call counts again, with the people as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from placet.core.approvals import Entry, Ledger, is_of_one_voter
from placet.core.ballot import Ballot, voter_of
from placet.core.deciding import describe, not_pending, refuse_if_late, time_text
from placet.core.four_eyes import guest_of, is_demanded
from placet.core.rotations import on_call
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.core.votes import Electorate, Person, Tally, Vote, Way, owner_in, tally, why_not_yet
from placet.facts.codec import JsonObject, canonical
from placet.facts.errors import AccessDenied, RunFinished, StaleApproval, UserError
from placet.facts.events import (
    AnyFact,
    ApproversRequired,
    Author,
    CallHeld,
    DecisionMade,
    GrantMade,
    InChild,
    Pattern,
    PlainFact,
    Verdict,
    VoteCast,
)
from placet.facts.ids import path_of, request_id
from placet.facts.requirements import PARTS, Assurance, Part, Requirement, Step, least_sure, without_signature
from placet.facts.voting_settings import NO_SETTINGS, Delegation, VotingSettings

_WAY: dict[Verdict, Way] = {"approve": "approve", "edit": "approve", "respond": "approve", "reject": "deny"}


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the store says at the moment of the count."""

    people: Mapping[str, Person] = {}
    four_eyes: Sequence[Pattern] = ()
    settings: VotingSettings = NO_SETTINGS
    """Who votes for whom, and who is on call."""
    judge: Callable[[str, JsonObject], bool] | None = None
    """Whether a predicate holds, where something evaluates them. None: none does."""


def delegations_at(settings: VotingSettings, at: float) -> list[Delegation]:
    """Who votes for whom at that time."""
    return [each for each in settings.delegations if each.begins <= at < each.until]


def names_in(root: RunFold, votes: Iterable[VoteCast]) -> set[str]:
    """The people whom a count of these votes has to know."""
    found = {root.started_by, guest_of(root)}
    for vote in votes:
        entry = root.ledger.entry(vote.call)
        ballot = entry.ballot if entry is not None else None
        for each in (vote, *(ballot.votes if ballot is not None else ())):
            found |= {each.by, each.on_behalf_of}
        found |= {ballot.editor} if ballot is not None else set()
    return {name for name in found if name is not None}


# -- counting ---------------------------------------------------------------------------------------------------------


def requirement_of(entry: Entry, ballot: Ballot, four_eyes: Sequence[Pattern]) -> Requirement:
    """What counts: what was asked for, and where four eyes are demanded, nobody who started the run."""
    if not is_demanded(four_eyes, entry.agent, entry.name):
        return ballot.requirement
    return with_starter_kept_out(ballot.requirement)


def with_starter_kept_out(requirement: Requirement) -> Requirement:
    """The same for people who neither started the run nor own the guest whose run it is: four eyes."""
    if requirement.all_of:
        return Requirement((), all_of=tuple(map(with_starter_kept_out, requirement.all_of)))
    alternatives = tuple(tuple(map(_others_only, steps)) for steps in requirement.alternatives)
    return Requirement(alternatives)  # four eyes are two people: nobody goes ahead alone


def _others_only(step: Step) -> Step:
    kept = tuple(part for part in PARTS if part in {"starter", "guest_owner", *step.distinct_from})
    return msgspec.structs.replace(step, distinct_from=kept)


def electorate_of(root: RunFold, entry: Entry, ballot: Ballot, known: Known, editor: str | None = None) -> Electorate:
    parts: dict[Part, str | None] = {"starter": root.started_by}
    if ballot.arguments is not None:
        parts["editor"] = ballot.editor
    elif editor is not None:
        parts["editor"] = editor
    guest = guest_of(root)
    if guest is not None:
        parts["guest_owner"] = owner_in(known.people, guest)
    return Electorate(
        known.people, parts, frozenset(PARTS) - parts.keys(), _judge_of(root, entry, ballot, known), _on_call_of(known)
    )


def _on_call_of(known: Known) -> Callable[[str, float], str | None]:
    def found(name: str, at: float) -> str | None:
        rotation = known.settings.rotations.get(name)
        return None if rotation is None else on_call(rotation, at)

    return found


def _judge_of(root: RunFold, entry: Entry, ballot: Ballot, known: Known) -> Callable[[str, Vote], bool]:
    """Whether a predicate holds for a vote on this call."""
    judge = known.judge

    def holds(predicate: str, vote: Vote) -> bool:
        return judge is not None and judge(predicate, _seen_by_predicates(root, entry, ballot, known, vote))

    return holds


def _seen_by_predicates(root: RunFold, entry: Entry, ballot: Ballot, known: Known, vote: Vote) -> JsonObject:
    owner = root.find(path_of(entry.call))
    call = owner.calls.get(entry.call) if owner is not None else None
    arguments = ballot.arguments if ballot.arguments is not None else (call.effective if call is not None else None)
    person = known.people.get(vote.voter) if vote.voter is not None else None
    return {
        "reviewer": {
            "name": vote.voter or "",
            "groups": sorted(person.groups) if person is not None else [],
            "assurance": vote.assurance,
        },
        "args": arguments or {},
        "agent": entry.agent,
        "tool": entry.name,
        "started_by": root.started_by or "",
        "reason": vote.reason or "",
    }


def as_counted(vote: VoteCast) -> Vote:
    return Vote(
        way=_WAY[vote.verdict],
        by=vote.by,
        on_behalf_of=vote.on_behalf_of,
        assurance=vote.assurance if vote.signed is not None else without_signature(vote.assurance),
        substance=substance_of(vote),
        reason=vote.reason,
        breaks_glass=vote.breaks_glass,
        at=vote.at,
    )


def as_vote(
    decision: DecisionMade,
    ballot: Ballot,
    grants: Sequence[GrantMade] = (),
    *,
    via: str | None = None,
    assurance: Assurance = "none",
    on_behalf_of: str | None = None,
    breaks_glass: bool = False,
) -> VoteCast:
    """What a person decided, as a vote: they can decide no more than their part."""
    at = ballot.time_after(on_behalf_of or decision.by, decision.at)
    return VoteCast(
        call=decision.call,
        request=decision.request,
        digest=decision.digest,
        verdict=decision.verdict,
        by=decision.by,
        at=at,
        reason=decision.reason,
        message=decision.message,
        arguments=decision.arguments,
        output=decision.output,
        via=via,
        on_behalf_of=on_behalf_of,
        breaks_glass=breaks_glass,
        assurance=assurance if decision.signed is not None else without_signature(assurance),
        grant=grants[0] if grants else None,
        signed=decision.signed,
    )


def substance_of(said: VoteCast | DecisionMade) -> str:
    """What exactly a yes is about. The call as it was asked about is nothing special."""
    match said.verdict:
        case "respond":
            return f"respond {canonical(said.output).decode()}"
        case "edit":
            return f"edit {said.digest}"
        case _:
            return ""


def count(root: RunFold, entry: Entry, ballot: Ballot, known: Known, more: Sequence[VoteCast] = ()) -> Tally:
    """What the votes of a ballot, and some more, amount to."""
    cast = (*ballot.votes, *more)
    editor = next((vote.by for vote in cast if vote.verdict == "edit"), None)
    electorate = electorate_of(root, entry, ballot, known, editor)
    return tally(requirement_of(entry, ballot, known.four_eyes), map(as_counted, cast), electorate)


def missing_here(root: RunFold, entry: Entry, ballot: Ballot, votes: Sequence[VoteCast]) -> int | None:
    """How many approvals are missing, where names are enough to tell; None where they are not."""
    if any(step.groups or step.assurance != "none" or step.predicate for step in ballot.requirement.steps()):
        return None
    found = count(root, entry, msgspec.structs.replace(ballot, votes=tuple(votes)), Known())
    return found.fewest_missing


# -- casting ----------------------------------------------------------------------------------------------------------


def facts_of_votes(
    root: RunFold,
    votes: Sequence[VoteCast],
    known: Known,
    judged: Mapping[str, Requirement | None] | None = None,
) -> list[AnyFact]:
    """The facts that these votes amount to at the end of this log. What the log holds already is left out; one that it
    cannot take any more is StaleApproval, one that could not count is AccessDenied, and then nothing is appended.

    `judged`: per call, what its arguments need as an edit among these votes made them.
    """
    by_call: dict[str, list[VoteCast]] = {}
    for vote in votes:
        if is_new_vote(root.ledger, vote, has_ended=root.has_ended):
            by_call.setdefault(vote.call, []).append(vote)
    found: list[AnyFact] = []
    for call, cast in by_call.items():
        entry, path = root.ledger.entry(call), path_of(call)
        assert entry is not None, "what can be voted on is in the ledger"
        facts = _facts_about(root, entry, sorted(cast, key=lambda vote: vote.at), known, judged or {})
        found += [InChild(path, fact) if path else fact for fact in facts]
    return found


def is_new_vote(ledger: Ledger, vote: VoteCast, *, has_ended: bool) -> bool:
    """Whether the log neither holds this vote nor a newer one of the same person. An error if it is too late for it."""
    entry = ledger.entry(vote.call)
    decided = ledger.past_decision(vote.call, vote.request)
    if decided is None and entry is not None and entry.request == vote.request:
        decided = entry.decision
    if decided is not None:
        is_same = _WAY[decided.verdict] == _WAY[vote.verdict] and substance_of(decided) == substance_of(vote)
        if is_same or _is_known(ledger, vote):
            return False
        problem = contradicted(decided, vote)
        raise RunFinished(f"The run has ended. {problem}") if has_ended else StaleApproval(problem)
    if has_ended:
        raise RunFinished("The run has ended: nobody votes any more. Its recorded result stands.")
    if entry is None:
        raise not_pending(f"Call {vote.call}", ledger.open_entries())
    if vote.request != entry.request or (vote.digest != entry.digest and vote.verdict != "edit"):
        raise StaleApproval(
            f"Question #{vote.request} about call {entry.call} is over: the call is asked about anew under "
            f"{request_id('…', entry.call, entry.request)}. Look at that one, and vote there."
        )
    if not ledger.is_open(vote.call):
        raise not_pending(f"Call {vote.call}", ledger.open_entries())
    refuse_if_late(entry, vote.at)
    return not _is_known(ledger, vote)


def _is_known(ledger: Ledger, vote: VoteCast) -> bool:
    """Whether a vote of the same person that says the same, or is newer, is in the log."""
    entry = ledger.entry(vote.call)
    ballot = entry.open_ballot if entry is not None else None
    if ballot is None:
        return False
    if any(voter_of(taken) == voter_of(vote) and taken.at >= vote.at for taken in ballot.taken):
        return True
    theirs = [before for before in ballot.votes if voter_of(before) == voter_of(vote)]
    newest = max(theirs, key=lambda before: before.at, default=None)
    return newest is not None and (newest.at > vote.at or _says_the_same(newest, vote))


def _says_the_same(before: VoteCast, vote: VoteCast) -> bool:
    means = (before.verdict, substance_of(before), before.assurance, _bounds(before.grant), before.breaks_glass)
    return means == (vote.verdict, substance_of(vote), vote.assurance, _bounds(vote.grant), vote.breaks_glass)


def contradicted(decided: DecisionMade, vote: VoteCast) -> str:
    return (
        f"Call {decided.call} is decided: '{decided.verdict}' by {decided.by or 'an unnamed person'} at "
        f"{time_text(decided.at)}. The later vote, {spoken_vote(vote)}, contradicts that and was not counted."
    )


def spoken_vote(vote: VoteCast) -> str:
    return f"'{vote.verdict}' by {vote.by or 'an unnamed person'} at {time_text(vote.at)}"


def _facts_about(
    root: RunFold, entry: Entry, votes: Sequence[VoteCast], known: Known, judged: Mapping[str, Requirement | None]
) -> list[PlainFact]:
    ballot = entry.open_ballot
    assert ballot is not None, "votes are cast where there is a requirement"
    edits = [vote for vote in votes if vote.verdict == "edit"]
    if edits:
        if len(votes) > 1:
            raise StaleApproval(_both(entry, votes[0], votes[-1]))
        return _facts_of_edit(root, entry, ballot, edits[0], known, judged.get(entry.call, ballot.requirement))
    _refuse_contradiction(root, entry, ballot, votes, known)
    requirement = requirement_of(entry, ballot, known.four_eyes)
    before = list(ballot.votes)
    for vote in votes:
        _refuse_if_it_cannot_count(requirement, before, vote, electorate_of(root, entry, ballot, known), known)
        before.append(vote)
    found = count(root, entry, ballot, known, votes)
    return [*votes, *_decided(entry, found, [*ballot.votes, *votes])]


def _refuse_if_it_cannot_count(
    requirement: Requirement, before: Sequence[VoteCast], vote: VoteCast, electorate: Electorate, known: Known
) -> None:
    why = _why_no_delegate(vote, electorate, known) or why_not_yet(
        requirement, map(as_counted, before), as_counted(vote), electorate
    )
    if why is not None:
        raise AccessDenied(f"Nothing was decided: the vote of {vote.by or 'an unnamed person'} cannot count: {why}.")


def _why_no_delegate(vote: VoteCast, electorate: Electorate, known: Known) -> str | None:
    """Why this person cannot vote for somebody else; None: they do not, or they were asked to."""
    if vote.on_behalf_of is None:
        return None
    if vote.assurance == "none":
        return "a name in a program votes for nobody else: vote at the desk"
    if vote.by is None or not any(
        electorate.identity(vote.on_behalf_of) == electorate.identity(each.principal)
        and electorate.identity(vote.by) == electorate.identity(each.delegate)
        for each in delegations_at(known.settings, vote.at)
    ):
        return f"{vote.on_behalf_of} has not given their vote to {vote.by or 'an unnamed person'} at this moment"
    return None


def _refuse_contradiction(root: RunFold, entry: Entry, ballot: Ballot, votes: Sequence[VoteCast], known: Known) -> None:
    """Where two people say at once what would each decide alone, neither is preferred."""
    yes = [vote for vote in votes if vote.verdict != "reject"]
    no = [vote for vote in votes if vote.verdict == "reject"]
    if not yes or not no:
        return
    alone = [count(root, entry, ballot, known, each).verdict for each in (yes, no)]
    if alone == ["approve", "deny"]:
        raise StaleApproval(_both(entry, yes[-1], no[-1]))


def _both(entry: Entry, one: VoteCast, other: VoteCast) -> str:
    return (
        f"Two people contradict each other about {describe(entry)}: {spoken_vote(one)}, and {spoken_vote(other)}. "
        "Nothing was decided."
    )


def _decided(entry: Entry, found: Tally, votes: Sequence[VoteCast]) -> list[GrantMade | DecisionMade]:
    """What fulfils the requirement, as facts: the decision in the name of who completed it, and the grant, if all of
    those who count want the same one."""
    if found.verdict is None:
        return []
    counted = [vote for vote in votes if as_counted(vote) in found.counted]
    last = max(counted, key=lambda vote: vote.at)
    decision = DecisionMade(
        call=last.call,
        request=entry.request,
        digest=last.digest,
        verdict=last.verdict,
        by=last.by,
        at=last.at,
        reason=last.reason,
        message=last.message,
        arguments=last.arguments,
        output=last.output,
        via=last.via,
        assurance=least_sure([vote.assurance for vote in counted]),
    )
    grant = last.grant
    if grant is None or any(_bounds(vote.grant) != _bounds(grant) for vote in counted):
        return [decision]
    authors = [Author(vote.by, vote.assurance, vote.on_behalf_of) for vote in counted]
    return [msgspec.structs.replace(grant, by=last.by, at=last.at, authors=authors), decision]


def _bounds(grant: GrantMade | None) -> tuple[object, ...] | None:
    if grant is None:
        return None
    return grant.verdict, grant.scope, canonical(grant.arguments), grant.until, grant.uses, grant.terms


def _facts_of_edit(
    root: RunFold, entry: Entry, ballot: Ballot, edit: VoteCast, known: Known, needed: Requirement | None
) -> list[PlainFact]:
    """An edit is its author's vote for what they made of the call. Where that is not enough, what they made of it is
    asked about in the place of the first question, and votes about that do not count any more."""
    call = _call(root, entry)
    if edit.arguments is None or call.status is not Status.HELD:
        raise UserError(f"Call {entry.call} may have happened: it is run again as it was, or given up, and not edited.")
    fresh = Ballot(requirement=needed or Requirement(), request=entry.request, arguments=edit.arguments, editor=edit.by)
    requirement = requirement_of(entry, fresh, known.four_eyes)
    _refuse_if_it_cannot_count(requirement, [], edit, electorate_of(root, entry, ballot.anew(0), known), known)
    found = count(root, entry, fresh, known, [edit])
    if found.verdict is not None:
        changed = [] if needed == ballot.requirement else [ApproversRequired(entry.call, fresh.requirement)]
        return [*changed, edit, *_decided(entry, found, [edit])]
    who = edit.by or "an unnamed person"
    why = f"{who} changed the arguments, and that needs others' approval" + (f": {edit.reason}" if edit.reason else "")
    asked = CallHeld(
        entry.call,
        edit.digest,
        entry.tool,
        entry.fingerprint,
        why,
        call.expires_at,
        call.at_expiry,
        undo_window=entry.undo_window,
        rules=call.policy.rules if call.policy is not None else None,
        irreversible=entry.irreversible,  # but not the sentence: it was about other arguments
    )
    vote = msgspec.structs.replace(edit, request=entry.request + 1, verdict="approve", arguments=None)
    return [asked, fresh.again(entry.call), vote]


def _call(root: RunFold, entry: Entry) -> Call:
    owner = root.find(path_of(entry.call))
    assert owner is not None, "what waits is in an open run"
    return owner.calls[entry.call]


# -- states that meet -------------------------------------------------------------------------------------------------


def votes_to_take(root: RunFold, mine: Ledger, theirs: Ledger) -> list[VoteCast]:
    """What the other ledger's staged votes add to this one's: those of other people, and of the same person the newer.
    StaleApproval where two people contradict each other and each would decide, as far as names tell."""
    found: list[VoteCast] = []
    for vote in theirs.staged():
        if not isinstance(vote, VoteCast) or not _can_take(mine, vote):
            continue
        before = next((each for each in mine.staged_votes(vote.call) if is_of_one_voter(each, vote)), None)
        if before is None or is_newer(vote, before):
            found.append(vote)
    for call in {vote.call for vote in found}:
        _refuse_contradiction_here(root, mine, call, [vote for vote in found if vote.call == call])
    return found


def _can_take(mine: Ledger, vote: VoteCast) -> bool:
    """Whether the vote is about what waits here. One that contradicts a decision of the log is StaleApproval."""
    entry = mine.entry(vote.call)
    if entry is None or entry.decision is not None or entry.request != vote.request:
        return entry is not None and entry.decision is not None and is_new_vote(mine, vote, has_ended=False)
    return True


def is_newer(vote: VoteCast, before: VoteCast) -> bool:
    """Whether the first of two votes of one person counts: the newer one, and where the times do not tell, the no."""
    if vote.at != before.at and vote.at > 0 and before.at > 0:
        return vote.at > before.at
    return vote.verdict == "reject" and before.verdict != "reject"


def _refuse_contradiction_here(root: RunFold, mine: Ledger, call: str, new: Sequence[VoteCast]) -> None:
    entry = mine.entry(call)
    ballot = entry.open_ballot if entry is not None else None
    if entry is not None and ballot is not None:
        kept = [each for each in mine.staged_votes(call) if not any(is_of_one_voter(each, vote) for vote in new)]
        _refuse_contradiction(root, entry, ballot, [*kept, *new], Known())


# -- whether a decision is carried by its votes -----------------------------------------------------------------------


def why_not_carried(
    root: RunFold, entry: Entry, decision: DecisionMade, grant: GrantMade | None, known: Known
) -> str | None:
    """Why a decision under a requirement does not count: not enough votes carry it, with the people as they are now.
    None: it counts, or nothing more than one word is needed."""
    ballot = entry.open_ballot
    if ballot is None or decision.request != ballot.request:
        return None
    if decision.grant is not None:
        if grant is None:
            return None  # that it is gone is another check's to say
        found = count_authors(root, entry, ballot, grant, known)
    else:
        cast = tuple(vote for vote in ballot.votes if vote.digest == decision.digest)
        found = count(root, entry, msgspec.structs.replace(ballot, votes=cast), known)
    if found.verdict == _WAY[decision.verdict] and found.substance == substance_of(decision):
        return None
    return "it is not carried by the votes that it needs"


def count_authors(root: RunFold, entry: Entry, ballot: Ballot, grant: GrantMade, known: Known) -> Tally:
    """What a standing decision amounts to here: as if all who made it had voted on this very call."""
    authors = grant.authors or [Author(grant.by)]
    way: Way = "deny" if grant.verdict == "reject" else "approve"
    votes = [Vote(way, each.by, each.on_behalf_of, without_signature(each.assurance), at=grant.at) for each in authors]
    electorate = electorate_of(root, entry, ballot, known)
    parts: dict[Part, str | None] = {**electorate.parts, "grant_author": grant.by}
    played = msgspec.structs.replace(electorate, parts=parts, unplayed=electorate.unplayed - {"grant_author"})
    return tally(requirement_of(entry, ballot, known.four_eyes), votes, played)


def authors_of(grants: Iterable[GrantMade]) -> set[str]:
    """The names of those who made standing decisions."""
    return {
        name
        for grant in grants
        for each in (grant.authors or [Author(grant.by)])
        for name in (each.by, each.on_behalf_of)
        if name is not None
    }

"""Counting votes: what a question's requirement, its votes and the people of the store amount to. Pure.

The rules, each in one place here:

- One person has one vote, whatever accounts they use and however many steps there are. The newest counts;
  where the times do not tell, the no.
- A delegate's vote is their principal's. Who casts several, their own and others', has only one of them counted: a no
  before a yes, otherwise the newest. Two approvals are two human beings.
- A vote counts if its voter may vote *now*: somebody who was switched off or left a group counts no longer.
- An alternative is approved when its steps can be filled with different people. Who fills which step is not fixed by
  the order of votes: somebody of two groups fills the step where they are needed.
- Enough denials of one step decide, early or late: a no is always safe.
- If a change of people fulfils both at once, the no wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.core.policy_asks import BOTH
from placet.facts.requirements import ASSURANCES, PARTS, Assurance, Part, Requirement, Step, is_at_least, part_text
from placet.facts.voting_settings import ON_CALL

Way: TypeAlias = Literal["approve", "deny"]


class Vote(msgspec.Struct, frozen=True, gc=False):
    """One person's vote on one question, as it counts."""

    way: Way
    by: str | None
    """None: somebody without a name. All of those are one person."""
    on_behalf_of: str | None = None
    """Whose vote a delegate gave: it counts as that person's."""
    assurance: Assurance = "none"
    substance: str = ""
    """What exactly is approved: an answer in the tool's place is not the same as the call itself, and two different
    answers are two. Approvals of different substance do not add up."""
    reason: str | None = None
    breaks_glass: bool = False
    at: float = 0.0
    """When it was cast; 0: nobody knows."""

    @property
    def voter(self) -> str | None:
        return self.on_behalf_of or self.by


class Person(msgspec.Struct, frozen=True, gc=False):
    identity: str
    """The human being. Two accounts of one human being have the same."""
    groups: frozenset[str] = frozenset()
    is_active: bool = True
    owner: str | None = None
    """Of a guest: the person who answers for it."""


class Electorate(msgspec.Struct, frozen=True, gc=False):
    """Who may vote on this call, and which parts people play in it."""

    people: Mapping[str, Person]
    parts: Mapping[Part, str | None]
    """Who plays a part, as a name. None, or missing here: somebody unknown, who could be anybody."""
    unplayed: frozenset[Part] = frozenset()
    """Parts that nobody plays in this call: nobody edited it, say."""
    holds: Callable[[str, Vote], bool] = lambda _predicate, _vote: False
    """Whether a step's predicate holds for a vote. Where nothing evaluates it, it does not: what is unclear does not
    count."""
    on_call: Callable[[str, float], str | None] = lambda _rotation, _at: None
    """Who was on call in a rotation at that time. Their vote counts if they were when they cast it."""

    def identity(self, name: str) -> str:
        return identity_in(self.people, name)


def identity_in(people: Mapping[str, Person], name: str) -> str:
    """The human being behind a name, as far as it is known."""
    person = people.get(name)
    return person.identity if person is not None else name.strip().casefold()


def owner_in(people: Mapping[str, Person], guest: str) -> str | None:
    """Who answers for a guest; None: nobody knows."""
    person = people.get(guest)
    return None if person is None else person.owner


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What the votes amount to."""

    verdict: Way | None
    substance: str = ""
    """Of the approvals that fulfil the requirement."""
    counted: tuple[Vote, ...] = ()
    """The votes by which it is decided."""
    missing: tuple[tuple[StepMissing, ...], ...] = ()
    """Per alternative, what is missing of its steps. Empty when it is decided, and where there are parts."""
    parts: tuple[Tally, ...] = ()
    """What each of several requirements amounts to, where all of them have to be fulfilled."""

    @property
    def fewest_missing(self) -> int:
        """How many approvals are missing at least; 0: it is decided. One vote may serve several requirements."""
        if self.parts and self.verdict is None:
            return max(1, *(part.fewest_missing for part in self.parts))
        return min((sum(step.count for step in steps) for steps in self.missing), default=0)


class StepMissing(msgspec.Struct, frozen=True, gc=False):
    step: Step
    place: int
    """Which step of its alternative it is."""
    have: int
    is_open: bool
    """The steps before it have their approvals."""

    @property
    def count(self) -> int:
        return self.step.approve - self.have


def latest(votes: Iterable[Vote], electorate: Electorate) -> list[Vote]:
    """The last vote of each person, oldest first, whatever order they came in: a state may bring an older one late."""
    of_voter: dict[str | None, Vote] = {}
    for vote in sorted(votes, key=_rank):
        _put_last(of_voter, _identity(vote.voter, electorate), vote)
    of_caster: dict[str | None, Vote] = {}
    for vote in of_voter.values():
        caster = _identity(vote.by, electorate)
        before = of_caster.get(caster)
        if before is None or before.way != "deny" or vote.way == "deny":
            _put_last(of_caster, caster, vote)
    return list(of_caster.values())


def _put_last(found: dict[str | None, Vote], key: str | None, vote: Vote) -> None:
    found.pop(key, None)
    found[key] = vote


def _identity(name: str | None, electorate: Electorate) -> str | None:
    return None if name is None else electorate.identity(name)


def _rank(vote: Vote) -> tuple[float, bool]:
    """Sorts votes so that the last one counts: the newer one, and where the times do not tell, the no."""
    is_no = vote.way == "deny"
    if vote.at > 0:
        return vote.at, is_no
    return (math.inf if is_no else -math.inf), is_no


def tally(requirement: Requirement, votes: Iterable[Vote], electorate: Electorate) -> Tally:
    """Count. `votes` are those that were not taken back, in the order in which they were cast."""
    return _tally(requirement, latest(votes, electorate), electorate)


def _tally(requirement: Requirement, standing: Sequence[Vote], electorate: Electorate) -> Tally:
    if requirement.all_of:
        return _all_of(requirement.all_of, standing, electorate)
    denied = _denied(requirement, standing, electorate)
    if denied is not None:
        return denied
    alone = next((vote for vote in standing if why_not_alone(requirement, vote, electorate) is None), None)
    if alone is not None:
        return Tally("approve", alone.substance, (alone,))
    approvals = _by_substance(vote for vote in standing if vote.way == "approve")
    for substance, fitting in approvals.items():
        for steps in requirement.alternatives:
            filled = _fill(steps, fitting, electorate)
            if all(len(of_step) == step.approve for step, of_step in zip(steps, filled, strict=True)):
                return Tally("approve", substance, tuple(vote for of_step in filled for vote in of_step))
    return Tally(None, missing=tuple(_missing(steps, approvals, electorate) for steps in requirement.alternatives))


def _denied(requirement: Requirement, standing: Sequence[Vote], electorate: Electorate) -> Tally | None:
    """A denial counts before any approval: where both are reached at once, no beats yes."""
    denials = [vote for vote in standing if vote.way == "deny"]
    for step in requirement.steps():
        against = [vote for vote in denials if may_deny(step, vote, electorate)]
        if len(against) >= step.deny:
            return Tally("deny", counted=tuple(against))
    return None


def _all_of(parts: Sequence[Requirement], standing: Sequence[Vote], electorate: Electorate) -> Tally:
    """All requirements have to be fulfilled, by approvals of one substance; a denial of one of them denies."""
    for part in parts:
        found = _tally(part, standing, electorate)
        if found.verdict == "deny":
            return found
    denials = [vote for vote in standing if vote.way == "deny"]
    nearest: tuple[Tally, ...] = tuple(_tally(part, denials, electorate) for part in parts)
    fewest: int | None = None
    for substance, fitting in _by_substance(vote for vote in standing if vote.way == "approve").items():
        every = tuple(_tally(part, [*denials, *fitting], electorate) for part in parts)
        if all(each.verdict == "approve" for each in every):
            counted = tuple(dict.fromkeys(vote for each in every for vote in each.counted))
            return Tally("approve", substance, counted)
        missing = sum(each.fewest_missing for each in every)
        if fewest is None or missing < fewest:
            nearest, fewest = every, missing
    return Tally(None, parts=nearest)


def _by_substance(votes: Iterable[Vote]) -> dict[str, list[Vote]]:
    found: dict[str, list[Vote]] = {}
    for vote in votes:
        found.setdefault(vote.substance, []).append(vote)
    return found


def why_not_alone(requirement: Requirement, vote: Vote, electorate: Electorate) -> str | None:
    """Why this vote does not let a person go ahead alone; None: it does.

    It needs a reason and a name. Going ahead alone lifts the number of people and their groups. It lifts separation of
    duties only where the requirement says so, and never the assurance.
    """
    if not vote.breaks_glass or vote.way != "approve":
        return "it is a vote like others"
    if requirement.all_of:
        every = (why_not_alone(part, vote, electorate) for part in requirement.all_of)
        return next((why for why in every if why is not None), None)
    if requirement.break_glass is None:
        return "going ahead alone is not allowed here"
    if not (vote.reason or "").strip():
        return "going ahead alone needs a reason"
    if vote.by is None:
        return "going ahead alone needs a name"
    if vote.on_behalf_of is not None:
        return "going ahead alone cannot be done for somebody else"
    return why_not(glass_step(requirement), vote, electorate)


def glass_step(requirement: Requirement) -> Step:
    """What a person who goes ahead alone has to be."""
    kept = {part for step in requirement.steps() for part in step.distinct_from}
    parts = tuple(part for part in PARTS if part in kept and part not in requirement.break_glass_lifts)
    every = [max((step.assurance for step in steps), key=ASSURANCES.index) for steps in requirement.alternatives]
    least: Assurance = min(every, key=ASSURANCES.index)
    return Step(groups=requirement.break_glass or (), distinct_from=parts, assurance=least)


def why_not(step: Step, vote: Vote, electorate: Electorate) -> str | None:
    """Why this approval does not count in this step; None: it does."""
    why = _why_no_member(step, vote, electorate)
    if why is not None:
        return why
    for part in step.distinct_from:
        if part in electorate.unplayed:
            continue
        player = electorate.parts.get(part)
        if player is None:
            return f"it is not known who is the {part_text(part)}, and somebody else is demanded"
        if vote.by is None:
            return f"somebody other than the {part_text(part)} is demanded, and this vote has no name"
        involved = {electorate.identity(name) for name in (vote.by, vote.on_behalf_of) if name is not None}
        if electorate.identity(player) in involved:
            return f"{vote.voter} is the {part_text(part)}, and somebody else is demanded"
    if step.predicate is not None and not electorate.holds(step.predicate, vote):
        return f"the condition «{step.predicate}» does not hold"
    return None


def may_deny(step: Step, vote: Vote, electorate: Electorate) -> bool:
    """A no asks only for membership: nobody is kept from saying no to what they started themselves."""
    return _why_no_member(step, vote, electorate) is None


def _why_no_member(step: Step, vote: Vote, electorate: Electorate) -> str | None:
    for name in (vote.by, vote.on_behalf_of):
        person = electorate.people.get(name) if name is not None else None
        if person is not None and not person.is_active:
            return f"{name} is switched off"
    if not is_at_least(vote.assurance, step.assurance):
        return f"the assurance «{vote.assurance}» is below «{step.assurance}»"
    if step.groups:
        if vote.assurance == "none":
            return "a name in a program is not a member of a group: vote at the desk"
        voter = electorate.people.get(vote.voter) if vote.voter is not None else None
        if voter is None or not any(_is_in(name, voter, vote.at, electorate) for name in step.groups):
            return f"{vote.voter or 'a vote without a name'} is not in {' or '.join(step.groups)}"
    return None


def _is_in(names: str, voter: Person, at: float, electorate: Electorate) -> bool:
    """Whether somebody was in all of these groups. In a rotation's group is who was on call when they voted."""
    return all(_is_member(name, voter, at, electorate) for name in names.split(BOTH))


def _is_member(group: str, voter: Person, at: float, electorate: Electorate) -> bool:
    if group in voter.groups or not group.startswith(ON_CALL):
        return group in voter.groups
    on_call = electorate.on_call(group.removeprefix(ON_CALL), at)
    return on_call is not None and electorate.identity(on_call) == voter.identity


def _fill(steps: Sequence[Step], votes: Sequence[Vote], electorate: Electorate) -> list[list[Vote]]:
    """As many places of the steps as different people can fill, earlier steps first.

    A person may fit several steps. Taking the first that fits could use up, in the first step, the only person who fits
    the second. So a place that finds nobody free asks others to move: the augmenting paths of bipartite matching.
    """
    places = [number for number, step in enumerate(steps) for _ in range(step.approve)]
    fits = [[why_not(step, vote, electorate) is None for vote in votes] for step in steps]
    place_of: dict[int, int] = {}

    def find(place: int, tried: set[int]) -> bool:
        for index in range(len(votes)):
            if index in tried or not fits[places[place]][index]:
                continue
            tried.add(index)
            if index not in place_of or find(place_of[index], tried):
                place_of[index] = place
                return True
        return False

    for place in range(len(places)):
        find(place, set())
    filled: list[list[Vote]] = [[] for _ in steps]
    for index, place in sorted(place_of.items()):
        filled[places[place]].append(votes[index])
    return filled


def _missing(
    steps: Sequence[Step], approvals: Mapping[str, Sequence[Vote]], electorate: Electorate
) -> tuple[StepMissing, ...]:
    found = []
    is_open = True
    for place, of_step in enumerate(_nearest(steps, approvals, electorate)):
        if len(of_step) < steps[place].approve:
            found.append(StepMissing(steps[place], place, len(of_step), is_open))
            is_open = False
    return tuple(found)


def _nearest(
    steps: Sequence[Step], approvals: Mapping[str, Sequence[Vote]], electorate: Electorate
) -> list[list[Vote]]:
    """The steps filled by the votes for the substance that is nearest to being approved."""
    nothing: list[list[Vote]] = [[] for _ in steps]
    every = [_fill(steps, votes, electorate) for votes in approvals.values()]
    return max(every, key=lambda filled: sum(map(len, filled)), default=nothing)


def can_be_fulfilled(requirement: Requirement, electorate: Electorate) -> bool:
    """Whether enough people could approve, if all whom the electorate knows did. Where no group is asked for, people
    whom it does not know may come, too."""
    places = sum(step.approve for step in requirement.steps())
    known = [Vote("approve", name, assurance="signed") for name in electorate.people]
    others = [Vote("approve", f"somebody else {number}", assurance="signed") for number in range(places)]
    return tally(requirement, [*known, *others], electorate).verdict == "approve"


def why_not_yet(requirement: Requirement, votes: Iterable[Vote], vote: Vote, electorate: Electorate) -> str | None:
    """Why this vote cannot be cast now; None: it can. A denial is never too early; an approval waits for its step."""
    cast = list(votes)
    second = why_second_hat(cast, vote, electorate)
    if second is not None:
        return second
    if vote.way == "deny":
        if any(may_deny(step, vote, electorate) for step in requirement.steps()):
            return None
        return "; ".join(
            dict.fromkeys(filter(None, (_why_no_member(s, vote, electorate) for s in requirement.steps())))
        )
    if vote.breaks_glass:
        return why_not_alone(requirement, vote, electorate)
    others = [each for each in latest([*cast, vote], electorate) if each is not vote]
    if requirement.all_of:  # it helps if it counts anywhere
        every = [_why_not_here(part, others, vote, electorate) for part in requirement.all_of]
        return None if None in every else "; ".join(dict.fromkeys(filter(None, every)))
    return _why_not_here(requirement, others, vote, electorate)


def why_second_hat(votes: Iterable[Vote], vote: Vote, electorate: Electorate) -> str | None:
    """Why a person cannot cast this vote after another one that they cast as somebody else; None: they can."""
    for before in latest(votes, electorate):
        is_same_hand = _identity(before.by, electorate) == _identity(vote.by, electorate)
        if is_same_hand and _identity(before.voter, electorate) != _identity(vote.voter, electorate):
            whose = f"as {before.voter}" if before.on_behalf_of else "in their own name"
            return f"{vote.by} has voted on this {whose}, and one person has one vote: take that one back first"
    return None


def _why_not_here(requirement: Requirement, others: Sequence[Vote], vote: Vote, electorate: Electorate) -> str | None:
    reasons: list[str] = []
    approvals = _by_substance(each for each in others if each.way == "approve")
    for steps in requirement.alternatives:
        filled = _nearest(steps, approvals, electorate)
        for number, step in enumerate(steps):
            why = why_not(step, vote, electorate)
            is_open = all(len(filled[before]) == steps[before].approve for before in range(number))
            if why is None and is_open:
                return None
            reasons.append(why or "the step before this one has not got its approvals yet")
    return "; ".join(dict.fromkeys(reasons))

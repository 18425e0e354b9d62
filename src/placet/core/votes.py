"""Counting votes: what a question's requirement, its votes and the people of the store amount to. Pure.

The rules, each in one place here:

- One person has one vote, whatever accounts they use and however many steps there are. The newest counts;
  where the times do not tell, the no.
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

from placet.facts.requirements import Assurance, Part, Requirement, Step, is_at_least, part_text

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


class Electorate(msgspec.Struct, frozen=True, gc=False):
    """Who may vote on this call, and which parts people play in it."""

    people: Mapping[str, Person]
    parts: Mapping[Part, str | None]
    """Who plays a part, as a name. A part that is missing here is played by nobody; None: by somebody unknown."""
    holds: Callable[[str, Vote], bool] = lambda _predicate, _vote: False
    """Whether a step's predicate holds for a vote. Without a policy none does: what is unclear does not count."""

    def identity(self, name: str) -> str:
        person = self.people.get(name)
        return person.identity if person is not None else name.strip().casefold()


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What the votes amount to."""

    verdict: Way | None
    substance: str = ""
    """Of the approvals that fulfil the requirement."""
    counted: tuple[Vote, ...] = ()
    """The votes by which it is decided."""
    missing: tuple[tuple[StepMissing, ...], ...] = ()
    """Per alternative, what is missing of its steps. Empty when it is decided."""


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
    last: dict[str | None, Vote] = {}
    for vote in sorted(votes, key=_rank):
        key = None if vote.voter is None else electorate.identity(vote.voter)
        last.pop(key, None)
        last[key] = vote
    return list(last.values())


def _rank(vote: Vote) -> tuple[float, bool]:
    """Sorts votes so that the last one counts: the newer one, and where the times do not tell, the no."""
    is_no = vote.way == "deny"
    if vote.at > 0:
        return vote.at, is_no
    return (math.inf if is_no else -math.inf), is_no


def tally(requirement: Requirement, votes: Iterable[Vote], electorate: Electorate) -> Tally:
    """Count. `votes` are those that were not taken back, in the order in which they were cast."""
    standing = latest(votes, electorate)
    denials = [vote for vote in standing if vote.way == "deny"]
    for step in requirement.steps():
        against = [vote for vote in denials if may_deny(step, vote, electorate)]
        if len(against) >= step.deny:
            return Tally("deny", counted=tuple(against))
    alone = _alone(requirement, standing, electorate)
    if alone is not None:
        return Tally("approve", alone.substance, (alone,))
    approvals = _by_substance(vote for vote in standing if vote.way == "approve")
    for substance, fitting in approvals.items():
        for steps in requirement.alternatives:
            filled = _fill(steps, fitting, electorate)
            if all(len(of_step) == step.approve for step, of_step in zip(steps, filled, strict=True)):
                return Tally("approve", substance, tuple(vote for of_step in filled for vote in of_step))
    return Tally(None, missing=tuple(_missing(steps, approvals, electorate) for steps in requirement.alternatives))


def _by_substance(votes: Iterable[Vote]) -> dict[str, list[Vote]]:
    found: dict[str, list[Vote]] = {}
    for vote in votes:
        found.setdefault(vote.substance, []).append(vote)
    return found


def _alone(requirement: Requirement, votes: Iterable[Vote], electorate: Electorate) -> Vote | None:
    """The vote of a person who goes ahead alone, where the requirement allows it. It needs a reason and a name."""
    allowed = requirement.break_glass
    if allowed is None:
        return None
    glass = Step(groups=allowed)
    for vote in votes:
        is_meant = vote.breaks_glass and vote.way == "approve" and bool(vote.reason) and vote.voter is not None
        if is_meant and may_deny(glass, vote, electorate):
            return vote
    return None


def why_not(step: Step, vote: Vote, electorate: Electorate) -> str | None:
    """Why this approval does not count in this step; None: it does."""
    why = _why_no_member(step, vote, electorate)
    if why is not None:
        return why
    for part in step.distinct_from:
        if part not in electorate.parts:
            continue
        player = electorate.parts[part]
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
        if voter is None or voter.groups.isdisjoint(step.groups):
            return f"{vote.voter or 'a vote without a name'} is not in {' or '.join(step.groups)}"
    return None


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
    if vote.way == "deny":
        if any(may_deny(step, vote, electorate) for step in requirement.steps()):
            return None
        return "; ".join(
            dict.fromkeys(filter(None, (_why_no_member(s, vote, electorate) for s in requirement.steps())))
        )
    if vote.breaks_glass:
        if _alone(requirement, [vote], electorate) is not None:
            return None
        return "going ahead alone is not allowed here, or has no reason: it needs one"
    reasons: list[str] = []
    others = [each for each in latest([*votes, vote], electorate) if each is not vote]
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

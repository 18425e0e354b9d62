"""Requirements: what a question needs before it is decided. Votes fulfil them; `core.votes` counts.

A requirement is a list of alternatives. Any one of them, fulfilled, decides. An alternative is a list of steps: the
second step begins when the first has its approvals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from placet.facts.errors import UserError

Assurance: TypeAlias = Literal["none", "token", "chat", "password", "sso", "passkey", "signed"]
"""How sure we are that it was this person, weakest first. `signed` is about this very call, `passkey` about a
session."""

ASSURANCES: tuple[Assurance, ...] = get_args(Assurance)

Part: TypeAlias = Literal["starter", "guest_owner", "editor", "grant_author"]
"""A part that somebody plays in a call. Separation of duties names parts."""

PARTS: tuple[Part, ...] = get_args(Part)


SURE_BY: dict[str, str] = {
    "none": "by name alone",
    "token": "by a token",
    "chat": "by a linked chat account",
    "password": "by a password",
    "sso": "by single sign-on",
    "passkey": "by a passkey",
    "signed": "by a signature of this call",
}
"""How people read it."""


def least_sure(given: Sequence[Assurance]) -> Assurance:
    return min(given, key=ASSURANCES.index, default="none")


def without_signature(given: Assurance) -> Assurance:
    """As sure as it gets where this very call was not signed. A standing decision is about other calls, so it counts as
    no more, whatever its authors signed."""
    return "passkey" if given == "signed" else given


def is_at_least(given: Assurance, wanted: Assurance) -> bool:
    return ASSURANCES.index(given) >= ASSURANCES.index(wanted)


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """So many approvals, or so many denials, of people who may vote in this step."""

    approve: int = 1
    deny: int = 1
    groups: tuple[str, ...] = ()
    """A member of any of these groups may vote. Empty: everybody who may decide the call at all."""
    distinct_from: tuple[Part, ...] = ()
    assurance: Assurance = "none"
    predicate: str | None = None
    """An expression over reviewer, call and reason. The policy evaluates it."""


class Requirement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    alternatives: tuple[tuple[Step, ...], ...] = ((Step(),),)
    break_glass: tuple[str, ...] | None = None
    """The groups of which one person may go ahead alone, with a reason. Empty: everybody who may decide the call.
    None: nobody may."""
    break_glass_lifts: tuple[Part, ...] = ()
    """The parts that do not keep such a person from it. The assurance that the steps ask for is never lifted."""
    all_of: tuple[Requirement, ...] = ()
    """Several requirements, all of which have to be fulfilled. Then there are no alternatives here, so that code that
    does not know this field never finds it fulfilled."""

    def steps(self) -> Iterable[Step]:
        for part in self.all_of:
            yield from part.steps()
        for steps in self.alternatives:
            yield from steps


def all_of(requirements: Iterable[Requirement]) -> Requirement | None:
    """What fulfils all of them: one vote may serve several. None: there are none."""
    flat = [part for each in requirements for part in (each.all_of or (each,))]
    different = tuple(dict.fromkeys(flat))
    if len(different) > 1:  # one approval of anybody is part of every other one
        different = tuple(each for each in different if each != ANYBODY) or (ANYBODY,)
    if len(different) > 1:
        return Requirement(alternatives=(), all_of=different)
    return different[0] if different else None


def needs_text(requirement: Requirement) -> str:
    """In one line: «2 of finance, not the starter · then 1 of board, or 1 of directors»."""
    if requirement.all_of:
        return "; and ".join(map(needs_text, requirement.all_of))
    return ", or ".join(" · then ".join(map(step_text, steps)) for steps in requirement.alternatives)


def step_text(step: Step) -> str:
    count = f"{step.approve} of {' or '.join(step.groups)}" if step.groups else str(step.approve)
    kept_out = [f"not the {part_text(part)}" for part in step.distinct_from]
    least = [f"at least by {step.assurance}"] if step.assurance != "none" else []
    condition = [f"where {step.predicate}"] if step.predicate is not None else []
    return ", ".join([count, *kept_out, *least, *condition])


def part_text(part: Part) -> str:
    return {"guest_owner": "guest's owner", "grant_author": "standing decision's author"}.get(part, part)


ANYBODY = Requirement()
"""Without a requirement of its own a question needs one approval or one denial of anybody who may decide it."""


class Needs:
    """A requirement as a program writes it.

    `Needs(2, group="finance")` needs two approvals of finance. `Needs(1, group="finance") | Needs(1, group="board")`
    needs one of either. `Needs(1, group="team").then(1, group="release")` needs one of each, in this order.
    """

    __slots__ = ("requirement",)

    def __init__(
        self,
        approve: int = 1,
        *,
        deny: int = 1,
        group: str | Sequence[str] = (),
        distinct_from: Part | Sequence[Part] = (),
        assurance: Assurance = "none",
        predicate: str | None = None,
        break_glass: bool | str | Sequence[str] = False,
        break_glass_lifts: Part | Sequence[Part] = (),
    ) -> None:
        step = _step(approve, deny, group, distinct_from, assurance, predicate)
        who, lifts = _who_may_break(break_glass), _parts("break_glass_lifts", break_glass_lifts)
        if lifts and who is None:
            raise UserError("Needs(break_glass_lifts=…) is for where break_glass=… lets somebody go ahead alone.")
        self.requirement = Requirement(((step,),), who, lifts)

    def then(
        self,
        approve: int = 1,
        *,
        deny: int = 1,
        group: str | Sequence[str] = (),
        distinct_from: Part | Sequence[Part] = (),
        assurance: Assurance = "none",
        predicate: str | None = None,
    ) -> Needs:
        """One more step, which begins when the steps so far have their approvals."""
        step = _step(approve, deny, group, distinct_from, assurance, predicate)
        if self.requirement.all_of:
            raise UserError("A further step belongs to one of the requirements, not to several at once.")
        longer = tuple((*steps, step) for steps in self.requirement.alternatives)
        return _needs(msgspec.structs.replace(self.requirement, alternatives=longer))

    def __or__(self, other: Needs) -> Needs:
        """Either of the two decides. Only if both allow to go ahead alone may somebody do so."""
        mine, theirs = self.requirement, other.requirement
        if mine.all_of or theirs.all_of:
            raise UserError("Requirements that all have to be fulfilled cannot be one of several alternatives.")
        groups = _groups_of_both(mine.break_glass, theirs.break_glass)
        lifted = tuple(part for part in mine.break_glass_lifts if part in theirs.break_glass_lifts)
        return _needs(Requirement(mine.alternatives + theirs.alternatives, groups, lifted))

    def __and__(self, other: Needs) -> Needs:
        """Both have to be fulfilled. One vote may serve both."""
        both = all_of([self.requirement, other.requirement])
        assert both is not None, "two are given"
        return _needs(both)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Needs) and self.requirement == other.requirement

    def __hash__(self) -> int:
        return hash(self.requirement)

    def __repr__(self) -> str:
        return f"Needs({self.requirement.all_of or self.requirement.alternatives!r})"


def _needs(requirement: Requirement) -> Needs:
    made = Needs()
    made.requirement = requirement
    return made


def _step(
    approve: int,
    deny: int,
    group: str | Sequence[str],
    distinct_from: Part | Sequence[Part],
    assurance: Assurance,
    predicate: str | None,
) -> Step:
    for name, number in (("approve", approve), ("deny", deny)):
        given: object = number
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise UserError(f"Needs({name}=…) is a whole number of people, at least 1, not {number!r}.")
    known = _parts("distinct_from", distinct_from)
    if assurance not in ASSURANCES:
        raise UserError(f"assurance={assurance!r} is not known: choose from {', '.join(ASSURANCES)}.")
    groups = _texts(group)
    if not all(name.strip() for name in groups):
        raise UserError(f"Needs(group=…) names groups of people, not {group!r}: nobody is in such a group.")
    return Step(approve, deny, groups, known, assurance, predicate)


def _parts(name: str, given: Part | Sequence[Part]) -> tuple[Part, ...]:
    """In the order in which they stand above."""
    parts = _texts(given)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise UserError(f"{name}={unknown[0]!r} is not known: choose from {', '.join(PARTS)}.")
    return tuple(part for part in PARTS if part in parts)


def _groups_of_both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Who may go ahead alone where either of two requirements decides: those whom both let. Nobody, if only one does,
    or if no group is in both."""
    if one is None or other is None:
        return None
    if not one or not other:
        return one or other
    return tuple(group for group in one if group in other) or None


def _who_may_break(given: bool | str | Sequence[str]) -> tuple[str, ...] | None:
    if given is False:
        return None
    return () if given is True else _texts(given)


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)

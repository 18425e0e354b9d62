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

    def steps(self) -> Iterable[Step]:
        return (step for steps in self.alternatives for step in steps)


def needs_text(requirement: Requirement) -> str:
    """In one line: «2 of finance, not the starter · then 1 of board, or 1 of directors»."""
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
    ) -> None:
        step = _step(approve, deny, group, distinct_from, assurance, predicate)
        self.requirement = Requirement(((step,),), _who_may_break(break_glass))

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
        longer = tuple((*steps, step) for steps in self.requirement.alternatives)
        return _needs(msgspec.structs.replace(self.requirement, alternatives=longer))

    def __or__(self, other: Needs) -> Needs:
        """Either of the two decides. Only if both allow to go ahead alone may somebody do so."""
        mine, theirs = self.requirement, other.requirement
        both = None if mine.break_glass is None or theirs.break_glass is None else mine.break_glass + theirs.break_glass
        return _needs(Requirement(mine.alternatives + theirs.alternatives, both))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Needs) and self.requirement == other.requirement

    def __hash__(self) -> int:
        return hash(self.requirement)

    def __repr__(self) -> str:
        return f"Needs({self.requirement.alternatives!r})"


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
    parts = _texts(distinct_from)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise UserError(f"distinct_from={unknown[0]!r} is not known: choose from {', '.join(PARTS)}.")
    if assurance not in ASSURANCES:
        raise UserError(f"assurance={assurance!r} is not known: choose from {', '.join(ASSURANCES)}.")
    groups = _texts(group)
    if not all(name.strip() for name in groups):
        raise UserError(f"Needs(group=…) names groups of people, not {group!r}: nobody is in such a group.")
    known = tuple(part for part in PARTS if part in parts)
    return Step(approve, deny, groups, known, assurance, predicate)


def _who_may_break(given: bool | str | Sequence[str]) -> tuple[str, ...] | None:
    if given is False:
        return None
    return () if given is True else _texts(given)


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)

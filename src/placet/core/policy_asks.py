"""Several requirements at once: what has to be so for all of them to be fulfilled. One vote may serve several.

A requirement is a list of alternatives, so «both» becomes a list of ways in which both can be fulfilled: by people who
serve both, or by some for the one and others for the other, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from placet.facts.requirements import ASSURANCES, PARTS, Assurance, Requirement, Step, all_of

Steps = tuple[Step, ...]
BOTH = " & "
"""Joins the names of groups of all of which a voter has to be a member. Code that does not know it finds nobody in
such a group: it asks for more, never for less."""


def united(one: Requirement | None, other: Requirement | None) -> Requirement | None:
    """What fulfils both. None: one word of anybody."""
    if one is None or other is None or one == other:
        return one if other is None else other if one is None else one
    if one.all_of or other.all_of:
        return all_of([one, other])
    ways: dict[Steps, None] = {}
    for mine in one.alternatives:
        for theirs in other.alternatives:
            for way in _both(mine, theirs):
                ways[way] = None
    lifted = tuple(part for part in one.break_glass_lifts if part in other.break_glass_lifts)
    return Requirement(tuple(ways), _who_may_break(one, other), lifted)


def _who_may_break(one: Requirement, other: Requirement) -> tuple[str, ...] | None:
    """Somebody may go ahead alone only where both allow it, and only who is allowed to by both."""
    if one.break_glass is None or other.break_glass is None:
        return None
    if not one.break_glass or not other.break_glass:
        return one.break_glass or other.break_glass
    return tuple(dict.fromkeys(_joined(a, b) for a in one.break_glass for b in other.break_glass))


def _both(mine: Steps, theirs: Steps) -> Iterator[Steps]:
    if len(mine) != 1 or len(theirs) != 1:
        yield (*mine, *theirs)  # ordered steps keep their order; then others are needed for the rest
        return
    one, other = mine[0], theirs[0]
    if _is_part_of(one, other):
        yield (_stricter(other, one),)
        return
    if _is_part_of(other, one):
        yield (_stricter(one, other),)
        return
    for shared in range(min(one.approve, other.approve), -1, -1):
        parts = [
            msgspec.structs.replace(step, approve=step.approve - shared)
            for step in (one, other)
            if step.approve > shared
        ]
        if shared:
            parts.append(msgspec.structs.replace(_serving_both(one, other), approve=shared))
        yield from dict.fromkeys((tuple(parts), tuple(reversed(parts))))


def _is_part_of(wide: Step, narrow: Step) -> bool:
    """Whether who may vote in the narrow step may vote in the wide one, and enough of them do."""
    if wide.predicate is not None and wide.predicate != narrow.predicate:
        return False
    is_wider = not wide.groups or (bool(narrow.groups) and set(narrow.groups) <= set(wide.groups))
    return is_wider and wide.approve <= narrow.approve


def _stricter(narrow: Step, wide: Step) -> Step:
    return msgspec.structs.replace(
        narrow,
        deny=min(narrow.deny, wide.deny),
        distinct_from=tuple(part for part in PARTS if part in (*narrow.distinct_from, *wide.distinct_from)),
        assurance=_higher(narrow.assurance, wide.assurance),
    )


def _serving_both(one: Step, other: Step) -> Step:
    if not one.groups or not other.groups:
        groups = one.groups or other.groups
    else:
        groups = tuple(dict.fromkeys(_joined(a, b) for a in one.groups for b in other.groups))
    predicates = [each for each in (one.predicate, other.predicate) if each is not None]
    made = _stricter(msgspec.structs.replace(one, groups=groups), other)
    return msgspec.structs.replace(made, predicate=" && ".join(f"({p})" for p in predicates) or None)


def _joined(one: str, other: str) -> str:
    names = dict.fromkeys([*one.split(BOTH), *other.split(BOTH)])
    return BOTH.join(sorted(names))


def _higher(one: Assurance, other: Assurance) -> Assurance:
    return max(one, other, key=ASSURANCES.index)


def raised(requirement: Requirement) -> Requirement:
    """The same with the highest assurance of its steps in all of them."""
    if requirement.all_of:
        return msgspec.structs.replace(requirement, all_of=tuple(map(raised, requirement.all_of)))
    highest = max((step.assurance for step in requirement.steps()), key=ASSURANCES.index)
    alternatives = tuple(
        tuple(msgspec.structs.replace(step, assurance=highest) for step in steps) for steps in requirement.alternatives
    )
    return msgspec.structs.replace(requirement, alternatives=alternatives)

"""Groups that are named somewhere, and that nobody is in: mostly a slip, so it is told, and never refused. An identity
provider may bring them later.
"""

from __future__ import annotations

from collections.abc import Iterable

from placet.core.policy import Policy
from placet.facts.requirements import Requirement
from placet.facts.voting_settings import ON_CALL
from placet.policy.source_map import did_you_mean
from placet.ports import DeskStore
from placet.stores.people import everybody


async def known_groups(store: DeskStore) -> frozenset[str] | None:
    """The groups that people are in, and those of who is on call. None: no people are known here, so that nothing can
    be said about a name."""
    people = await everybody(store)
    if not people:
        return None
    rotations = (await store.voting_settings()).rotations
    return frozenset(group for each in people.values() for group in each.groups) | {
        f"{ON_CALL}{name}" for name in rotations
    }


def nobody_in(names: Iterable[str], known: frozenset[str] | None) -> list[str]:
    """A sentence for each of these groups that nobody is in, with the one that may be meant."""
    if known is None:
        return []
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    return [" ".join(filter(None, (f"nobody is in a group '{name}'.", did_you_mean(name, known)))) for name in unknown]


def groups_without_people(policy: Policy, known: frozenset[str] | None) -> list[str]:
    """The same for all groups that a policy names, with its place."""
    found = [
        f"{policy.origin}:{rule.line}: rule '{rule.name}': {said}"
        for rule in policy.rules
        for said in nobody_in(_groups(rule.question.requirement), known)
    ]
    return found + [f"{policy.origin}: [change]: {said}" for said in nobody_in(_groups(policy.change), known)]


def _groups(requirement: Requirement | None) -> list[str]:
    if requirement is None:
        return []
    parts = (requirement, *requirement.all_of)
    alone = [group for part in parts for group in part.break_glass or ()]
    return [*(group for step in requirement.steps() for group in step.groups), *alone]

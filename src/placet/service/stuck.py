"""Questions that nobody can approve any more, since too few people are left who may."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from placet.core.approvals import Entry
from placet.core.ballot import Ballot
from placet.core.casting import Known, electorate_of, requirement_of
from placet.core.state import RunFold
from placet.core.votes import Electorate, Person, can_be_fulfilled
from placet.facts.requirements import PARTS, Requirement
from placet.facts.voting_settings import ON_CALL, VotingSettings
from placet.ports import DeskStore
from placet.stores.people import everybody


async def all_who_could(store: DeskStore) -> Known:
    """Everybody at the desk, at their best: whoever is ever on call is, and predicates hold."""
    settings = await store.voting_settings()
    people = at_their_best(await everybody(store), settings)
    four_eyes = await store.four_eyes()
    return Known(people=people, four_eyes=four_eyes, settings=settings, judge=lambda _predicate, _seen: True)


def at_their_best(people: Mapping[str, Person], settings: VotingSettings) -> Mapping[str, Person]:
    """The same people, with the groups of all rotations in which they take part."""
    found = dict(people)
    for name, rotation in settings.rotations.items():
        for each in rotation.people:
            person = found.get(each)
            if person is not None:
                found[each] = msgspec.structs.replace(person, groups=person.groups | {f"{ON_CALL}{name}"})
    return found


def is_stuck(run: RunFold, entry: Entry, ballot: Ballot, known: Known) -> bool:
    requirement = requirement_of(entry, ballot, known.four_eyes)
    return not can_be_fulfilled(requirement, electorate_of(run, entry, ballot, known))


def can_ever_be_fulfilled(requirement: Requirement, known: Known) -> bool:
    """Whether there are enough people for it, whoever starts the call."""
    electorate = Electorate(known.people, {}, frozenset(PARTS), lambda _predicate, _vote: True)
    return can_be_fulfilled(requirement, electorate)

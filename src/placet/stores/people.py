"""The people whom a store knows, as far as a count of votes needs them. A desk keeps them, as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from placet.core.votes import Person
from placet.facts.voting_settings import ON_CALL
from placet.ports import StoredRecord


class HasRecords(Protocol):
    async def record(self, kind: str, record_id: str) -> StoredRecord | None: ...

    async def records(
        self, kind: str, *, owner: str | None = None, after: str = "", limit: int = 1000
    ) -> list[StoredRecord]: ...


class _User(msgspec.Struct):
    name: str
    is_active: bool = True
    groups: tuple[str, ...] = ()
    role: str = "reviewer"
    same_as: str | None = None
    owner: str | None = None


def _person(record: StoredRecord) -> Person:
    user = msgspec.json.decode(record.data, type=_User)
    owner = user.owner if user.role == "guest" else user.name  # a person answers for what they propose themselves
    groups = frozenset(each for each in user.groups if not each.startswith(ON_CALL))  # nobody is put on call by hand
    return Person(user.same_as or user.name, groups, user.is_active, owner)


async def people_of(store: HasRecords, names: Iterable[str]) -> Mapping[str, Person]:
    found: dict[str, Person] = {}
    for name in sorted(set(names)):
        record = await store.record("user", name.strip().casefold())  # a program may write a name otherwise
        if record is not None:
            found[name] = _person(record)
    return found


async def everybody(store: HasRecords) -> Mapping[str, Person]:
    """All people whom the store knows."""
    found: dict[str, Person] = {}
    after = ""
    while page := await store.records("user", after=after):
        for record in page:
            found[record.id] = _person(record)
        after = page[-1].id
    return found

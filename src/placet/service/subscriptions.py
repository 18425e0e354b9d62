"""Subscriptions: who is told of what, how far each has been told, what is tried again, and what was given up.

All of it are records of the store, so every process on it sees the same, and a process that takes over knows it all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from placet.channels.webhook import check_address, new_secret
from placet.clock import Clock
from placet.facts.errors import LimitExceeded, UserError
from placet.facts.ids import mint
from placet.ports import DeskStore, StoredRecord

SUBSCRIPTION, CURSOR, PARKED, DEAD = "subscription", "outbox_cursor", "outbox_parked", "dead_letter"
MOST_SUBSCRIPTIONS = 100
MOST_DEAD = 1000
"""Letters that are kept for one subscription: the oldest go first."""
OLD_SECRET_SECONDS = 24 * 3600.0
"""How long the secret before the newest still signs, too."""

EventType: TypeAlias = Literal[
    "request.waiting",
    "request.escalated",
    "request.voted",
    "request.decided",
    "request.reopened",
    "request.closed",
    "run.ended",
    "run.stopped",
]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are told. An empty list is all; `*` and `?` stand for any letters in names."""

    events: list[EventType] = []
    agents: list[str] = []
    tools: list[str] = []
    groups: list[str] = []
    """Only questions that need the word of one of these groups."""

    def want(self, event: EventType, agent: str, tool: str | None, groups: Sequence[str]) -> bool:
        return (
            (not self.events or event in self.events)
            and _fits(self.agents, [agent])
            and (tool is None or _fits(self.tools, [tool]))
            and _fits(self.groups, groups)
        )


def _fits(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return not wanted or any(fnmatchcase(each, pattern) for each in found for pattern in wanted)


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    until: float | None = None
    """When it stops to sign; None: it is the newest."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    url: str
    secrets: list[Secret]
    filters: Filters
    created_at: float
    created_by: str | None = None
    shows_arguments: bool = False
    suspended: str | None = None
    """Why nothing is sent: the receiver is gone."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that did not get through at once, or at all."""

    id: str
    key: str
    """What it is about: messages with one key are sent in their order."""
    message_id: str
    type: str
    body: str
    tries: int
    next_at: float
    error: str


class Subscriptions:
    """What operators do about subscriptions."""

    def __init__(self, store: DeskStore, clock: Clock, allowed: Sequence[str]) -> None:
        self._store = store
        self._clock = clock
        self._allowed = allowed

    async def all(self) -> list[Subscription]:
        return [read_subscription(each.data) for each in await self._store.records(SUBSCRIPTION)]

    async def find(self, subscription_id: str) -> Subscription | None:
        found = await self._store.record(SUBSCRIPTION, subscription_id)
        return None if found is None else read_subscription(found.data)

    async def add(
        self, name: str, url: str, filters: Filters, *, by: str | None = None, shows_arguments: bool = False
    ) -> Subscription:
        """It begins with what happens from now on."""
        check_address(url, self._allowed)
        if not name.strip():
            raise UserError("A webhook has a name.")
        if len(await self.all()) >= MOST_SUBSCRIPTIONS:
            raise LimitExceeded(f"There are {MOST_SUBSCRIPTIONS} webhooks already: remove one first.")
        made = Subscription(
            id=mint("hook"),
            name=name.strip(),
            url=url,
            secrets=[Secret(key=new_secret())],
            filters=filters,
            created_at=self._clock.now(),
            created_by=by,
            shows_arguments=shows_arguments,
        )
        # The cursor first: a sender that finds the subscription finds where it begins.
        await self._store.add_record(cursor_record(made.id, await self._store.latest_sequence()))
        await self._store.add_record(StoredRecord(kind=SUBSCRIPTION, id=made.id, data=_dump(made)))
        return made

    async def remove(self, subscription_id: str) -> bool:
        found = await self._store.take_record(SUBSCRIPTION, subscription_id)
        for kind in (CURSOR, PARKED, DEAD):
            await self._store.remove_records(kind, subscription_id)
        return found is not None

    async def rotate(self, subscription_id: str) -> Subscription | None:
        """A new secret. The one before signs beside it for a day."""
        now = self._clock.now()

        def changed(found: Subscription) -> Subscription:
            before = Secret(key=found.secrets[0].key, until=now + OLD_SECRET_SECONDS)
            return msgspec.structs.replace(found, secrets=[Secret(key=new_secret()), before])

        return await self.change(subscription_id, changed)

    async def suspend(self, subscription_id: str, why: str | None) -> Subscription | None:
        return await self.change(subscription_id, lambda found: msgspec.structs.replace(found, suspended=why))

    async def change(
        self, subscription_id: str, changed: Callable[[Subscription], Subscription]
    ) -> Subscription | None:
        while (stored := await self._store.record(SUBSCRIPTION, subscription_id)) is not None:
            found = changed(read_subscription(stored.data))
            record = StoredRecord(kind=SUBSCRIPTION, id=found.id, data=_dump(found))
            if await self._store.replace_record(record, was=stored.data):
                return found
        return None

    async def dead(self, subscription_id: str) -> list[Letter]:
        return [read_letter(each) for each in await self._store.records(DEAD, owner=subscription_id)]

    async def parked(self, subscription_id: str) -> list[Letter]:
        return [read_letter(each) for each in await self._store.records(PARKED, owner=subscription_id)]

    async def send_again(self, subscription_id: str, letter_id: str) -> bool:
        """Whoever sends for the subscription finds it within a second."""
        record = await self._store.record(DEAD, letter_id)
        if record is None or record.owner != subscription_id:
            return False
        letter = msgspec.structs.replace(read_letter(record), tries=0, next_at=0.0)
        await self._store.add_record(letter_record(PARKED, subscription_id, letter))  # before the other goes: twice is
        await self._store.take_record(DEAD, letter_id)  # better than never
        return True

    async def behind(self, subscription_id: str) -> int:
        """How many appends of the store were not looked at yet for this subscription."""
        cursor = await self._store.record(CURSOR, subscription_id)
        return 0 if cursor is None else max(0, await self._store.latest_sequence() - read_cursor(cursor))


def _dump(found: msgspec.Struct) -> str:
    return msgspec.json.encode(found).decode()


def read_subscription(data: str) -> Subscription:
    return msgspec.json.decode(data, type=Subscription)


def cursor_record(subscription_id: str, sequence: int) -> StoredRecord:
    return StoredRecord(kind=CURSOR, id=subscription_id, data=str(sequence), owner=subscription_id)


def read_cursor(record: StoredRecord) -> int:
    return int(record.data)


def letter_record(kind: str, subscription_id: str, letter: Letter) -> StoredRecord:
    return StoredRecord(kind=kind, id=letter.id, data=_dump(letter), owner=subscription_id)


def read_letter(record: StoredRecord) -> Letter:
    return msgspec.json.decode(record.data, type=Letter)

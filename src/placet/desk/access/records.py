"""What the desk's book of people is written on: records, which change only with their entry in the operators' log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.access.people import User
from placet.facts.codec import encode
from placet.facts.events import AnyFact
from placet.ports import RecordStep, RecordStore, StoredRecord

V = TypeVar("V")

OWNED = (
    "session",
    "token",
    "invitation",
    "passkey",
    "passkey-waiting",
    "ceremony",
    "identity",
    "chat_link",
    "chat_word",
)
"""The kinds of records that go with their user."""


class PeopleRecords:
    """The base of all that keeps something of people."""

    def __init__(self, store: RecordStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock

    async def user(self, name: str) -> User | None:
        return read(await self._found("user", name), User)

    async def _records(self, kind: str, owner: str | None = None) -> AsyncIterator[StoredRecord]:
        """All of a kind, however many there are, in the order of their ids."""
        after = ""
        while page := await self._store.records(kind, owner=owner, after=after):
            for record in page:
                yield record
            after = page[-1].id

    async def _change(
        self, steps: Sequence[RecordStep], facts: Sequence[AnyFact], without: Sequence[tuple[str, str]] = ()
    ) -> bool:
        """Who may what changes only together with its entry in the operators' log."""
        return await self._store.change_records(steps, facts, at=self._now(), without=without)

    async def _found(self, kind: str, record_id: str) -> StoredRecord | None:
        """What is under an id that a client sent: it may be any text, also one that no store can hold."""
        return await self._store.record(kind, record_id) if record_id.isascii() and record_id.isprintable() else None

    def _now(self) -> float:
        return self._clock.now()


def record_of(
    kind: str, record_id: str, value: msgspec.Struct, owner: str = "", expires_at: float | None = None
) -> StoredRecord:
    return StoredRecord(kind=kind, id=record_id, data=encode(value).decode(), owner=owner, expires_at=expires_at)


def unchanged(record: StoredRecord) -> RecordStep:
    return RecordStep(kind=record.kind, id=record.id, was=record.data, now=record)


def read(record: StoredRecord | None, kind: type[V]) -> V | None:
    return None if record is None else decoded(record, kind)


def decoded(record: StoredRecord, kind: type[V]) -> V:
    return msgspec.json.decode(record.data, type=kind)

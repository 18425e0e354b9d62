"""Which run is a guest's session at this moment, and where a call of an earlier run of it is found.

A session is found by a small record that points to its newest run. When that run takes no more proposals (closed, idle,
too long, cancelled), the session goes on in a new one; the calls of the old one are indexed before the pointer moves,
so that the same call is found again wherever it was proposed.
"""

from __future__ import annotations

import os

import msgspec

from placet.clock import Clock
from placet.core.guest import Guest, identity, session_id
from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.facts.codec import encode
from placet.facts.errors import RunFinished
from placet.facts.ids import call_id, mint
from placet.ports import DeskStore, StoredRecord
from placet.runtime.journal import load_recent

POINTER, INDEX = "guest_session", "guest_call"
DAY = 86_400.0
POINTER_KEPT = 400 * DAY
INDEX_KEPT = 100 * DAY
"""For how long a call is found again by its identity after its session went on elsewhere."""


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session is."""

    run: str
    is_begun: bool = False
    """Somebody has seen the run: if it is gone, it was deleted, and its id is not used again."""
    before: str | None = None


class Place(msgspec.Struct, frozen=True):
    """A run of a session as it was found. An empty log: it is to be begun."""

    log: Log
    run: RunFold
    last: float
    before: str | None = None


async def load_place(store: DeskStore, run_id: str) -> Place | None:
    """The run as it stands; None where there is none. RunFinished where it was erased."""
    found = await load_recent(store, run_id)
    if found is None:
        return None
    _, log, run = found
    return Place(log, run, read_line(log.lines[-1]).at, run.guest.before if run.guest is not None else None)


class Sessions:
    def __init__(self, store: DeskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def newest(self, guest: Guest, session: str) -> str:
        """The id of the run in which the session is, or is to begin."""
        key = session_id(guest, session)
        while True:
            record = await self._store.record(POINTER, key)
            if record is not None:
                return msgspec.json.decode(record.data, type=Pointer).run
            first = Pointer(run=mint("run"))
            if await self._store.add_record(self._record(key, guest.name, first)):
                return first.run

    async def known(self, guest: Guest, session: str) -> bool:
        return await self._store.record(POINTER, session_id(guest, session)) is not None

    async def place(self, guest: Guest, session: str, run_id: str) -> Place | None:
        """The session's newest run as it stands; None: the session is elsewhere by now, look again."""
        key = session_id(guest, session)
        record = await self._store.record(POINTER, key)
        pointer = msgspec.json.decode(record.data, type=Pointer) if record is not None else None
        if record is None or pointer is None or pointer.run != run_id:
            return None
        try:
            found = await load_place(self._store, run_id)
        except RunFinished:  # it was erased: the session goes on elsewhere
            await self._move(record, Pointer(run=mint("run"), before=run_id))
            return None
        if found is None:
            if not pointer.is_begun:
                return Place(Log(run_id, os.urandom(16)), RunFold(), 0.0, pointer.before)
            await self._move(record, Pointer(run=mint("run")))
            return None
        if found.run.has_ended or found.run.closed is not None or found.run.cancel_asked is not None:
            await self._go_on(record, found)
            return None
        if not pointer.is_begun:
            await self._move(record, msgspec.structs.replace(pointer, is_begun=True))
        return found

    async def _go_on(self, record: StoredRecord, old: Place) -> None:
        """Whoever comes first says where: its calls can be found before anything is proposed there."""
        guest = old.run.guest
        assert guest is not None, "a session is a guest's run"
        until = self._clock.now() + INDEX_KEPT
        found: dict[str, list[str]] = {}
        for call in old.run.calls.values():
            if call.proposed is not None:
                of = identity(guest.guest, guest.source, guest.session, call.label, call.proposed.occurrence)
                found.setdefault(of, []).append(call_id(old.log.run_id, call.id))
        for of, ids in found.items():
            await self._index(of, ids, old.log.run_id, until)
        chosen = old.run.closed.next if old.run.closed is not None else None
        await self._move(record, Pointer(run=chosen or mint("run"), before=old.log.run_id))

    async def _index(self, of: str, ids: list[str], owner: str, until: float) -> None:
        while True:
            known = await self._store.record(INDEX, of)
            if known is None:
                fresh = StoredRecord(kind=INDEX, id=of, data=encode(ids).decode(), owner=owner, expires_at=until)
                if await self._store.add_record(fresh):
                    return
                continue
            all_ids: list[str] = msgspec.json.decode(known.data, type=list[str])
            more = [each for each in ids if each not in all_ids]
            data = encode([*all_ids, *more]).decode()
            changed = msgspec.structs.replace(known, data=data, expires_at=until)
            if not more or await self._store.replace_record(changed, was=known.data):
                return

    async def earlier(self, guest: Guest, session: str, label: str, occurrence: int) -> list[str]:
        """The ids of calls with this call id that earlier runs of the session hold."""
        of = identity(guest.name, guest.source, session, label, occurrence)
        record = await self._store.record(INDEX, of)
        return [] if record is None else msgspec.json.decode(record.data, type=list[str])

    async def _move(self, record: StoredRecord, pointer: Pointer) -> None:
        """Only from where it was: of two who move it one does."""
        await self._store.replace_record(self._record(record.id, record.owner, pointer), was=record.data)

    def _record(self, key: str, owner: str, pointer: Pointer) -> StoredRecord:
        until = self._clock.now() + POINTER_KEPT
        return StoredRecord(kind=POINTER, id=key, data=encode(pointer).decode(), owner=owner, expires_at=until)

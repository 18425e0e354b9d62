"""Samples of what people decided, kept in the store and filled from its feed: no decision waits for them.

A sample is a record of its own, named by tool, time and call, and owned by its run. So adding one twice does nothing,
two processes may fill at the same time, the newest of a tool are one short read, and a run that is erased or deleted
takes its samples along in the same transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Sequence

import msgspec

from placet.clock import Clock
from placet.core.baseline import Sample, fields_of
from placet.core.index import RequestRecord
from placet.core.log import read_line
from placet.facts.codec import JsonObject, canonical
from placet.facts.errors import PlacetError
from placet.facts.events import DecisionMade, DecisionRevoked, InChild, PlainFact
from placet.facts.ids import request_id
from placet.ports import DeskStore, FeedEntry, StoredRecord
from placet.stores.outages import Outage

logger = logging.getLogger("placet.baselines")

SAMPLE, CURSOR = "sample", "sample_cursor"
MAX_SAMPLES = 250
"""The newest decisions about a tool of an agent that are remembered."""
SPARE = 50
"""So many more may stand there until the oldest are dropped: not at each decision."""
KEPT = 400 * 86400.0
"""Seconds after which a sample is forgotten, although no newer ones came."""
BATCH = 500
PAUSE = 0.02
"""Seconds between two batches: whoever fills from a long feed leaves the others their turn."""
LOOK = 0.5
"""Seconds for which news is let gather: one read serves many appends."""
_WORDS = (b'"decide"', b'"revoke')
"""What a line has to hold to mean anything here: most are not even parsed."""


async def samples_of(store: DeskStore, agent: str, tool: str) -> list[Sample]:
    """What is remembered about a tool of an agent, newest first."""
    prefix = _prefix(agent, tool)
    rows = await store.records(SAMPLE, after=prefix, limit=MAX_SAMPLES)
    return [sample for row in rows if row.id.startswith(prefix) and (sample := _read(row)) is not None]


async def samples_place(store: DeskStore) -> str:
    """How far the feed has been taken in: while it is the same, no sample has come."""
    record = await store.record(CURSOR, "feed")
    return "" if record is None else record.data


async def newest_sample(store: DeskStore, agent: str, tool: str) -> str:
    """The newest sample of a tool of an agent, by its id."""
    prefix = _prefix(agent, tool)
    rows = await store.records(SAMPLE, after=prefix, limit=1)
    return rows[0].id if rows and rows[0].id.startswith(prefix) else ""


class Baselines:
    """Fills the samples of a store."""

    def __init__(self, store: DeskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def serve(self) -> None:
        """Until cancelled."""
        outage = Outage(logger, "samples_interrupted", "samples_resumed")
        while True:
            try:
                after = await self.fill()
                outage.end()
                await self._store.wait_for_news(after, 5.0)
                await asyncio.sleep(LOOK)
            except Exception as error:  # noqa: BLE001  # mostly a store that is away: there is another time
                outage.note(error)
                await asyncio.sleep(1.0)

    async def fill(self) -> int:
        """Take in what the feed has brought since the last time; where it ends now."""
        record = await self._store.record(CURSOR, "feed")
        after = 0 if record is None else int(record.data)
        while entries := await self._store.feed(after, BATCH):
            for entry in entries:
                await self._take(entry)
            after = entries[-1].sequence
            await self._note_place(after)
            await asyncio.sleep(PAUSE)
        return after

    async def rebuild(self) -> int:
        """Forget all samples, and take them from the logs again; how many there are then."""
        while rows := await self._store.records(SAMPLE, limit=1000):
            for owner in {row.owner for row in rows}:
                await self._store.remove_records(SAMPLE, owner)
        await self._store.take_record(CURSOR, "feed")
        await self.fill()
        return await self.count()

    async def count(self) -> int:
        found, after = 0, ""
        while rows := await self._store.records(SAMPLE, after=after, limit=1000):
            found, after = found + len(rows), rows[-1].id
        return found

    async def _note_place(self, sequence: int) -> None:
        record = StoredRecord(kind=CURSOR, id="feed", data=str(sequence))
        if not await self._store.replace_record(record):
            await self._store.add_record(record)

    async def _take(self, entry: FeedEntry) -> None:
        if not any(word in entry.text for word in _WORDS):
            return
        try:
            facts = read_line(entry.text).facts
        except PlacetError:  # words of newer code: newer code takes them
            return
        for fact in facts:
            bare: PlainFact = fact.fact if isinstance(fact, InChild) else fact
            if isinstance(bare, DecisionMade) and bare.grant is None and bare.verdict != "respond":
                await self._add(entry.run_id, bare)
            elif isinstance(bare, DecisionRevoked):
                await self._drop(entry.run_id, bare.call)

    async def _add(self, run_id: str, decision: DecisionMade) -> None:
        request = await self._store.request(request_id(run_id, decision.call, decision.request))
        if request is None or request.kind != "approval" or request.status == "closed":
            return  # it is gone, or was taken back since
        arguments = decision.arguments if decision.arguments is not None else request.arguments
        if isinstance(arguments, str):
            return
        record = self._record(request, decision, arguments)
        if not await self._store.add_record(record):
            return
        now = await self._store.request(request.id)
        if now is None or now.arguments_text != request.arguments_text:  # it was erased or deleted in between
            await self._remove([record])
        await self._trim(_prefix(request.agent, request.tool))

    def _record(self, request: RequestRecord, decision: DecisionMade, arguments: JsonObject) -> StoredRecord:
        fields, is_whole = fields_of(arguments)
        sample = Sample(
            request.run_id,
            decision.call,
            decision.request,
            decision.at,
            decision.verdict != "reject",
            decision.by,
            fields,
            is_whole,
        )
        place = f"{_prefix(request.agent, request.tool)}{_newest_first(decision.at)}/{_key(request.id)}"
        data = msgspec.json.encode(sample).decode()
        return StoredRecord(kind=SAMPLE, id=place, data=data, owner=request.run_id, expires_at=self._clock.now() + KEPT)

    async def _drop(self, run_id: str, call: str) -> None:
        """An approval was taken back: it is no example for others."""
        gone = [row for row in await self._of_run(run_id) if (sample := _read(row)) is None or sample.call == call]
        await self._remove(gone)

    async def _of_run(self, run_id: str) -> list[StoredRecord]:
        return await self._store.records(SAMPLE, owner=run_id, limit=10_000)

    async def _trim(self, prefix: str) -> None:
        rows = await self._store.records(SAMPLE, after=prefix, limit=MAX_SAMPLES + SPARE + 1)
        mine: Sequence[StoredRecord] = [row for row in rows if row.id.startswith(prefix)]
        if len(mine) > MAX_SAMPLES + SPARE:
            await self._remove(mine[MAX_SAMPLES:])

    async def _remove(self, rows: Iterable[StoredRecord]) -> None:
        for row in rows:
            await self._store.take_record(SAMPLE, row.id)


def _prefix(agent: str, tool: str) -> str:
    return f"{_key(agent, tool)}/"


def _key(*parts: str) -> str:
    return hashlib.blake2b(canonical(list(parts)), digest_size=12).hexdigest()


def _newest_first(at: float) -> str:
    """Ids are read in their order: the later, the smaller."""
    return f"{10**15 - int(at * 1000):016d}"


def _read(record: StoredRecord) -> Sample | None:
    try:
        return msgspec.json.decode(record.data, type=Sample)
    except msgspec.MsgspecError:  # of other code: it is as if it were not there
        return None

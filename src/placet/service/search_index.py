"""The words by which requests are found, kept in the store and filled from its feed: no decision waits for them.

To index a request twice does nothing, so several processes may fill at the same time. Without it the inbox lists and
decides as before; only searching finds less, and says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from placet.core.index import RequestRecord
from placet.core.log import read_line
from placet.core.words import words_of
from placet.facts.errors import PlacetError
from placet.facts.events import CallHeld, CallInDoubt, DecisionMade, InChild, InputAsked, PlainFact, VoteCast
from placet.facts.ids import request_id
from placet.ports import DeskStore, FeedEntry, RequestQuery, StoredRecord
from placet.stores.outages import Outage

logger = logging.getLogger("placet.search")

CURSOR = "search_cursor"
BATCH = 500
PAUSE = 0.02
"""Seconds between two batches: whoever fills from a long feed leaves the others their turn."""
LOOK = 0.3
"""Seconds for which news is let gather: one read serves many appends."""
SPARE = 10
"""More requests than a run has just asked are read of it: others may have asked meanwhile."""
_WORDS = (b'"hold"', b'"doubt"', b'"elicit"', b'"decide"', b'"vote"')
"""What a line has to hold to mean anything here: most are not even parsed."""


class SearchIndex:
    """Fills the index of a store."""

    def __init__(self, store: DeskStore) -> None:
        self._store = store

    async def serve(self) -> None:
        """Until cancelled."""
        outage = Outage(logger, "search_index_interrupted", "search_index_resumed")
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
        after = await self._fill_whole() if record is None else int(record.data)
        while entries := await self._store.feed(after, BATCH):
            await self._take(entries)
            after = entries[-1].sequence
            await self._note_place(after)
            await asyncio.sleep(PAUSE)
        return after

    async def rebuild(self) -> int:
        """Index everything again; how many requests there are."""
        await self._store.take_record(CURSOR, "feed")
        await self.fill()
        return await self._store.count_requests(RequestQuery(status=None), 10**9)

    async def _fill_whole(self) -> int:
        """All requests, in their order: a store that had no index yet."""
        sequence = await self._store.latest_sequence()  # before the rows: what happens meanwhile is followed later
        cursor: str | None = None
        while True:
            page = await self._store.requests(RequestQuery(status=None, cursor=cursor, limit=BATCH))
            await self._index(page.rows)
            cursor = page.cursor
            await asyncio.sleep(PAUSE)
            if cursor is None:
                await self._note_place(sequence)
                return sequence

    async def _take(self, entries: Sequence[FeedEntry]) -> None:
        asked: dict[str, int] = {}
        decided: dict[str, None] = {}
        for entry in entries:
            for fact in _facts(entry):
                match fact:
                    case CallHeld() | CallInDoubt() | InputAsked():
                        asked[entry.run_id] = asked.get(entry.run_id, 0) + 1
                    case DecisionMade() | VoteCast():
                        decided[request_id(entry.run_id, fact.call, fact.request)] = None
                    case _:
                        pass
        rows: dict[str, RequestRecord] = {}
        for run_id, count in asked.items():
            query = RequestQuery(status=None, run_id=run_id, newest_first=True, limit=min(10_000, count + SPARE))
            rows |= {row.id: row for row in (await self._store.requests(query)).rows}
        for each in decided:
            if each not in rows and (row := await self._store.request(each)) is not None:
                rows[row.id] = row
        await self._index(list(rows.values()))

    async def _index(self, rows: Sequence[RequestRecord]) -> None:
        starters: dict[str, str | None] = {}
        for run_id in {row.run_id for row in rows}:
            run = await self._store.run(run_id)
            starters[run_id] = run.started_by if run is not None else None
        await self._store.index_words({row.id: words_of(row, starters[row.run_id]) for row in rows})

    async def _note_place(self, sequence: int) -> None:
        record = StoredRecord(kind=CURSOR, id="feed", data=str(sequence))
        if not await self._store.replace_record(record):
            await self._store.add_record(record)


def _facts(entry: FeedEntry) -> list[PlainFact]:
    if not any(word in entry.text for word in _WORDS):
        return []
    try:
        facts = read_line(entry.text).facts
    except PlacetError:  # words of newer code: newer code takes them
        return []
    return [fact.fact if isinstance(fact, InChild) else fact for fact in facts]

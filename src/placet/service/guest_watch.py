"""One reader of a store's feed for all who wait for guests' calls in this process: a thousand waits cost one query."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol

from placet.core.log import read_line
from placet.facts.errors import PlacetError
from placet.facts.events import AnyFact, InChild
from placet.ports import DeskStore, FeedEntry
from placet.stores.outages import Outage

logger = logging.getLogger("placet.gate")

NEWS_SECONDS = 5.0
RETRY_SECONDS = 0.5
CATCH_UP = 500


class Rings(Protocol):
    def set(self) -> None: ...


class News:
    """Which of many calls there is news about. One waits for all of them."""

    def __init__(self) -> None:
        self.about: set[str] = set()
        self.event = asyncio.Event()

    def take(self) -> set[str]:
        self.event.clear()
        found, self.about = self.about, set()
        return found


class _OneOfMany:
    def __init__(self, news: News, name: str) -> None:
        self._news = news
        self._name = name

    def set(self) -> None:
        self._news.about.add(self._name)
        self._news.event.set()


class Watcher:
    """Wakes whoever waits for a call when its run's log says something about it."""

    def __init__(self, store: DeskStore) -> None:
        self._store = store
        self._waiting: dict[str, dict[str, set[Rings]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._is_reading = asyncio.Event()
        self.waits = 0
        """How many wait at this moment."""
        self.is_ending = False

    @contextlib.asynccontextmanager
    async def listen(self, run_id: str, call: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever there is news about the call. From here on nothing is missed."""
        event = asyncio.Event()
        async with self._reading():
            self._enter(run_id, call, event)
            try:
                yield event
            finally:
                self._leave(run_id, call, event)

    @contextlib.asynccontextmanager
    async def listen_to_all(self, calls: Mapping[str, tuple[str, str]]) -> AsyncIterator[News]:
        """One event for many calls, each given by its name with its run and its id there."""
        news = News()
        async with self._reading():
            places = [(run_id, call, _OneOfMany(news, name)) for name, (run_id, call) in calls.items()]
            for each in places:
                self._enter(*each)
            try:
                yield news
            finally:
                for each in places:
                    self._leave(*each)

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        self.waits += 1
        try:
            if self._reader is None:  # no await in between: there is one
                self._reader = asyncio.create_task(self._read())
            await self._is_reading.wait()
            yield
        finally:
            self.waits -= 1

    def _enter(self, run_id: str, call: str, event: Rings) -> None:
        self._waiting.setdefault(run_id, {}).setdefault(call, set()).add(event)

    def _leave(self, run_id: str, call: str, event: Rings) -> None:
        of_run = self._waiting[run_id]
        of_run[call].discard(event)
        if not of_run[call]:
            del of_run[call]
        if not of_run:
            del self._waiting[run_id]

    def end_waits(self) -> None:
        """Have everybody who waits look for the last time: this process goes."""
        self.is_ending = True
        for of_run in self._waiting.values():
            for events in of_run.values():
                for event in events:
                    event.set()

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
            self._is_reading.clear()

    async def _read(self) -> None:
        seen: int | None = None
        outage = Outage(logger, "gate_feed_interrupted", "gate_feed_resumed")
        while True:
            try:
                seen = await self._read_on(seen)
                self._is_reading.set()
                outage.end()
            except Exception as error:  # noqa: BLE001  # mostly a store that is away; there is no other reader
                outage.note(error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_on(self, seen: int | None) -> int:
        if seen is None:
            return await self._store.latest_sequence()
        entries = await self._store.feed(seen, CATCH_UP)
        if not entries:
            await self._store.wait_for_news(seen, NEWS_SECONDS)
            return seen
        for entry in entries:
            if entry.run_id in self._waiting:
                self._tell(entry)
        return entries[-1].sequence

    def _tell(self, entry: FeedEntry) -> None:
        of_run = self._waiting[entry.run_id]
        try:
            named = _named(read_line(entry.text).facts)
        except PlacetError:  # written by newer code: whoever waits looks, and reads why
            named = None
        for call, events in of_run.items():
            if named is None or call in named:
                for event in events:
                    event.set()


def _named(facts: Iterable[AnyFact]) -> set[str] | None:
    """The calls that these facts are about; None: perhaps all of them."""
    found: set[str] = set()
    for fact in facts:
        bare = fact.fact if isinstance(fact, InChild) else fact
        call, calls = getattr(bare, "call", None), getattr(bare, "calls", None)
        if isinstance(call, str):
            found.add(call)
        elif isinstance(calls, list):
            found.update(each for each in calls if isinstance(each, str))  # proposals name none that anybody waits for
        else:
            return None
    return found

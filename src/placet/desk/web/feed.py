"""Live news: one reader of the store's feed in a process, and any number of listeners, each with a bounded backlog.

A listener that does not keep up is dropped; it comes back with the id of the last event that it saw, and misses
nothing. An event's text is made once, however many listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from placet.core.log import read_line
from placet.desk.web.settings import WebSettings
from placet.facts.codec import JsonObject, encode
from placet.facts.errors import PlacetError
from placet.facts.events import AnyFact, Fact, InChild
from placet.ports import DeskStore, FeedEntry

logger = logging.getLogger("placet.desk")

RETRY_SECONDS = 1.0
"""How long the reader waits when the store is away."""
NEWS_SECONDS = 5.0
CATCH_UP = 200
"""Entries that are read at once for a listener who was away."""


class News(msgspec.Struct, frozen=True):
    """One append to some run, as text for event streams."""

    sequence: int
    run_id: str
    text: bytes


class Listener:
    """A place in the queue of one event stream."""

    def __init__(self, backlog: int) -> None:
        self._queue: asyncio.Queue[News | None] = asyncio.Queue(backlog + 1)
        self.is_dropped = False

    def offer(self, news: News) -> bool:
        """False: it is too slow."""
        if self._queue.qsize() >= self._queue.maxsize - 1:
            return False
        self._queue.put_nowait(news)
        return True

    def end(self) -> None:
        if not self.is_dropped:
            self.is_dropped = True
            self._queue.put_nowait(None)  # there is always room for this one

    async def take(self, seconds: float) -> News | None:
        """The next news; None when it is over. TimeoutError when nothing comes."""
        async with asyncio.timeout(seconds):
            return await self._queue.get()


class Feed:
    """The one reader, and its listeners."""

    def __init__(self, store: DeskStore, settings: WebSettings) -> None:
        self._store = store
        self._settings = settings
        self._listeners: set[Listener] = set()
        self._reader: asyncio.Task[None] | None = None
        self._is_reading = asyncio.Event()
        """The reader knows where the feed stands: nothing from now on is missed."""
        self.dropped = 0
        self.is_closed = False
        self._at_once = max(1, min(CATCH_UP, settings.listener_backlog // 2))
        """Who keeps up has room for what is read at once: a burst is no reason to drop them."""

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= self._settings.max_listeners

    async def close(self) -> None:
        """End all streams, and the reader."""
        self.is_closed = True
        self._is_reading.set()
        for listener in self._listeners:
            listener.end()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None

    async def stream(self, after: int | None, run_id: str | None = None) -> AsyncGenerator[bytes]:
        """Text for an event stream: what happened after a sequence number, then whatever happens; heartbeats."""
        listener = Listener(self._settings.listener_backlog)
        if self._reader is None and not self.is_closed:  # no await in between: there is one
            self._reader = asyncio.create_task(self._read())
        self._listeners.add(listener)
        try:
            await self._is_reading.wait()
            yield b"retry: 2000\n: placet\n\n"
            seen = -1
            if after is not None:
                async for news in self._missed(after):
                    seen = news.sequence
                    if run_id in (None, news.run_id):
                        yield news.text
            async for text in self._live(listener, seen, run_id):
                yield text
        finally:
            self._listeners.discard(listener)

    async def _missed(self, after: int) -> AsyncIterator[News]:
        while entries := await self._store.feed(after, CATCH_UP):
            for entry in entries:
                after = entry.sequence
                yield news_of(entry)

    async def _live(self, listener: Listener, seen: int, run_id: str | None) -> AsyncIterator[bytes]:
        while not self.is_closed:
            try:
                news = await listener.take(self._settings.heartbeat_seconds)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if news is None:
                return
            if news.sequence > seen and run_id in (None, news.run_id):
                yield news.text

    async def _read(self) -> None:
        seen: int | None = None
        while True:
            try:
                seen = await self._read_on(seen)
                self._is_reading.set()
            except PlacetError as error:  # the store is away: it may come back
                logger.warning("feed interrupted", extra={"action": "feed_interrupted", "error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_on(self, seen: int | None) -> int:
        """Tell what has happened after this place, or wait until something does; how far that was."""
        if seen is None:
            return await self._store.latest_sequence()
        entries = await self._store.feed(seen, self._at_once)
        if not entries:
            await self._store.wait_for_news(seen, NEWS_SECONDS)
        for entry in entries:
            self._tell(entry)
        return entries[-1].sequence if entries else seen

    def _tell(self, entry: FeedEntry) -> None:
        if not self._listeners:
            return
        try:
            news = news_of(entry)
        except PlacetError as error:  # written by newer code: others can read it
            logger.warning("fact not understood", extra={"action": "news_skipped", "error": str(error)})
            return
        for listener in [each for each in self._listeners if not each.offer(news)]:
            listener.end()
            self._listeners.discard(listener)
            self.dropped += 1


def news_of(entry: FeedEntry) -> News:
    """An append as text: one event for each fact; only the last carries the id, so that none is lost in between."""
    record = read_line(entry.text)
    events = []
    for index, fact in enumerate(record.facts):
        last = index == len(record.facts) - 1
        told = outline(fact) | {"sequence": entry.sequence, "index": index, "run_id": entry.run_id, "at": record.at}
        head = f"id: {entry.sequence}\n" if last else ""
        events.append(f"{head}event: {told['type']}\ndata: ".encode() + encode(told) + b"\n\n")
    return News(entry.sequence, entry.run_id, b"".join(events))


_TOLD = (
    "call",
    "calls",
    "digest",
    "tool",
    "verdict",
    "by",
    "reason",
    "outcome",
    "agent",
    "expires_at",
    "scope",
    "code",
)
"""What an event says of a fact. Arguments, outputs and messages may be large: who shows them asks for them."""


def outline(fact: AnyFact) -> JsonObject:
    """A fact without what may be large in it; its kind is the fact's name in small letters."""
    path = fact.path if isinstance(fact, InChild) else ""
    bare: Fact = fact.fact if isinstance(fact, InChild) else fact
    told: JsonObject = {"type": kind_of(bare), "path": path}
    for name in _TOLD:
        if name in bare.__struct_fields__:
            told[name] = getattr(bare, name)
    return told


def kind_of(fact: Fact) -> str:
    return kind_name(type(fact))


def kind_name(kind: type[Fact]) -> str:
    """`CallHeld` is `call_held`: what streams, the API and pages call a kind of fact."""
    name = kind.__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")

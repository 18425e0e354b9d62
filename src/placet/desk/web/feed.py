"""Live news: one reader of the store's feed in a process, and any number of listeners, each with a bounded backlog.

A listener that does not keep up is told so and dropped; it comes back with the id of the last event that it saw, and
misses nothing. A text is made once, however many listen. To send something costs about the same whether it is one event
or fifty, so what happens in quick succession is told together: the first at once, the rest after a pause that grows
with the number of listeners. So telling takes a bounded share of the process's time, and decisions have the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence

import msgspec

from placet.core.log import read_line
from placet.desk.web.settings import WebSettings
from placet.facts.codec import JsonObject, encode
from placet.facts.errors import PlacetError
from placet.facts.events import AnyFact, Fact, InChild
from placet.ports import DeskStore, FeedEntry
from placet.stores.outages import Outage

logger = logging.getLogger("placet.desk")

RETRY_SECONDS = 1.0
"""How long the reader waits when the store is away."""
NEWS_SECONDS = 5.0
CATCH_UP = 200
"""Entries that are read at once for a listener who was away."""
PAUSE_SECONDS = 0.001
"""For each listener, between two times that all are told. To tell one takes about a tenth of it."""
LONGEST_PAUSE = 0.5
DROPPED = (
    b'event: dropped\ndata: {"type":"dropped","detail":"More happened than this connection took. Connect again with '
    b'the id of the last event (Last-Event-ID): nothing is lost."}\n\n'
)


class News(msgspec.Struct, frozen=True):
    """One append to some run, as text for event streams."""

    sequence: int
    run_id: str
    text: bytes


class Batch:
    """News that are told together."""

    __slots__ = ("news", "text")

    def __init__(self, news: Sequence[News]) -> None:
        self.news = news
        self.text = b"".join(each.text for each in news)
        """For listeners that want all of them: one text, shared by all listeners."""

    def after(self, seen: int, run_id: str | None) -> bytes:
        """The text for a listener that has seen the news up to a sequence number, and follows one run or all."""
        if run_id is None and self.news[0].sequence > seen:
            return self.text
        return b"".join(each.text for each in self.news if each.sequence > seen and run_id in (None, each.run_id))


class Listener:
    """A place in the queue of one event stream."""

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog
        self._waiting: list[Batch] = []
        self._count = 0
        self._news = asyncio.Event()
        self.is_over = False

    def offer(self, batch: Batch) -> bool:
        """False: it is too slow."""
        if self._count + len(batch.news) > self._backlog:
            return False
        self._waiting.append(batch)
        self._count += len(batch.news)
        self._news.set()
        return True

    def end(self) -> None:
        """Nothing more is told, and what waits is let go."""
        self.is_over = True
        self._waiting.clear()
        self._news.set()

    async def take(self, seconds: float) -> list[Batch]:
        """All that waits; nothing when it is over. TimeoutError when nothing comes."""
        async with asyncio.timeout(seconds):
            await self._news.wait()
        found, self._waiting, self._count = self._waiting, [], 0
        if not self.is_over:
            self._news.clear()
        return found


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
                async for batch in self._missed(after):
                    seen = batch.news[-1].sequence
                    if text := batch.after(-1, run_id):
                        yield text
            async for text in self._live(listener, seen, run_id):
                yield text
        finally:
            self._listeners.discard(listener)

    async def _missed(self, after: int) -> AsyncIterator[Batch]:
        while entries := await self._store.feed(after, CATCH_UP):
            after = entries[-1].sequence
            yield Batch([news_of(entry) for entry in entries])

    async def _live(self, listener: Listener, seen: int, run_id: str | None) -> AsyncIterator[bytes]:
        while not self.is_closed:
            try:
                batches = await listener.take(self._settings.heartbeat_seconds)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if listener.is_over:
                break
            texts = [batch.after(seen, run_id) for batch in batches]
            if text := texts[0] if len(texts) == 1 else b"".join(texts):
                yield text
        if not self.is_closed:
            yield DROPPED

    async def _read(self) -> None:
        seen: int | None = None
        outage = Outage(logger, "feed_interrupted", "feed_resumed")
        while True:
            try:
                seen = await self._read_on(seen)
                self._is_reading.set()
                outage.end()
            except Exception as error:  # noqa: BLE001  # mostly a store that is away; there is no other reader
                outage.note(error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_on(self, seen: int | None) -> int:
        """Tell what has happened after this place, or wait until something does; how far that was."""
        if seen is None:
            return await self._store.latest_sequence()
        entries = await self._store.feed(seen, self._at_once)
        if not entries:
            await self._store.wait_for_news(seen, NEWS_SECONDS)
            return seen
        self._publish(entries)
        if len(entries) < self._at_once:  # nobody waits for what is there already
            await asyncio.sleep(min(LONGEST_PAUSE, PAUSE_SECONDS * len(self._listeners)))
        return entries[-1].sequence

    def _publish(self, entries: Sequence[FeedEntry]) -> None:
        news = list(_readable(entries)) if self._listeners else []
        if not news:
            return
        batch = Batch(news)
        for listener in [each for each in self._listeners if not each.offer(batch)]:
            listener.end()
            self._listeners.discard(listener)
            self.dropped += 1


def _readable(entries: Sequence[FeedEntry]) -> Iterator[News]:
    for entry in entries:
        try:
            yield news_of(entry)
        except PlacetError as error:  # written by newer code: others can read it
            logger.warning("fact not understood", extra={"action": "news_skipped", "error": str(error)})


def news_of(entry: FeedEntry) -> News:
    """An append as text: one event for each fact; only the last carries the id, so that none is lost in between."""
    record = read_line(entry.text)
    events = []
    for index, fact in enumerate(record.facts):
        last = index == len(record.facts) - 1
        event = outline(fact) | {"sequence": entry.sequence, "index": index, "run_id": entry.run_id, "at": record.at}
        head = f"id: {entry.sequence}\n" if last else ""
        events.append(f"{head}event: {event['type']}\ndata: ".encode() + encode(event) + b"\n\n")
    return News(entry.sequence, entry.run_id, b"".join(events))


_SHOWN = (
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
    event: JsonObject = {"type": kind_of(bare), "path": path}
    for name in _SHOWN:
        if name in bare.__struct_fields__:
            event[name] = getattr(bare, name)
    return event


def kind_of(fact: Fact) -> str:
    return kind_name(type(fact))


def kind_name(kind: type[Fact]) -> str:
    """`CallHeld` is `call_held`: what streams, the API and pages call a kind of fact."""
    name = kind.__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")

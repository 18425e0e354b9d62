"""Listening while tool functions run: a decision that arrives meanwhile wakes the loop, which begins at once what it
lets through. It may come from this process (on a context) or, through the store, from any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol, runtime_checkable

from placet.core.index import RunRecord
from placet.facts.errors import StoreError
from placet.runtime.frame import Frame

logger = logging.getLogger("placet.fleet")

LOOK_SECONDS = 1.0
"""How long news from the store that was lost can go unnoticed."""

PAUSE_SECONDS = 0.02
"""The least time between two looks: a busy store has news all the time, mostly of other runs."""


@runtime_checkable
class NewsSource(Protocol):
    """A store that others append to while a run is driven, and that says so."""

    async def latest_sequence(self) -> int: ...

    async def wait_for_news(self, after: int, seconds: float) -> bool: ...

    async def run(self, run_id: str) -> RunRecord | None: ...


class DecisionListener:
    """Of one wait for tool functions: hears of decisions that were staged, and of a log that has grown."""

    def __init__(self, frame: Frame) -> None:
        self.has_news_here = frame.run.ledger.has_staged()
        self.has_grown = False
        """Others have appended to the log, and the driver has not read it yet."""
        self._frame = frame
        self._loop = asyncio.get_running_loop()
        self._listening: asyncio.Task[None] | None = None
        frame.journal.listeners.add(self._on_news)
        frame.run.ledger.listen(self._on_news_in_loop)

    def open(self) -> None:
        """Listen to the store from now on, if the run waits for a decision: nothing else can come from there."""
        if self._listening is not None or not self._frame.run.ledger.has_open():
            return
        store = self._frame.journal.store
        if isinstance(store, NewsSource):
            self._listening = asyncio.create_task(self._listen(store))

    async def close(self) -> None:
        self._frame.journal.listeners.discard(self._on_news)
        self._frame.run.ledger.stop_listening(self._on_news_in_loop)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def _on_news(self) -> None:
        self.has_news_here = True
        self._frame.news.set()

    def _on_news_in_loop(self) -> None:
        """From any thread: tool functions that are not coroutines run in threads, and may decide."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self._on_news)

    async def _listen(self, store: NewsSource) -> None:
        """Look only. To take in what was appended is the loop's, which nobody breaks off in the middle of it."""
        journal = self._frame.journal
        while True:
            try:
                seen = await store.latest_sequence()
                row = await store.run(self._frame.run_id)
                if row is not None and row.length > len(journal.log):
                    self.has_grown = True
                    self._frame.news.set()
                await store.wait_for_news(seen, LOOK_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)
            except StoreError:  # it is away: the code that writes to it reports that
                await asyncio.sleep(LOOK_SECONDS)
            except Exception:  # nobody waits for this task: what ends it would be noticed by nobody
                logger.exception("news not heard", extra={"action": "listening_failed"})
                await asyncio.sleep(LOOK_SECONDS)

"""News between the event loops of one process: who waits for them is woken when something was written here."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class NewsSignal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """From any thread."""
        if not self._waiting:
            return
        with self._lock:
            woken, self._waiting = self._waiting, set()
        for future in woken:
            with contextlib.suppress(RuntimeError):  # its loop was closed: nobody waits there any more
                future.get_loop().call_soon_threadsafe(_resolve, future)

    def wait(self) -> asyncio.Future[None]:
        """A future that the next notification resolves. Take it before looking, so that nothing falls in between."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: asyncio.Future[None]) -> None:
        with self._lock:
            self._waiting.discard(future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

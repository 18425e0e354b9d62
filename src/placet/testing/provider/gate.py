"""A gate in an answer: the provider stops there until a test opens it, so that tests need no sleeps."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future


class Gate:
    """Works from any thread and any event loop, since the provider may be served from another one."""

    def __init__(self) -> None:
        self._reached: Future[None] = Future()
        self._opened: Future[None] = Future()

    async def reached(self) -> None:
        """Wait until the provider stands before the gate."""
        await asyncio.shield(asyncio.wrap_future(self._reached))

    def open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def pass_through(self) -> None:
        """The provider's side: say that it is here, and wait."""
        self._arrive()
        await asyncio.shield(asyncio.wrap_future(self._opened))

    def pass_through_blocking(self) -> None:
        self._arrive()
        self._opened.result()

    def _arrive(self) -> None:
        if not self._reached.done():
            self._reached.set_result(None)

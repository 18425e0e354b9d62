"""Databases with the schema in them, to be copied: what a store, and what a fleet, makes at its first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from placet.fleet.schema import migrate
from placet.stores.postgres import PostgresStore


def make_store(url: str) -> None:
    _use(url, PostgresStore.holds)


def make_fleet(url: str) -> None:
    _use(url, migrate)


def _use(url: str, work: Callable[[PostgresStore], Awaitable[object]]) -> None:
    """In a thread with a loop of its own: a fixture may be asked for from inside one."""

    async def open_and_close() -> None:
        async with PostgresStore(url) as store:
            await work(store)

    thread = threading.Thread(target=lambda: asyncio.run(open_and_close()))
    thread.start()
    thread.join()

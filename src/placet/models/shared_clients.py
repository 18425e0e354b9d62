"""One client per provider and event loop, made at the first use and closed with its loop.

A client's connections belong to the loop in which they were opened, and `run_sync` opens a loop for each run: so the
clients are kept per loop. An asynchronous generator that holds the client stays open until the loop shuts its
generators down (`asyncio.run` does), and closes the client there: no connection is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, tuple[Closable, AsyncIterator[None]]]] = (
    WeakKeyDictionary()
)


async def shared_client(key: Hashable, make: Callable[[], C]) -> C:
    """The running loop's client for this key (a provider, and the settings that its clients read), made if need be."""
    kept = _clients.setdefault(asyncio.get_running_loop(), {})
    if key not in kept:
        client = make()
        holder = _held(client)
        kept[key] = (client, holder)
        await anext(holder)
    return kept[key][0]  # type: ignore[return-value]  # what is made under this key is a C


async def _held(client: Closable) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await client.close()

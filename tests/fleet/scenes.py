"""What the tests of the fleet share: agents whose models need no memory, and workers in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from placet import Agent
from placet.desk import Desk
from placet.fleet.worker import Worker
from placet.stores.postgres import PostgresStore

PATIENCE = 90.0
"""Generous: machines are shared, and nothing here waits longer than it must."""
TTL = 2.0


@asynccontextmanager
async def worker(
    url: str, *agents: Agent[Any], ttl: float = TTL, listen: bool = True, patience: float = 30.0, **options: Any
) -> AsyncIterator[Worker]:
    """A worker in this process, ready; told to stop at the end."""
    async with PostgresStore(url, lease_ttl=ttl, listen=listen, patience=patience) as store:
        made = Worker(store, agents, **({"grace": 5.0} | options))
        task = asyncio.create_task(made.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await made.engine.is_ready.wait()
            yield made
        finally:
            made.stop()
            async with asyncio.timeout(PATIENCE):
                await task


@asynccontextmanager
async def desk(url: str, *agents: Agent[Any]) -> AsyncIterator[Desk]:
    """A desk that only looks and decides."""
    async with PostgresStore(url, lease_ttl=TTL) as store, Desk(store, agents=agents, run=False) as made:
        yield made


async def sooner_or_later(condition: Callable[[], Awaitable[object] | object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < give_up, "what was waited for did not happen"
        await asyncio.sleep(0.02)


async def rows(desk: Desk, sql: str) -> list[tuple[Any, ...]]:
    assert isinstance(desk.store, PostgresStore)
    return await desk.store.query(sql.encode())

"""Calls: a worker with a free place is told by its name which run has news, without a job in the queue.

Rule of this file: a call may be lost like any ring. So nothing waits for one, and who cannot follow a call hands it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from placet.fleet.workers import Registration
from placet.stores.outages import Outage
from placet.stores.postgres.cancelling import Cancellations
from placet.stores.postgres.connections import connect, is_pooled

PAUSE = 1.0
"""Between two tries to listen while the database is away."""


async def keep_hearing(url: str, registration: Registration, call: Callable[[str], None], outage: Outage) -> None:
    """Until cancelled: `call` with the id of each run for which this worker is called."""
    cancellations = Cancellations()
    while True:
        try:
            await _hear(url, registration, call)
            return  # a pooler answers: notifications would reach another of its clients
        except Exception as error:  # noqa: BLE001  # a database that is away comes back
            cancellations.raise_new()
            outage.note(error)
        finally:
            registration.listens = False
        await asyncio.sleep(PAUSE)


async def _hear(url: str, registration: Registration, call: Callable[[str], None]) -> None:
    db = await connect(url)
    try:
        if await is_pooled(db):
            return
        await db.execute(f"LISTEN placet_worker_{registration.id}".encode())
        registration.listens = True
        await registration.beat()  # only now: who is called before it listens would hear nothing
        async for notification in db.notifies():
            call(notification.payload)
        raise ConnectionError("the connection on which calls are heard has ended")
    finally:
        await db.close()

"""A process that serves the outbox of a store until it is killed: `python -m tests.service.sender URL`."""

from __future__ import annotations

import asyncio
import sys

from placet.clock import SYSTEM_CLOCK
from placet.service.outbox import Outbox, Pace
from placet.stores.opening import open_store

PACE = Pace(first_retry=0.05, longest_retry=0.1, tries=1000, lease=3.0, look=0.05)


async def serve(url: str) -> None:
    async with open_store(url) as store:
        await Outbox(store, SYSTEM_CLOCK, pace=PACE).serve()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))

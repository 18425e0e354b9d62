"""The sweep of guests' sessions: leases that ended without a report, deadlines, sessions that nobody uses any more."""

from __future__ import annotations

import asyncio
import logging

from placet.clock import Clock
from placet.facts.errors import PlacetError
from placet.ports import DeskStore
from placet.service.guest_calls import GuestCalls
from placet.stores.outages import Outage

logger = logging.getLogger("placet.gate")

SWEEP_SECONDS = 1.0
MAX_RUNS = 200


async def sweep_guests(store: DeskStore, calls: GuestCalls, clock: Clock) -> None:
    """Look once in a while, until cancelled."""
    outage = Outage(logger, "guest_sweep_failed", "guest_sweep_works")
    while True:
        try:
            await calls.end_leases()
            await end_by_time(store, calls, clock.now())
            outage.end()
        except Exception as error:  # noqa: BLE001  # mostly a store that is away: there is another time
            outage.note(error)
        await asyncio.sleep(SWEEP_SECONDS)


async def end_by_time(store: DeskStore, calls: GuestCalls, now: float) -> None:
    """Do what is due in sessions of guests."""
    for run_id in await store.guests_due(now, MAX_RUNS):
        try:
            await calls.tend(run_id)
        except PlacetError as error:  # one session's trouble is not the others'
            logger.warning("session left", extra={"action": "session_left", "run_id": run_id, "error": str(error)})

"""The gate on a store: the guest's own process does what a desk would do for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from placet.clock import Clock
from placet.core.guest import GateCall, Guest, Permit, Proposal
from placet.facts.codec import Json
from placet.gate.door import Reported
from placet.ports import DeskStore, PolicySource, ReceiptIssuer
from placet.service.guest_calls import GuestCalls
from placet.service.guest_limits import GuestLimits
from placet.service.guest_sweep import sweep_guests


class StoreDoor:
    """A guest on a store that it reaches itself. Leases and deadlines are looked after while it is open."""

    def __init__(
        self,
        store: DeskStore,
        guest: Guest,
        clock: Clock,
        limits: GuestLimits | None,
        policy: PolicySource | None,
        receipts: ReceiptIssuer | None,
        *,
        owns_store: bool,
    ) -> None:
        self._store = store
        self._guest = guest
        self._clock = clock
        self._owns_store = owns_store
        self._calls = GuestCalls(store, clock, limits, policy, receipts)
        self._sweeping: asyncio.Task[None] | None = None

    async def propose(self, proposal: Proposal) -> GateCall:
        self._sweep()
        return await self._calls.propose(self._guest, proposal)

    def _sweep(self) -> None:
        """There may be nobody else who ends leases: also a guest that only comes back for its calls waits for that."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(sweep_guests(self._store, self._calls, self._clock))

    async def look(self, call: str, wait: float) -> GateCall:
        self._sweep()
        return await self._calls.wait(self._guest, call, wait)

    async def look_at_many(self, calls: Sequence[str], wait: float) -> list[GateCall]:
        self._sweep()
        return await self._calls.wait_for_any(self._guest, calls, wait)

    async def claim(self, call: str, lease: float | None, *, again: bool) -> Permit:
        return await self._calls.claim(self._guest, call, lease, again=again)

    async def renew(self, call: str, token: str, lease: float | None) -> float:
        return await self._calls.renew(self._guest, call, token, lease)

    async def report(self, call: str, token: str, outcome: Reported, output: Json) -> GateCall:
        return await self._calls.report(self._guest, call, token, outcome, output)

    async def withdraw(self, call: str) -> GateCall:
        return await self._calls.withdraw(self._guest, call)

    async def close_session(self, session: str) -> None:
        await self._calls.close_session(self._guest, session)

    async def aclose(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
            self._sweeping = None
        await self._calls.close()
        if self._owns_store:
            await self._store.close()

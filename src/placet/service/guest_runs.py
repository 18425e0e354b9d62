"""The runs that guests' sessions are: looked at, changed and shown. What all verbs of the gate stand on.

Every change is one append to the session's run, at the position that was looked at; on a conflict it is looked at
again. What follows from a change (a deadline, a rejection's text, the end of a session) is part of the same append.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Awaitable, Callable
from typing import TypeVar

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.gate import may_be_granted
from placet.core.guest import (
    GateCall,
    Guest,
    view,
)
from placet.core.holds import hold_on
from placet.core.state import Call, RunFold
from placet.core.transitions import RUNNABLE, Status
from placet.facts.errors import (
    BudgetExhausted,
    CallNotFound,
    GateError,
    PositionConflict,
    RunFinished,
    StoreError,
)
from placet.ports import DeskStore, PolicySource, ReceiptIssuer
from placet.runtime.granting import decision_by_grant
from placet.service import guest_facts as facts
from placet.service.guest_facts import Draft
from placet.service.guest_limits import GuestLimits
from placet.service.guest_permits import Permits
from placet.service.guest_sessions import Place, Sessions, load_place
from placet.service.guest_watch import Watcher
from placet.service.rates import Buckets

V = TypeVar("V")

MAX_TRIES = 200


class GuestRuns:
    """A store, and how a guest's run in it is read and changed."""

    def __init__(
        self,
        store: DeskStore,
        clock: Clock = SYSTEM_CLOCK,
        limits: GuestLimits | None = None,
        policy: PolicySource | None = None,
        receipts: ReceiptIssuer | None = None,
    ) -> None:
        self._store = store
        self._policy = policy
        self._receipts = receipts
        self._clock = clock
        self.limits = limits or GuestLimits()
        self._sessions = Sessions(store, clock)
        self._permits = Permits(store, clock)
        self._rates = Buckets(self.limits.asks_per_second, self.limits.burst, clock)
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        """Those of this process change a run one after the other, so that none of them starves."""
        self.watcher = Watcher(store)

    async def close(self) -> None:
        await self.watcher.close()

    async def _is_left(self, call: Call) -> bool:
        if call.status is not Status.STARTED or call.permit is None:
            return False
        lease = await self._permits.lease(call.permit)
        return lease is None or lease.until <= self._now()

    async def _decide_by_grants(self, draft: Draft, run_id: str) -> None:
        """Let standing decisions decide what waits. Each use is a decision of its own in the log."""
        run, now = draft.run, self._now()
        waiting = [call for call in run.calls.values() if may_be_granted(call, now)]
        if not waiting:
            return
        standing = list(await self._store.standing_grants(run.response_agent))
        if not standing and not run.ledger.grants():
            return
        four_eyes = await self._store.four_eyes()
        for call in waiting:
            made = await decision_by_grant(self._store, run_id, run, run, call, standing, four_eyes, now)
            if made is not None:
                draft.note(made)

    async def _place_or_none(self, run_id: str) -> Place | None:
        try:
            return await load_place(self._store, run_id)
        except RunFinished:  # it was erased
            return None

    async def _change(
        self, run_id: str, act: Callable[[Draft], Awaitable[GateError | None] | GateError | None]
    ) -> Place:
        """Look, say what follows, and append it if nobody else spoke in between. An error that `act` gives back is
        raised when what it noted is written."""
        for _ in range(MAX_TRIES):
            async with self._lock(run_id):
                place = await load_place(self._store, run_id)
                if place is None:
                    raise CallNotFound(f"There is no session {run_id}.")
                if place.run.has_ended:
                    return place
                draft = Draft(place.run)
                said = act(draft)
                error = await said if isinstance(said, Awaitable) else said
                facts.follow_up(draft, self._now(), place.last)
                try:
                    await self._append(place, draft)
                except (PositionConflict, BudgetExhausted):
                    pass  # somebody else spoke, or took what was left: it is looked at again
                else:
                    if error is not None:
                        raise error
                    return place
            await pause_between_tries()
        raise StoreError(f"Session {run_id} changes so often that nothing could be appended to it: try again.")

    async def _append(self, place: Place, draft: Draft) -> None:
        if draft.facts:
            line = place.log.next_line(self._now(), draft.facts)
            await self._store.append(None, place.log, [line], draft.run)
            place.log.append(line)

    async def _of_guest(self, guest: Guest, run_id: str, local: str) -> tuple[Place, Call]:
        place = await self._place_or_none(run_id) if run_id else None
        if place is None:
            raise CallNotFound(f"Guest {guest.name} has no such call.")
        return place, self._own(guest, place.run, run_id, local)

    def _own(self, guest: Guest, run: RunFold, run_id: str, local: str) -> Call:
        """The call, if it is this guest's: of others' it is not even said that they are there."""
        call = run.calls.get(local)
        if run.guest is None or run.guest.guest != guest.name or call is None or call.proposed is None:
            raise CallNotFound(f"Guest {guest.name} has no such call.")
        return call

    async def _shown(self, place: Place, call: Call) -> GateCall:
        run, run_id = place.run, place.log.run_id
        is_held = False
        if call.status in RUNNABLE:
            holds = await self._store.holds()
            is_held = bool(holds) and hold_on(holds, run_id, run.response_agent, call.name) is not None
            is_held = is_held or (call.not_before is not None and self._now() < call.not_before)
        is_left = not asks_at_once(call) and await self._is_left(call)
        return view(run_id, run, call, is_held=is_held, is_left=is_left)

    def _lock(self, run_id: str) -> asyncio.Lock:
        lock = self._locks.get(run_id)
        if lock is None:
            lock = self._locks[run_id] = asyncio.Lock()
        return lock

    def _now(self) -> float:
        return round(self._clock.now(), 3)


def asks_at_once(call: Call) -> bool:
    """Whether a person is asked at once when whoever executes the call is gone."""
    return call.proposed is None or call.proposed.recovery == "ask" or call.attempts >= facts.MAX_ATTEMPTS


async def pause_between_tries() -> None:
    """Between two tries, so that those of several processes do not meet again."""
    await asyncio.sleep(random.uniform(0.0, 0.02))  # noqa: S311  # no secret

"""Calls that guests execute: proposed, decided, claimed, reported. What the embedded gate and the desk's API both use.

Every change is one append to the session's run, at the position that was looked at; on a conflict it is looked at
again. What follows from a change (a deadline, a rejection's text, the end of a session) is part of the same append.
"""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.claim import (
    AskedAnew,
    AskedOthers,
    Claim,
    ClaimRefused,
    LeaseLost,
    Passed,
    SetAside,
    TakenBack,
    judge_claim,
)
from placet.core.four_eyes import why_decision_does_not_count
from placet.core.gate import may_be_granted
from placet.core.guest import (
    GateCall,
    Guest,
    Permit,
    Proposal,
    admitted,
    check_guest,
    checked,
    find_call,
    view,
    wakes_at,
)
from placet.core.holds import hold_on
from placet.core.state import Call, RunFold
from placet.core.transitions import RUNNABLE, Status
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import (
    CallClaimed,
    CallNotClaimable,
    CallNotFound,
    GateError,
    PermitRefused,
    PositionConflict,
    RunFinished,
    StoreError,
    TooManyWaiting,
    UserError,
)
from placet.facts.events import AnyFact, ProposedCall, RunStarted, SessionClosed
from placet.facts.ids import call_id, mint, split_call_id
from placet.ports import DeskStore, RequestQuery
from placet.runtime.casting import not_carried
from placet.runtime.granting import decision_by_grant, grants_that_decided
from placet.service import guest_facts as facts
from placet.service.guest_answers import UNSETTLED, kept_output, permit_of, why_not_run
from placet.service.guest_facts import Draft
from placet.service.guest_limits import GuestLimits
from placet.service.guest_permits import Permits
from placet.service.guest_sessions import Place, Sessions, load_place
from placet.service.guest_watch import Watcher
from placet.service.rates import Buckets

logger = logging.getLogger("placet.gate")

V = TypeVar("V")

MAX_TRIES = 200
HELD_LOOK_SECONDS = 1.0
"""How often a call that an operator holds back is looked at: to lift a hold appends nothing to its run."""
LONGEST_WAIT = 60.0
MAX_RUNS_BACK = 100
"""Runs of one session that are looked through when it is closed."""
Reported = Literal["finished", "failed", "unknown"]


class GuestCalls:
    """The verbs of the gate, on a store. A guest is given, and sees and touches its own calls only."""

    def __init__(self, store: DeskStore, clock: Clock = SYSTEM_CLOCK, limits: GuestLimits | None = None) -> None:
        self._store = store
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

    # -- proposing ----------------------------------------------------------------------------------------------------

    async def propose(self, guest: Guest, proposal: Proposal) -> GateCall:
        """The call of this identity: as it stands, if there is one; else it is asked about."""
        check_guest(guest)
        if not self.limits.passes:
            proposal = msgspec.structs.replace(proposal, needs_approval=True)
        proposed, values = checked(guest, proposal)
        for _ in range(MAX_TRIES):
            run_id = await self._sessions.newest(guest, proposal.session)
            async with self._lock(run_id):
                place = await self._sessions.place(guest, proposal.session, run_id)
                if place is None:
                    continue  # the session goes on elsewhere
                found = await self._found(guest, proposal, place, proposed.digest)
                if found is not None:
                    return found
                if self._is_full(place):
                    await self._continue_elsewhere(place)
                    continue
                try:
                    return await self._propose(guest, proposal, proposed, values, place)
                except PositionConflict:
                    pass
            await _pause()
        raise StoreError(f"Session '{proposal.session}' changes so often that nothing can be proposed: try again.")

    async def _found(self, guest: Guest, proposal: Proposal, place: Place, digest: str) -> GateCall | None:
        """The same call, proposed before: by a retry, a restart, another process."""
        call = find_call(place.run, proposal.call_id, proposal.occurrence, digest)
        if call is not None:
            return await self._shown(place, call)
        if place.before is None:
            return None
        earlier = await self._sessions.earlier(guest, proposal.session, proposal.call_id, proposal.occurrence)
        for each in earlier:
            run_id, _ = split_call_id(each)
            before = await self._place_or_none(run_id)
            if before is None:
                raise CallClaimed(
                    f"A call '{proposal.call_id}' was made in this session before, and its record was erased: it is "
                    "unknown whether it is this one. Propose it under another call_id, or as another occurrence."
                )
            call = find_call(before.run, proposal.call_id, proposal.occurrence, digest)
            if call is not None:
                return await self._shown(before, call)
        return None

    def _is_full(self, place: Place) -> bool:
        return len(place.run.calls) >= self.limits.max_calls or place.log.size >= self.limits.max_bytes

    async def _continue_elsewhere(self, place: Place) -> None:
        draft = Draft(place.run)
        draft.note(SessionClosed("size", mint("run")))
        try:
            await self._append(place, draft)
        except PositionConflict:
            await _pause()

    async def _propose(
        self,
        guest: Guest,
        proposal: Proposal,
        proposed: ProposedCall,
        values: JsonObject | None,
        place: Place,
    ) -> GateCall:
        if proposal.needs_approval is not False:
            await self._check_limits(guest)
        draft = Draft(place.run)
        if not len(place.log):
            about = f"Calls of guest {guest.name}, through {guest.source}, in session {proposal.session}."
            draft.note(RunStarted(guest.agent, about, None, by=guest.name))
            draft.note(admitted(guest, proposal.session, self.limits.idle_seconds, place.before))
        call = facts.propose(draft, proposed, values, proposal, self._now())
        await self._decide_by_grants(draft, place.log.run_id)
        await self._append(place, draft)
        return await self._shown(place, call)

    async def _check_limits(self, guest: Guest) -> None:
        wait = self._rates.take(guest.name)
        if wait > 0:
            raise TooManyWaiting(f"Guest {guest.name} asks too often: wait {wait:.1f} s. Nothing was proposed.")
        most = self.limits.max_waiting
        page = await self._store.requests(RequestQuery(agent=guest.agent, limit=most))
        if len(page.rows) >= most:
            raise TooManyWaiting(
                f"{most} calls of guest {guest.name} wait for people already: nothing was proposed. Wait until some "
                "are decided, or withdraw them."
            )

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

    # -- looking and waiting ------------------------------------------------------------------------------------------

    async def look(self, guest: Guest, call: str) -> GateCall:
        """The call as it stands; what is due by now has been done."""
        run_id, local = split_call_id(call)
        place, found = await self._of_guest(guest, run_id, local)
        wakes = wakes_at(place.run, place.last) if not place.run.has_ended else None
        if wakes is not None and wakes <= self._now():
            await self.tend(run_id)
            place, found = await self._of_guest(guest, run_id, local)
        return await self._shown(place, found)

    async def wait(self, guest: Guest, call: str, seconds: float) -> GateCall:
        """The call as it stands when something can be done about it, or when the time is over."""
        run_id, local = split_call_id(call)
        time = asyncio.get_running_loop().time
        until = time() + min(seconds, LONGEST_WAIT)
        found = await self.look(guest, call)
        if found.status not in UNSETTLED or seconds <= 0:
            return found
        async with self.watcher.listen(run_id, local) as news:
            while True:
                news.clear()
                found = await self.look(guest, call)
                left = until - time()
                if found.status not in UNSETTLED or left <= 0 or self.watcher.is_ending:
                    return found
                await _event(news, self._pause_for(found, left))

    def _pause_for(self, found: GateCall, left: float) -> float:
        if found.status == "held":
            return min(left, HELD_LOOK_SECONDS)
        if found.expires_at is not None:
            return min(left, max(0.0, found.expires_at - self._clock.now()) + 0.01)
        return left

    # -- claiming -----------------------------------------------------------------------------------------------------

    async def claim(
        self,
        guest: Guest,
        call: str,
        lease_seconds: float | None = None,
        *,
        again: bool = False,
        key: str | None = None,
    ) -> Permit:
        """The right to execute the call, or an error that says why not. `again`: of a call that this guest claimed
        before, the permit once more; the one before is void. `key`: a secret of code that claims, by which the same
        claim can be asked for twice, where its answer was lost."""
        seconds = self._lease(lease_seconds)
        run_id, local = split_call_id(call)
        place, found = await self._of_guest(guest, run_id, local)
        if again and found.status is Status.STARTED and found.permit is not None:
            return await self._again(guest, place, found, seconds)
        same = await self._same_claim(place, found, key)
        if same is not None:
            return same
        refusal = await self._why_not_claimable(place.run, run_id, found)
        if refusal is not None:
            raise refusal
        until = self._now() + seconds
        asks_at = until + (0.0 if _asks(found) else self.limits.recovery_seconds)
        permit, token = await self._permits.prepare(call, guest.name, until, asks_at, key)
        try:
            after = await self._change(run_id, lambda draft: self._claim(guest, draft, run_id, local, permit))
        except GateError:  # certainly not claimed; after anything else nobody knows, and the lease says when to ask
            await self._permits.end(permit)
            raise
        claimed = after.run.calls[local]
        if claimed.permit != permit:  # the session ended in between
            await self._permits.end(permit)
            raise why_not_run(view(run_id, after.run, claimed))
        if not guest_reports(after.run):
            await self._permits.end(permit)
        return permit_of(view(run_id, after.run, claimed), token, until)

    async def _claim(self, guest: Guest, draft: Draft, run_id: str, local: str, permit: str) -> GateError | None:
        """The last look before the claim: the one that every call passes, whoever executes it."""
        run, now = draft.run, self._now()
        call = self._own(guest, run, run_id, local)
        refusal = await self._why_not_claimable(draft.run, run_id, call)
        if refusal is not None:
            return refusal
        decision = call.decision
        four_eyes = await self._store.four_eyes() if decision is not None else ()
        grants = await grants_that_decided(self._store, run_id, run, [call])
        verdict = judge_claim(
            Claim(
                call=call,
                run_id=run_id,
                agent=run.response_agent,
                now=now,
                has_lease=True,
                is_cancelled=run.cancel_asked is not None,
                holds=await self._store.holds(),
                digests=(facts.digest_now(run, call),),
                not_theirs=why_decision_does_not_count(four_eyes, run, decision)
                if four_eyes and decision is not None
                else None,
                valid_for=call.proposed.approval_valid_for if call.proposed is not None else None,
                grant=grants[0] if grants else None,
                not_carried=await not_carried(self._store, run, call, grants[0] if grants else None, four_eyes),
            )
        )
        match verdict:
            case Passed():
                facts.start(draft, call, permit)
                return None
            case SetAside():
                held = view(run_id, run, call, is_held=True)
                return CallNotClaimable(f"Call {held.id} may run, and an operator holds it back: wait.", held)
            case ClaimRefused() | AskedAnew() | TakenBack():
                facts.void(draft, call, verdict, now)
                await self._decide_by_grants(draft, run_id)
                return CallNotClaimable(f"Call {call_id(run_id, local)} cannot begin: {verdict.why}.")
            case LeaseLost() | AskedOthers():
                raise AssertionError("a guest's claim rests on no lease of a driver")

    async def _why_not_claimable(self, run: RunFold, run_id: str, call: Call) -> GateError | None:
        if call.status in RUNNABLE or await self._may_be_begun_again(call):
            return None
        return why_not_run(view(run_id, run, call))

    async def _may_be_begun_again(self, call: Call) -> bool:
        """Whether its guest said that it may be repeated, and whoever executed it is gone."""
        is_safe = call.proposed is not None and call.proposed.recovery == "retry" and call.attempts < facts.MAX_ATTEMPTS
        return call.status is Status.STARTED and is_safe and await self._is_left(call)

    async def _is_left(self, call: Call) -> bool:
        if call.status is not Status.STARTED or call.permit is None:
            return False
        lease = await self._permits.lease(call.permit)
        return lease is None or lease.until <= self._now()

    async def _same_claim(self, place: Place, call: Call, key: str | None) -> Permit | None:
        """The permit that was given out under this key, while it counts."""
        token = await self._permits.token_of(call.permit, key)
        if token is None or call.permit is None:
            return None
        shown = view(place.log.run_id, place.run, call)
        if call.outcome == "released":
            return permit_of(shown, token, self._now())
        lease = await self._permits.lease(call.permit) if call.status is Status.STARTED else None
        return None if lease is None or lease.until <= self._now() else permit_of(shown, token, lease.until)

    async def _again(self, guest: Guest, place: Place, call: Call, seconds: float) -> Permit:
        assert call.permit is not None
        shown = view(place.log.run_id, place.run, call)
        until = self._now() + seconds
        asks_at = until + (0.0 if _asks(call) else self.limits.recovery_seconds)
        token = await self._permits.hand_out_again(call.permit, shown.id, guest.name, until, asks_at)
        return permit_of(shown, token, until, is_again=True)

    async def renew(self, guest: Guest, call: str, token: str, lease_seconds: float | None = None) -> float:
        """How long the permit lasts from now on; PermitRefused where its lease has ended."""
        seconds = self._lease(lease_seconds)
        permit = await self._permits.check(token, call, guest.name)
        run_id, local = split_call_id(call)
        _, found = await self._of_guest(guest, run_id, local)
        until = self._now() + seconds
        asks_at = until + (0.0 if _asks(found) else self.limits.recovery_seconds)
        is_at_work = found.status is Status.STARTED and found.permit == permit
        if not is_at_work or not await self._permits.renew(permit, until, asks_at):
            raise PermitRefused(
                f"The lease of call {call} has ended, or another process has it: a person is asked about what you did. "
                "Report it with this token all the same."
            )
        return until

    def _lease(self, seconds: float | None) -> float:
        if seconds is None:
            return self.limits.lease_seconds
        if not 0 < seconds <= self.limits.max_lease:
            raise UserError(f"A lease has up to {self.limits.max_lease:g} seconds here, not {seconds:g}.")
        return seconds

    # -- reporting ----------------------------------------------------------------------------------------------------

    async def report(self, guest: Guest, call: str, token: str, outcome: Reported, output: Json = None) -> GateCall:
        """What happened to a call that was claimed with this token. `unknown`: nobody can tell, and a person is
        asked."""
        if outcome not in ("finished", "failed", "unknown"):
            raise UserError(f"A call is reported as finished, failed or unknown, not as {outcome!r}.")
        permit = await self._permits.check(token, call, guest.name)
        run_id, local = split_call_id(call)
        place, found = await self._of_guest(guest, run_id, local)
        if found.status is Status.ENDED and found.permit == permit and found.outcome == outcome:
            return await self._shown(place, found)  # told twice: the answer to the first report was lost
        if place.run.has_ended:
            self._alarm(call, outcome, "its session is over")
            return await self._shown(place, found)
        text = kept_output(found.name, output, self.limits.max_output)

        def tell(draft: Draft) -> None:
            told = self._own(guest, draft.run, run_id, local)
            if outcome == "unknown":
                if told.status is Status.STARTED and told.permit == permit:
                    facts.doubt(draft, told, facts.UNKNOWN)
            elif not facts.report(draft, told, permit, outcome, text):
                self._alarm(call, outcome, f"it is {told.status.value} under another permit or decision")

        after = await self._change(run_id, tell)
        await self._permits.end(permit)
        return await self._shown(after, after.run.calls[local])

    def _alarm(self, call: str, outcome: str, why: str) -> None:
        """A call may have happened more often than anybody decided: people should look."""
        logger.error("late report", extra={"action": "late_report", "call_id": call, "outcome": outcome, "why": why})

    async def withdraw(self, guest: Guest, call: str) -> GateCall:
        """End a call that has not begun. One that has, or has ended, is as it is."""
        run_id, local = split_call_id(call)

        def end(draft: Draft) -> None:
            found = self._own(guest, draft.run, run_id, local)
            if found.status is Status.HELD or found.status in (Status.ALLOWED, Status.APPROVED):
                facts.withdraw(draft, found)

        place, _ = await self._of_guest(guest, run_id, local)
        after = place if place.run.has_ended else await self._change(run_id, end)
        return await self._shown(after, after.run.calls[local])

    async def close_session(self, guest: Guest, session: str) -> None:
        """End what waits in the session, and then the session. What is being executed ends by its report."""
        check_guest(guest)
        if not await self._sessions.known(guest, session):
            return
        run_id: str | None = await self._sessions.newest(guest, session)
        for _ in range(MAX_RUNS_BACK):  # those before it may still have calls that wait
            place = await self._place_or_none(run_id) if run_id is not None else None
            if run_id is None or place is None:
                return
            if not place.run.has_ended:
                await self._change(run_id, _end_session)
            run_id = place.before

    async def _place_or_none(self, run_id: str) -> Place | None:
        try:
            return await load_place(self._store, run_id)
        except RunFinished:  # it was erased
            return None

    # -- what is due --------------------------------------------------------------------------------------------------

    async def tend(self, run_id: str) -> bool:
        """Do what is due in a guest's session: deadlines, standing decisions, its end. Whether anything was."""

        async def look(draft: Draft) -> None:
            await self._decide_by_grants(draft, run_id)

        before = await load_place(self._store, run_id)
        if before is None or before.run.has_ended:
            return False
        after = await self._change(run_id, look)
        return len(after.log) > len(before.log)

    async def follow_up(self, run_id: str, run: RunFold, last: float) -> list[AnyFact]:
        """What follows from facts that are about to be appended to a guest's session, and are in this fold already."""
        draft = Draft(run)
        await self._decide_by_grants(draft, run_id)
        facts.follow_up(draft, self._now(), last)
        return draft.facts

    async def end_leases(self) -> int:
        """Put before people what was claimed and not reported in time; how many."""
        now = self._now()
        over = await self._permits.over(now)
        for permit, lease in over:
            await self._end_lease(permit, lease.call)
        return len(over)

    async def _end_lease(self, permit: str, call: str) -> None:
        run_id, local = split_call_id(call)

        async def ask(draft: Draft) -> None:
            found = draft.run.calls.get(local)
            lease = await self._permits.lease(permit)
            is_over = lease is None or lease.asks_at <= self._now()
            if found is not None and found.status is Status.STARTED and found.permit == permit and is_over:
                facts.doubt(draft, found, facts.GONE)

        place = await self._place_or_none(run_id)
        if place is not None and not place.run.has_ended:
            await self._change(run_id, ask)
        lease = await self._permits.lease(permit)
        if lease is not None and lease.asks_at <= self._now():
            await self._permits.end(permit)

    # -- inside -------------------------------------------------------------------------------------------------------

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
                except PositionConflict:
                    pass
                else:
                    if error is not None:
                        raise error
                    return place
            await _pause()
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
        is_left = not _asks(call) and await self._is_left(call)
        return view(run_id, run, call, is_held=is_held, is_left=is_left)

    def _lock(self, run_id: str) -> asyncio.Lock:
        lock = self._locks.get(run_id)
        if lock is None:
            lock = self._locks[run_id] = asyncio.Lock()
        return lock

    def _now(self) -> float:
        return round(self._clock.now(), 3)


def _end_session(draft: Draft) -> None:
    if draft.run.closed is None:
        draft.note(SessionClosed("closed"))
    facts.close(draft)


def guest_reports(run: RunFold) -> bool:
    return run.guest is not None and run.guest.reports


def _asks(call: Call) -> bool:
    """Whether a person is asked at once when whoever executes the call is gone."""
    return call.proposed is None or call.proposed.recovery == "ask" or call.attempts >= facts.MAX_ATTEMPTS


async def _pause() -> None:
    """Between two tries, so that those of several processes do not meet again."""
    await asyncio.sleep(random.uniform(0.0, 0.02))  # noqa: S311  # no secret


async def _event(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass

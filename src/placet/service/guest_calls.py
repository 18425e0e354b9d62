"""Calls that guests execute: proposed, decided, claimed, reported. The embedded gate and the desk's API use it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from placet.core.approver_rules import with_deadline, with_rules
from placet.core.gate import Ask, Free, Verdict
from placet.core.guest import (
    GateCall,
    Guest,
    Proposal,
    admitted,
    check_guest,
    checked,
    find_call,
    status_of,
    wakes_at,
)
from placet.core.policy import CHANGE_SOURCE
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import (
    CallClaimed,
    PositionConflict,
    StoreError,
    TooManyWaiting,
    UserError,
)
from placet.facts.events import AnyFact, ProposedCall, RunStarted, SessionClosed
from placet.facts.ids import mint, split_call_id
from placet.ports import RequestQuery
from placet.runtime.casting import approver_rules, ladder_of
from placet.service import guest_facts as facts
from placet.service.guest_answers import UNSETTLED, kept_output
from placet.service.guest_claims import GuestClaims
from placet.service.guest_facts import Draft
from placet.service.guest_policy import judge_proposed, note_requirement
from placet.service.guest_runs import MAX_TRIES, pause_between_tries
from placet.service.guest_sessions import Place, load_place

logger = logging.getLogger("placet.gate")


HELD_LOOK_SECONDS = 1.0
"""How often a call that an operator holds back is looked at: to lift a hold appends nothing to its run."""
LONGEST_WAIT = 60.0
MAX_RUNS_BACK = 100
"""Runs of one session that are looked through when it is closed."""
Reported = Literal["finished", "failed", "unknown"]


class GuestCalls(GuestClaims):
    """The verbs of the gate, on a store. A guest is given, and sees and touches its own calls only."""

    reserved: frozenset[str] = frozenset({CHANGE_SOURCE})
    """Sources by which no guest may call itself."""

    # -- proposing ----------------------------------------------------------------------------------------------------

    async def propose(self, guest: Guest, proposal: Proposal) -> GateCall:
        """The call of this identity: as it stands, if there is one; else it is asked about."""
        check_guest(guest, self.reserved)
        if self.limits.lets_through(guest, proposal.tool):
            proposal = msgspec.structs.replace(proposal, needs_approval=False)
        elif not self.limits.passes:
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
            await pause_between_tries()
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
            await pause_between_tries()

    async def _propose(
        self,
        guest: Guest,
        proposal: Proposal,
        proposed: ProposedCall,
        values: JsonObject | None,
        place: Place,
    ) -> GateCall:
        draft = Draft(place.run)
        if not len(place.log):
            about = f"Calls of guest {guest.name}, through {guest.source}, in session {proposal.session}."
            draft.note(RunStarted(guest.agent, about, None, by=guest.name))
            draft.note(admitted(guest, proposal.session, self.limits.idle_seconds, place.before))
        call = facts.propose(draft, proposed, values)
        verdict = await self._judged(draft, place.log.run_id, call, asks=proposal.needs_approval is not False)
        if not isinstance(verdict, Ask):
            facts.judged(draft, call, verdict, proposal, self._now())
        else:
            await self._check_limits(guest)
            rules = await approver_rules(self._store, draft.run.response_agent, call.name)
            asked = msgspec.structs.replace(verdict, question=with_deadline(verdict.question, rules))
            facts.judged(draft, call, asked, proposal, self._now())
            own = None if verdict.question is None else verdict.question.requirement
            note_requirement(draft, call, with_rules(own, rules))
            if (ladder := ladder_of(call, rules, self._now())) is not None:
                draft.note(ladder)
        await self._decide_by_grants(draft, place.log.run_id)
        await self._append(place, draft)
        return await self._shown(place, call)

    async def _judged(self, draft: Draft, run_id: str, call: Call, *, asks: bool) -> Verdict:
        if self._policy is None:
            return Ask() if asks else Free()
        return await judge_proposed(draft, self._store, run_id, self._policy.current(), call, self._now(), asks=asks)

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

    async def entry(self, guest: Guest, call: str) -> Call:
        """The call as the log has it, for whoever tells of it in other words."""
        run_id, local = split_call_id(call)
        return (await self._of_guest(guest, run_id, local))[1]

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

    async def wait_for_any(self, guest: Guest, calls: Sequence[str], seconds: float) -> list[GateCall]:
        """Of these calls those about which something can be done, as soon as there is one; none when the time is over.
        Who waits for many costs no more than who waits for one."""
        time = asyncio.get_running_loop().time
        until = time() + min(seconds, LONGEST_WAIT)
        places = {call: split_call_id(call) for call in calls}
        async with self.watcher.listen_to_all(places) as news:
            found = [await self.look(guest, call) for call in places]
            while True:
                settled = [call for call in found if call.status not in UNSETTLED]
                left = until - time()
                if settled or left <= 0 or self.watcher.is_ending:
                    return settled
                pause = min([self._pause_for(call, left) for call in found], default=left)
                await _event(news.event, pause)
                named = news.take() or set(places)  # the pause is over: something may be due
                found = [await self.look(guest, call.id) if call.id in named else call for call in found]

    def _pause_for(self, found: GateCall, left: float) -> float:
        if found.status == "held":
            return min(left, HELD_LOOK_SECONDS)  # an operator's hold, or a time before which it must not begin
        if found.expires_at is not None:
            return min(left, max(0.0, found.expires_at - self._clock.now()) + 0.01)
        return left

    # -- reporting ----------------------------------------------------------------------------------------------------

    async def report(self, guest: Guest, call: str, token: str, outcome: Reported, output: Json = None) -> GateCall:
        """What happened to a call that was claimed with this token. `unknown`: nobody can tell, and a person is
        asked."""
        if outcome not in ("finished", "failed", "unknown"):
            raise UserError(f"A call is reported as finished, failed or unknown, not as {outcome!r}.")
        permit = await self._permits.check(token, call, guest.name)
        run_id, local = split_call_id(call)
        place, found = await self._of_guest(guest, run_id, local)
        if found.status is Status.ENDED and found.permit == permit and status_of(found) == outcome:
            return await self._shown(place, found)  # told twice: the answer to the first report was lost
        text = kept_output(found.name, output, self.limits.max_output)
        heard: list[Draft] = []

        def tell(draft: Draft) -> None:
            heard.append(draft)
            told = self._own(guest, draft.run, run_id, local)
            if outcome == "unknown":
                if told.status is Status.STARTED and told.permit == permit:
                    facts.doubt(draft, told, facts.UNKNOWN)
            elif not facts.report(draft, told, permit, outcome, text):
                self._alarm(call, outcome, f"it is {told.status.value} under another permit or decision")

        after = await self._change(run_id, tell)
        if not heard and outcome != "unknown":
            self._alarm(call, outcome, "its session is over")
            await self._permits.keep_report(permit, call, guest.name, outcome)
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
        check_guest(guest, self.reserved)
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


def _end_session(draft: Draft) -> None:
    if draft.run.closed is None:
        draft.note(SessionClosed("closed"))
    facts.close(draft)


async def _event(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass

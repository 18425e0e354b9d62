"""How a guest gets the right to execute a call: the claim, its permit and its lease."""

from __future__ import annotations

from collections.abc import Sequence

from placet.core.approver_rules import objection_by_rules
from placet.core.claim import (
    AskedAnew,
    AskedOthers,
    Claim,
    ClaimRefused,
    LeaseLost,
    Passed,
    PolicyObjection,
    SetAside,
    TakenBack,
    judge_claim,
)
from placet.core.four_eyes import parties_of, why_decision_does_not_count
from placet.core.guest import (
    GateCall,
    Guest,
    Permit,
    view,
)
from placet.core.receipt import receipt_claims
from placet.core.state import Call, RunFold
from placet.core.transitions import RUNNABLE, Status
from placet.facts.errors import (
    CallNotClaimable,
    GateError,
    PermitRefused,
    UserError,
)
from placet.facts.events import GrantMade
from placet.facts.ids import call_id, split_call_id
from placet.runtime.budgets import NOTHING_BOUND, Covered, bound_of_grant, look
from placet.runtime.casting import approver_rules, not_carried
from placet.runtime.granting import grants_that_decided
from placet.runtime.receipting import signed
from placet.service import guest_facts as facts
from placet.service.guest_answers import permit_of, why_not_run
from placet.service.guest_facts import Draft
from placet.service.guest_policy import note_requirement, objection
from placet.service.guest_runs import GuestRuns, asks_at_once
from placet.service.guest_sessions import Place


class GuestClaims(GuestRuns):
    """The verbs about permits."""

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
        await self._receipt(run_id, place.run, found)  # a key that cannot sign says so before anything is claimed
        until = self._now() + seconds
        asks_at = until + (0.0 if asks_at_once(found) else self.limits.recovery_seconds)
        # The lease is written before the claim, not with it: between the two stands a lease without a claim, which
        # ends by itself. The other way round a crash would leave a claim that nobody is ever asked about.
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
        return await self._permit(run_id, after.run, claimed, token, until)

    async def _permit(
        self, run_id: str, run: RunFold, call: Call, token: str, until: float, *, is_again: bool = False
    ) -> Permit:
        permit = permit_of(view(run_id, run, call), token, until, is_again=is_again)
        permit.receipt = await self._receipt(run_id, run, call)
        return permit

    async def _receipt(self, run_id: str, run: RunFold, call: Call) -> str | None:
        """Of the call as it was claimed: what is signed is what the permit says."""
        if self._receipts is None:
            return None
        valid_for = call.proposed.approval_valid_for if call.proposed is not None else None
        claims = receipt_claims(run_id, run, call, call.name, valid_for)
        return None if claims is None else await signed(self._receipts, claims, self._now())

    async def _claim(self, guest: Guest, draft: Draft, run_id: str, local: str, permit: str) -> GateError | None:
        """The last look before the claim: the one that every call passes, whoever executes it."""
        run, now = draft.run, self._now()
        call = self._own(guest, run, run_id, local)
        refusal = await self._why_not_claimable(draft.run, run_id, call)
        if refusal is not None:
            return refusal
        judged, covered = await self._as_it_stands(draft, run_id, call, now)
        verdict = judge_claim(judged)
        match verdict:
            case Passed():
                for taken in covered.facts.get(local, ()):
                    draft.note(taken)  # in the append of the claim: both are written, or neither
                facts.start(draft, call, permit)
                return None
            case SetAside(until):
                return _set_aside(view(run_id, run, call, is_held=True), until, now)
            case ClaimRefused() | AskedAnew() | TakenBack():
                await self._refuse(draft, run_id, call, verdict, judged)
                return CallNotClaimable(f"Call {call_id(run_id, local)} cannot begin: {verdict.why}.")
            case LeaseLost() | AskedOthers():
                raise AssertionError("a guest's claim rests on no lease of a driver")

    async def _as_it_stands(self, draft: Draft, run_id: str, call: Call, now: float) -> tuple[Claim, Covered]:
        """All that the claim is judged by, and what the budgets of rules and standing decisions cover of it."""
        run = draft.run
        decision = call.decision
        four_eyes = await self._store.four_eyes() if decision is not None else ()
        people = await self._store.people(parties_of(run, [decision])) if decision is not None and four_eyes else {}
        grants = await grants_that_decided(self._store, run_id, run, [call])
        grant = grants[0] if grants else None
        covered = await self._left_of_grants(run_id, call, grants, now)
        against: PolicyObjection | None = None
        if self._policy is not None:
            against, by_rules = await objection(draft, self._store, run_id, self._policy.current(), call, now)
            covered |= by_rules
        if against is None and decision is not None:
            rules = await approver_rules(self._store, run.response_agent, call.name)
            against = objection_by_rules(run, call, rules)
        judged = Claim(
            call=call,
            run_id=run_id,
            agent=run.response_agent,
            now=now,
            has_lease=True,
            is_cancelled=run.cancel_asked is not None,
            holds=await self._store.holds(),
            digests=(facts.digest_now(run, call),),
            not_theirs=why_decision_does_not_count(four_eyes, people, run, decision)
            if four_eyes and decision is not None
            else None,
            valid_for=call.proposed.approval_valid_for if call.proposed is not None else None,
            grant=grant,
            not_carried=await not_carried(self._store, run, call, grant, four_eyes),
            policy=against,
            not_covered=covered.why_not.get(call.id) if against is None else None,
        )
        return judged, covered

    async def _refuse(
        self, draft: Draft, run_id: str, call: Call, verdict: ClaimRefused | AskedAnew | TakenBack, judged: Claim
    ) -> None:
        """What let the call run lets it run no more: it ends, or it is asked about anew."""
        against = judged.policy
        facts.void(draft, call, verdict, judged.now, against.question if against is not None else None)
        if against is not None and against.asks is not None and draft.run.calls[call.id].status is Status.HELD:
            note_requirement(draft, call, against.requirement)
        await self._decide_by_grants(draft, run_id)

    async def _left_of_grants(self, run_id: str, call: Call, grants: Sequence[GrantMade], now: float) -> Covered:
        """Whether what is left of the budget of the standing decision that approved the call covers it."""
        bound = bound_of_grant(grants[0]) if grants else None
        return NOTHING_BOUND if bound is None else await look(self._store, run_id, [(call, [bound])], now)

    async def _why_not_claimable(self, run: RunFold, run_id: str, call: Call) -> GateError | None:
        if call.status in RUNNABLE or await self._may_be_begun_again(call):
            return None
        return why_not_run(view(run_id, run, call))

    async def _may_be_begun_again(self, call: Call) -> bool:
        """Whether its guest said that it may be repeated, and whoever executed it is gone."""
        is_safe = call.proposed is not None and call.proposed.recovery == "retry" and call.attempts < facts.MAX_ATTEMPTS
        return call.status is Status.STARTED and is_safe and await self._is_left(call)

    async def _same_claim(self, place: Place, call: Call, key: str | None) -> Permit | None:
        """The permit that was given out under this key, while it counts."""
        token = await self._permits.token_of(call.permit, key)
        if token is None or call.permit is None:
            return None
        claimed = place.log.run_id, place.run, call, token
        if call.outcome == "released":
            return await self._permit(*claimed, self._now())
        lease = await self._permits.lease(call.permit) if call.status is Status.STARTED else None
        return None if lease is None or lease.until <= self._now() else await self._permit(*claimed, lease.until)

    async def _again(self, guest: Guest, place: Place, call: Call, seconds: float) -> Permit:
        assert call.permit is not None
        shown = view(place.log.run_id, place.run, call)
        until = self._now() + seconds
        asks_at = until + (0.0 if asks_at_once(call) else self.limits.recovery_seconds)
        token = await self._permits.hand_out_again(call.permit, shown.id, guest.name, until, asks_at)
        return await self._permit(place.log.run_id, place.run, call, token, until, is_again=True)

    async def renew(self, guest: Guest, call: str, token: str, lease_seconds: float | None = None) -> float:
        """How long the permit lasts from now on; PermitRefused where its lease has ended."""
        seconds = self._lease(lease_seconds)
        permit = await self._permits.check(token, call, guest.name)
        run_id, local = split_call_id(call)
        _, found = await self._of_guest(guest, run_id, local)
        until = self._now() + seconds
        asks_at = until + (0.0 if asks_at_once(found) else self.limits.recovery_seconds)
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


def guest_reports(run: RunFold) -> bool:
    return run.guest is not None and run.guest.reports


def _set_aside(held: GateCall, until: float | None, now: float) -> CallNotClaimable:
    if until is not None:
        return CallNotClaimable(f"Call {held.id} was approved and may begin in {until - now:.0f} seconds: wait.", held)
    return CallNotClaimable(f"Call {held.id} may run, and an operator holds it back: wait.", held)

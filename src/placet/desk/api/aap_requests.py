"""Requests of the Agent Approval Protocol, as calls of a guest: what its client is told of them, and what it may do.

The call is in the log, as every guest's. Beside it stands a record of what only the protocol knows: which idempotency
key took the approval, and which outcome was told first. What was said of a request once is not taken back: a decision
is written there before anybody is told of it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Literal

import msgspec

from placet.clock import Clock
from placet.core.guest import GateCall, GateStatus, Guest, Permit, Proposal, checked
from placet.core.state import Call
from placet.desk.api.aap_shapes import (
    AapConsumption,
    AapDecision,
    AapOutcome,
    AapReport,
    AapRequest,
    AapStatus,
    AapSubmission,
    seconds_of,
    stamp,
)
from placet.desk.web.problems import Problem
from placet.facts.codec import JsonObject, canonical, encode
from placet.facts.errors import CallClaimed, CallNotFound, GateError, LimitExceeded, UserError
from placet.ports import DeskStore, StoredRecord
from placet.service.guest_calls import GuestCalls

KIND = "aap_request"
KEPT = 100 * 86_400.0
"""After its deadline. The protocol asks for a week."""
VALID_SECONDS = 300.0
"""How long an approval may be used: the protocol's word is that it says so, and that it does not change."""
LEASE_SECONDS = 900.0
"""A client has no way to renew its claim: after this time without a report a person is asked."""
LONGEST_WINDOW = 30 * 86_400.0
MAX_KEY = 255

_STATUS: dict[GateStatus, AapStatus] = {
    "waiting": "pending",
    "held": "pending",  # it is told of the approval when the hold is lifted: until then it could not use it
    "rejected": "denied",
    "denied": "denied",
    "expired": "expired",
    "superseded": "cancelled",
    "cancelled": "cancelled",
}
"""What is not here may run, or began to: it was approved."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of the request."""

    status: Literal["approved", "denied", "expired", "cancelled"]
    decided_at: float
    expires_at: float | None = None
    attempts: int = 0


class Consumed(msgspec.Struct, frozen=True, kw_only=True):
    """Who took the approval."""

    key: str
    at: float
    attempts: int
    """How often the call had begun before."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["succeeded", "failed"]
    at: float
    said: str
    """A digest of the note."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    guest: str
    asked: str
    """A digest of what was submitted."""
    tool: str
    timeout: str
    created_at: float
    deadline_at: float
    server: str | None = None
    call: str | None = None
    settled: Settled | None = None
    consumed: Consumed | None = None
    outcome: Outcome | None = None


class _Known(msgspec.Struct, frozen=True):
    """A request with its call, as they stand."""

    kept: Kept
    entry: Call
    call: GateCall


class AapRequests:
    """The requests of one guest."""

    def __init__(self, store: DeskStore, guests: GuestCalls, clock: Clock, guest: str) -> None:
        self._store = store
        self._guests = guests
        self._clock = clock
        self._guest = Guest(name=guest, source="aap", edits=False, answers=False)

    # -- what a client asks for ---------------------------------------------------------------------------------------

    async def create(self, given: AapSubmission, key: str | None) -> tuple[AapRequest, bool]:
        """The request under this key, and whether it is new."""
        request_id = _id_of(self._guest.name, _checked_key(key))
        asked = hashlib.sha256(canonical(msgspec.to_builtins(given))).hexdigest()
        proposal = _proposal(given, request_id)
        try:
            checked(self._guest, proposal)  # nothing is kept of what is no proposal
        except (UserError, LimitExceeded) as error:
            raise Problem(400, error.code, error.message) from error
        now = self._now()
        window = min(seconds_of(given.timeout), LONGEST_WINDOW)
        mine = Kept(
            guest=self._guest.name,
            asked=asked,
            tool=given.tool,
            timeout=given.timeout,
            created_at=now,
            deadline_at=round(now + window, 3),
            server=given.server,
        )
        is_new = await self._store.add_record(self._record(request_id, mine))
        kept = mine if is_new else await self._kept(request_id)
        if kept.asked != asked:
            raise _conflict("idempotency_conflict", "This Idempotency-Key was used for another request.")
        if kept.call is None:
            await self._propose(request_id, kept, proposal, is_new=is_new)
        return await self.show(request_id), is_new

    async def _propose(self, request_id: str, kept: Kept, proposal: Proposal, *, is_new: bool) -> None:
        left = max(0.001, kept.deadline_at - self._now())
        try:
            call = await self._guests.propose(self._guest, msgspec.structs.replace(proposal, decide_within=left))
        except UserError:
            if is_new:  # too many wait, or too fast: nothing was asked, and the key is free
                await self._store.take_record(KIND, request_id)
            raise
        await self._write(request_id, lambda old: msgspec.structs.replace(old, call=call.id))

    async def show(self, request_id: str, wait: float = 0.0) -> AapRequest:
        """The request as it stands, when it is decided or the time is over."""
        known = await self._settled(await self._known(request_id))
        if wait > 0 and _status(known) == "pending":
            await self._guests.wait(self._guest, known.call.id, wait)
            known = await self._settled(await self._known(request_id))
        return _as_told(request_id, known)

    async def cancel(self, request_id: str) -> AapRequest:
        """Withdraw a request that is pending."""
        known = await self._settled(await self._known(request_id))
        if _status(known) == "pending":
            gone = Settled(status="cancelled", decided_at=self._later_than(known.kept.created_at))
            kept = await self._write(request_id, lambda old: _with_settled(old, gone))
            if kept.settled == gone:
                await self._guests.withdraw(self._guest, known.call.id)
            known = await self._known(request_id)
        if _status(known) != "cancelled":
            raise _conflict("already_terminal", f"The request is {_status(known)} already.")
        return _as_told(request_id, known)

    async def consume(self, request_id: str, key: str | None) -> AapRequest:
        """Take the approval, once: whoever gets this answer executes the call."""
        key = _checked_key(key)
        known = await self._settled(await self._known(request_id))
        settled = known.kept.settled
        if settled is None or settled.status != "approved":
            raise _conflict("not_approved", f"The request is {_status(known)}.")
        if _is_consumed(known):
            if known.kept.consumed is not None and known.kept.consumed.key != key:
                raise _conflict("already_consumed", "This approval was taken: the call is not to run again.")
        elif settled.expires_at is None or self._now() >= settled.expires_at:
            raise _conflict("approval_expired", "The approval was not used in time: ask again, under a new key.")
        else:
            mine = Consumed(key=key, at=self._later_than(settled.decided_at), attempts=known.call.attempts)
            kept = await self._write(request_id, lambda old: _with_consumed(old, mine))
            if kept.consumed is None or kept.consumed.key != key:
                raise _conflict("already_consumed", "This approval was taken: the call is not to run again.")
        await self._claim(request_id, key)
        return _as_told(request_id, await self._known(request_id))

    async def report(self, request_id: str, given: AapReport) -> AapRequest:
        """What became of the call. The first word stands."""
        known = await self._settled(await self._known(request_id))
        consumed = known.kept.consumed
        if consumed is None or not _is_consumed(known):
            raise _conflict("not_consumed", "Nobody took the approval, so there is nothing to report.")
        said = hashlib.sha256(encode(given.note)).hexdigest()
        told = known.kept.outcome
        if told is not None:
            if (told.status, told.said) != (given.status, said):
                raise _conflict("outcome_conflict", f"The call was reported as {told.status} before.")
            return _as_told(request_id, known)
        if known.entry.permit is None:
            raise _conflict("not_consumed", "The approval was taken, and the call was not begun.")
        token = f"{known.entry.permit}.{_claim_key(request_id, consumed.key)}"
        outcome: Literal["finished", "failed"] = "finished" if given.status == "succeeded" else "failed"
        await self._guests.report(self._guest, known.call.id, token, outcome, given.note)
        mine = Outcome(status=given.status, at=self._later_than(consumed.at), said=said)
        await self._write(
            request_id, lambda old: old if old.outcome is not None else msgspec.structs.replace(old, outcome=mine)
        )
        return _as_told(request_id, await self._known(request_id))

    # -- what stands --------------------------------------------------------------------------------------------------

    async def _claim(self, request_id: str, key: str) -> Permit | None:
        """The claim of whoever took the approval; None where it was made before. An error where it is not given."""
        known = await self._known(request_id)
        secret = _claim_key(request_id, key)
        if known.call.status not in ("claimable", "held", "waiting"):
            return None
        try:
            return await self._guests.claim(self._guest, known.call.id, self._lease(), key=secret)
        except CallClaimed as error:
            raise _conflict("already_consumed", error.message) from error
        except GateError as error:  # taken back, held, or asked anew: its client is told no, and nobody waits for it
            await self._guests.withdraw(self._guest, known.call.id)
            raise _conflict("approval_withdrawn", error.message) from error

    def _lease(self) -> float:
        return min(LEASE_SECONDS, self._guests.limits.max_lease)

    async def _known(self, request_id: str) -> _Known:
        kept = await self._kept(request_id)
        if kept.call is None:
            raise _not_found(request_id)
        try:
            entry = await self._guests.entry(self._guest, kept.call)
            return _Known(kept, entry, await self._guests.look(self._guest, kept.call))
        except CallNotFound as error:
            raise _not_found(request_id) from error

    async def _settled(self, known: _Known) -> _Known:
        """The same, its decision written down if there is one: what a client is told does not change afterwards. Only
        a person who says that a call in doubt is to run again opens it anew."""
        settled, found = known.kept.settled, _found(known, self._now())
        if found is None or (settled is not None and settled.attempts >= found.attempts):
            return known
        assert known.kept.call is not None
        kept = await self._write(_id_in(known), lambda old: _with_settled(old, found))
        return msgspec.structs.replace(known, kept=kept)

    async def _kept(self, request_id: str) -> Kept:
        record = await self._store.record(KIND, request_id)
        kept = msgspec.json.decode(record.data, type=Kept) if record is not None else None
        if kept is None or kept.guest != self._guest.name:
            raise _not_found(request_id)
        return kept

    async def _write(self, request_id: str, change: Callable[[Kept], Kept]) -> Kept:
        """What is kept after this change; of several who change it at once each sees what the others did."""
        while True:
            record = await self._store.record(KIND, request_id)
            if record is None:
                raise _not_found(request_id)
            old = msgspec.json.decode(record.data, type=Kept)
            new = change(old)
            if new == old or await self._store.replace_record(self._record(request_id, new), was=record.data):
                return new

    def _record(self, request_id: str, kept: Kept) -> StoredRecord:
        until = kept.deadline_at + KEPT
        return StoredRecord(kind=KIND, id=request_id, data=encode(kept).decode(), owner=kept.guest, expires_at=until)

    def _now(self) -> float:
        return round(self._clock.now(), 3)

    def _later_than(self, at: float) -> float:
        return max(self._now(), at)


def _proposal(given: AapSubmission, request_id: str) -> Proposal:
    told: JsonObject = {}
    if given.agent_reasoning is not None:
        told["agent_reasoning"] = given.agent_reasoning
    if given.context is not None:
        told["context"] = given.context
    return Proposal(
        tool=given.tool if given.server is None else f"{given.server}/{given.tool}",
        arguments=given.arguments,
        session=_session(given),
        call_id=request_id,
        context=encode(told).decode() if told else None,
        approval_valid_for=VALID_SECONDS,
    )


def _session(given: AapSubmission) -> str:
    """The conversation, where the client says which: then «for this session» means what it says."""
    context = given.context or {}
    resume = context.get("resume")
    for place in (context, resume if isinstance(resume, dict) else {}):
        for name in ("session_id", "thread_id"):
            found = place.get(name)
            if isinstance(found, str) and 0 < len(found) <= 200 and found.isprintable():
                return found
    return "aap"


def _found(known: _Known, now: float) -> Settled | None:
    """What the log says of the request; None: nobody has decided."""
    call, kept, decision = known.call, known.kept, known.entry.decision
    status = _STATUS.get(call.status, "approved")
    if status == "pending":
        return None
    if status == "approved":
        at = max(kept.created_at, decision.at if decision is not None else kept.created_at)
        # What has begun has its attempt in the count, and was approved before it.
        attempts = call.attempts if call.status == "claimable" else max(0, call.attempts - 1)
        return Settled(status="approved", decided_at=at, expires_at=round(at + VALID_SECONDS, 3), attempts=attempts)
    at = kept.deadline_at if status == "expired" else decision.at if decision is not None else now
    return Settled(status=status, decided_at=max(kept.created_at, at))


def _status(known: _Known) -> AapStatus:
    settled = known.kept.settled
    return "pending" if settled is None else settled.status


def _is_consumed(known: _Known) -> bool:
    """Whether the approval that stands was taken. One after a doubt is another."""
    settled, consumed = known.kept.settled, known.kept.consumed
    return settled is not None and consumed is not None and consumed.attempts >= settled.attempts


def _with_settled(old: Kept, found: Settled) -> Kept:
    """Nothing is said twice, but an approval to run again what was in doubt."""
    if old.settled is not None and not (old.settled.status == "approved" and found.attempts > old.settled.attempts):
        return old
    return msgspec.structs.replace(old, settled=found)


def _with_consumed(old: Kept, mine: Consumed) -> Kept:
    if old.consumed is not None and old.consumed.attempts >= mine.attempts:
        return old
    return msgspec.structs.replace(old, consumed=mine, outcome=None)


def _as_told(request_id: str, known: _Known) -> AapRequest:
    kept, entry = known.kept, known.entry
    told = msgspec.json.decode(entry.proposed.context) if entry.proposed is not None and entry.proposed.context else {}
    return AapRequest(
        id=request_id,
        tool=kept.tool,
        arguments=entry.effective or {},
        timeout=kept.timeout,
        status=_status(known),
        created_at=stamp(kept.created_at),
        deadline_at=stamp(kept.deadline_at),
        server=kept.server,
        agent_reasoning=told.get("agent_reasoning"),
        context=told.get("context"),
        decision=_decision(known),
        consumption=_consumption(known),
    )


def _decision(known: _Known) -> AapDecision | None:
    settled = known.kept.settled
    if settled is None:
        return None
    note = known.call.message if settled.status == "denied" else None
    until = None if settled.expires_at is None else stamp(settled.expires_at)
    return AapDecision(status=settled.status, decided_at=stamp(settled.decided_at), note=note or None, expires_at=until)


def _consumption(known: _Known) -> AapConsumption | None:
    consumed, told = known.kept.consumed, known.kept.outcome
    if consumed is None or not _is_consumed(known):
        return None
    outcome = None
    if told is not None:
        said = known.call.output if known.call.status in ("finished", "failed") else None
        note = said if isinstance(said, str) and hashlib.sha256(encode(said)).hexdigest() == told.said else None
        outcome = AapOutcome(status=told.status, reported_at=stamp(told.at), note=note)
    return AapConsumption(consumed_at=stamp(consumed.at), outcome=outcome)


def _id_of(guest: str, key: str) -> str:
    """The same for the same key of the same guest: two who submit it at once make one request."""
    digest = hashlib.sha256(canonical(["aap", guest, key])).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))


def _id_in(known: _Known) -> str:
    return known.entry.label


def _claim_key(request_id: str, key: str) -> str:
    return hashlib.sha256(canonical(["aap claim", request_id, key])).hexdigest()


def _checked_key(key: str | None) -> str:
    if key is None:
        raise Problem(400, "missing_idempotency_key", "Send an Idempotency-Key.")
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise Problem(400, "invalid_idempotency_key", f"An Idempotency-Key has 1 to {MAX_KEY} printable characters.")
    return key


def _conflict(code: str, message: str) -> Problem:
    return Problem(409, code, message)


def _not_found(request_id: str) -> Problem:
    return Problem(404, "not_found", f"There is no request {request_id[:80]} of this guest.")

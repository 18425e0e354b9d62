"""A policy that people vote on: a new version is proposed as a question, and is in force when it was approved.

The question is a call like any other, of a guest with the proposer's name: its requirement is the `[change]` of the
version in force (of the first one, its own), its starter is the proposer, and no standing decision reaches it. Whoever
serves the store puts an approved version in force, once; the fact names the question.

Rule of this file: where it cannot be known what the policy says, a person is asked about every call.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping

import msgspec

from placet.clock import Clock
from placet.core.gate import Ask, Verdict
from placet.core.guest import GateCall, Guest, Proposal
from placet.core.policy import CHANGE_SOURCE, Policy, Question, Rule
from placet.core.state import Call
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, PolicyRefused, UserError
from placet.facts.events import PolicyChanged
from placet.facts.ids import mint
from placet.facts.requirements import Requirement
from placet.policy.loading import parse_policy
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.service.guest_calls import GuestCalls, Reported
from placet.service.guest_facts import Draft
from placet.service.guest_limits import GuestLimits
from placet.service.policy_state import IN_FORCE, PROPOSED, RUNNING, TEXT, InForce

logger = logging.getLogger("placet.policy")
VOTED = "voted"
"""The record of the version that people approved. What a process with a file notes does not change it."""
TOOL = "apply_policy"
MOST_TEXT = 200_000
"""Bytes of a policy that people vote on: they have to read what changes."""
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "before": {"type": ["string", "null"]},
        "changes": {"type": "string"},
    },
    "required": ["version", "before", "changes"],
    "additionalProperties": False,
}
_UNREAD = Rule(
    name="not read",
    line=0,
    verdict="ask",
    question=Question(because="The policy that people voted on could not be read here."),
)


class ManagedPolicy:
    """The policy that people voted on, as a `PolicySource`. Until a keeper has read it, a person is asked about every
    call."""

    def __init__(self) -> None:
        self._policy = Policy([_UNREAD], version="unread", origin="managed policy")
        self.is_read = False
        self.problem: PolicyRefused | None = None
        """Why the version in force is not in force here; None: it is."""

    def current(self) -> Policy:
        return self._policy

    def take(self, policy: Policy) -> None:
        self._policy, self.is_read, self.problem = policy, True, None


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A version that people vote on, and the call that puts it in force."""

    version: str
    origin: str
    before: str | None
    by: str
    at: float
    reason: str | None
    proposal: Proposal
    requirement: Requirement | None = None
    """What the version in force wanted of it."""

    @property
    def guest(self) -> Guest:
        return Guest(name=self.by, source=CHANGE_SOURCE, edits=False, answers=False)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The question about a proposed version."""

    version: str
    request: str | None
    status: str
    is_new: bool


class _ChangeCalls(GuestCalls):
    """The calls that put another policy in force: each one asks, as the version in force wants it."""

    reserved = frozenset[str]()

    def __init__(self, store: DeskStore, clock: Clock, requirement: Requirement | None) -> None:
        super().__init__(store, clock, GuestLimits(pass_through=()))
        self._requirement = requirement

    async def _judged(self, draft: Draft, run_id: str, call: Call, *, asks: bool) -> Verdict:
        return Ask("It puts another policy in force.", Question(requirement=self._requirement))


class PolicyChanges:
    """Versions that are proposed, voted on, and put in force, in one store."""

    def __init__(self, store: DeskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    # -- proposing ----------------------------------------------------------------------------------------------------

    async def propose(self, policy: Policy, *, by: str, reason: str | None = None) -> Asked:
        """Ask people about a version. Proposed again while they are asked, it is the same question."""
        if len(policy.text.encode()) > MOST_TEXT:
            raise UserError(f"A policy that people vote on has at most {MOST_TEXT} bytes: they have to read it.")
        before = await self._voted()
        was = before.version if before is not None else None
        if was == policy.version:
            raise UserError(f"Version {policy.version} is in force already: there is nothing to vote on.")
        for each in await self.proposed():
            if (each.version, each.before) == (policy.version, was):
                return _asked(each, await self._look(each), is_new=False)
        await self._keep_text(policy)
        old = await self._policy_of(was)
        made = Proposed(
            version=policy.version,
            origin=policy.origin,
            before=was,
            by=by,
            at=round(self._clock.now(), 3),
            reason=reason,
            proposal=_proposal(policy, old, by, reason),
            requirement=(old or policy).change,
        )
        data = msgspec.json.encode(made).decode()
        await self._store.add_record(StoredRecord(kind=PROPOSED, id=made.proposal.call_id, data=data))
        try:
            call = await self._look(made)
        except UserError:  # under this name nobody can propose
            await self._store.take_record(PROPOSED, made.proposal.call_id)
            raise
        told = {"action": "policy_proposed", "version": policy.version, "by": by, "request_id": call.request_id}
        logger.info("another policy is proposed", extra=told)
        return _asked(made, call, is_new=True)

    async def proposed(self) -> list[Proposed]:
        """The versions that people are asked about."""
        rows = await self._store.records(PROPOSED)
        return [msgspec.json.decode(row.data, type=Proposed) for row in rows]

    async def questions(self) -> list[Asked]:
        return [_asked(each, await self._look(each), is_new=False) for each in await self.proposed()]

    async def _look(self, each: Proposed) -> GateCall:
        """Its call as it stands. To propose it again finds it, whatever broke off; what is asked is the same."""
        calls = _ChangeCalls(self._store, self._clock, each.requirement)
        try:
            return await calls.propose(each.guest, each.proposal)
        finally:
            await calls.close()

    async def _keep_text(self, policy: Policy) -> None:
        await self._store.add_record(StoredRecord(kind=TEXT, id=policy.version, data=policy.text))
        kept = await self._store.record(TEXT, policy.version)
        if kept is None or kept.data != policy.text:  # what people read is what has to be in force
            raise UserError(f"Another text has the version {policy.version}: change a comment, and propose it again.")

    # -- putting in force ---------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Put in force what was approved; forget what was not."""
        for each in await self.proposed():
            try:
                call = await self._look(each)
            except GateError as error:  # its question was erased: nobody can approve it any more
                logger.warning("a proposed policy is gone: %s", error, extra={"action": "policy_proposal_gone"})
                await self._store.take_record(PROPOSED, each.proposal.call_id)
                continue
            if call.status == "claimable":
                await self._carry_out(each, call)
            elif call.is_over:
                await self._store.take_record(PROPOSED, each.proposal.call_id)

    async def _carry_out(self, each: Proposed, call: GateCall) -> None:
        """It is in force, and then its call has ended. Whoever takes over from a process that died between the two
        finds it in force under its own question."""
        calls = _ChangeCalls(self._store, self._clock, each.requirement)
        try:
            permit = await calls.claim(each.guest, call.id)
        except GateError:  # somebody else does it, or it was taken back
            return
        else:
            is_in_force = await self._put_in_force(each, call)
            said = "It is in force." if is_in_force else "Another version came into force meanwhile: propose it again."
            outcome: Reported = "finished" if is_in_force else "failed"
            await calls.report(each.guest, call.id, permit.token, outcome, said)
            await calls.close_session(each.guest, each.proposal.session)
            await self._store.take_record(PROPOSED, each.proposal.call_id)
        finally:
            await calls.close()

    async def _put_in_force(self, each: Proposed, call: GateCall) -> bool:
        """Whether it is the version in force now: nothing came into force since it was proposed."""
        while True:
            record = await self._store.record(RUNNING, VOTED)
            was = None if record is None else msgspec.json.decode(record.data, type=InForce)
            if was is not None and was.request == call.request_id:
                return True
            if (was.version if was is not None else None) != each.before:
                return False
            seen = await self._store.record(RUNNING, IN_FORCE)
            at = round(self._clock.now(), 3)
            made = InForce(
                version=each.version, origin=each.origin, way="managed", by=each.by, at=at, request=call.request_id
            )
            data = msgspec.json.encode(made).decode()
            steps = [_step(VOTED, record, data), _step(IN_FORCE, seen, data)]
            fact = PolicyChanged(
                each.version, each.before, each.origin, "managed", each.by, at, call.request_id, each.reason
            )
            if await self._store.change_records(steps, [fact], at=at):
                told = {"action": "policy_in_force", "policy": each.origin, "version": each.version, "by": each.by}
                logger.info("another policy is in force", extra=told)
                return True

    # -- following ----------------------------------------------------------------------------------------------------

    async def follow(self, source: ManagedPolicy) -> None:
        """Have the version in force in force here, too."""
        found = await self._voted()
        if found is None:
            if not source.is_read:
                source.take(Policy([], version="none", origin="managed policy"))
            return
        if source.is_read and source.current().version == found.version:
            source.problem = None
            return
        try:
            policy = await self._policy_of(found.version)
        except PolicyRefused as error:  # an extra is missing here, or this code is older
            source.problem = error
            return
        if policy is not None:
            source.take(policy)

    async def _voted(self) -> InForce | None:
        record = await self._store.record(RUNNING, VOTED)
        return None if record is None else msgspec.json.decode(record.data, type=InForce)

    async def _policy_of(self, version: str | None) -> Policy | None:
        record = None if version is None else await self._store.record(TEXT, version)
        return None if record is None else parse_policy(record.data)


def _proposal(policy: Policy, old: Policy | None, by: str, reason: str | None) -> Proposal:
    before = old.text.splitlines(keepends=True) if old is not None else []
    lines = difflib.unified_diff(before, policy.text.splitlines(keepends=True), "in force", policy.origin, n=3)
    changes = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    name = mint("policy")
    arguments: Mapping[str, object] = {
        "version": policy.version,
        "before": old.version if old is not None else None,
        "changes": changes,
    }
    return Proposal(
        tool=TOOL,
        arguments=msgspec.convert(dict(arguments), JsonObject),
        session=name,
        call_id=name,
        schema=SCHEMA,
        description="Puts another policy in force, from the next call on.",
        context=f"{by} proposes {policy.origin}." + (f" Reason: {reason}" if reason else ""),
        version=name,  # no standing decision about one version is about another
        recovery="retry",
    )


def _step(record_id: str, was: StoredRecord | None, data: str) -> RecordStep:
    now = StoredRecord(kind=RUNNING, id=record_id, data=data)
    return RecordStep(kind=RUNNING, id=record_id, was=was.data if was is not None else None, now=now)


def _asked(each: Proposed, call: GateCall, *, is_new: bool) -> Asked:
    return Asked(version=each.version, request=call.request_id, status=call.status, is_new=is_new)

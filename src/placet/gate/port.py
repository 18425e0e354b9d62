"""The gate as programs use it: `Gate(url, token=…)` over a desk, `Gate("sqlite:///…", guest="…")` on a store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Literal, Self

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.guest import GateCall, Guest, Permit, Proposal, check_guest
from placet.facts.codec import Json, JsonObject, NotPlain, plain
from placet.facts.errors import (
    CallClaimed,
    GateError,
    GateTimeout,
    GateUnavailable,
    InvalidProposal,
    PermitRefused,
    UserError,
)
from placet.facts.ids import mint
from placet.gate.door import Door, Reported
from placet.ports import DeskStore, PolicySource, ReceiptIssuer
from placet.service.guest_answers import UNSETTLED, why_not_run
from placet.service.guest_limits import GuestLimits
from placet.service.policies import MANAGED, PolicyGiven, opened

logger = logging.getLogger("placet.gate")

POLL_SECONDS = 30.0
"""How long one question to the door waits for an answer before it is asked again."""


MAX_AT_ONCE = 1000
"""Calls that are waited for with one question."""


class Gate:
    """A guest's way to a person's yes. Every method raises rather than let a call run that nobody let.

    `guest` is who executes the calls; at a desk the token says so. `source` is through what it comes. `reports`,
    `edits`, `answers`: what the host can carry out; what it cannot is not offered to reviewers. `patience`: how long a
    desk that is away is waited for, in seconds.
    """

    def __init__(
        self,
        at: str | DeskStore,
        *,
        token: str | None = None,
        guest: str | None = None,
        source: str = "python",
        reports: bool = True,
        edits: bool = True,
        answers: bool = True,
        patience: float = 60.0,
        clock: Clock = SYSTEM_CLOCK,
        limits: GuestLimits | None = None,
        policy: PolicyGiven | None = None,
        receipts: ReceiptIssuer | None = None,
    ) -> None:
        """`receipts`: on a store, signs receipts of approved calls; a desk has its own."""
        self._guest = Guest(name=guest or "guest", source=source, reports=reports, edits=edits, answers=answers)
        check_guest(self._guest)
        self._door = _door(at, token, guest, self._guest, patience, clock, limits, _policy_of(policy), receipts)
        self._clock = clock
        self.is_at_desk = is_address(at)
        """Whether a desk judges its calls, by rules of its own that are not known here."""

    @property
    def reports(self) -> bool:
        """Whether its host can say what became of a call."""
        return self._guest.reports

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of connections. What waits goes on waiting, and is found again by its identity."""
        await self._door.aclose()

    # -- the verbs ----------------------------------------------------------------------------------------------------

    async def propose(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        session: str,
        call_id: str,
        occurrence: int = 0,
        schema: Mapping[str, object] | None = None,
        description: str | None = None,
        context: str | None = None,
        needs_approval: bool = True,
        version: str | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
        recovery: Literal["ask", "retry", "function"] = "ask",
    ) -> GateCall:
        """Ask whether a call may run. The same identity (session, call_id, occurrence, tool and arguments) is the same
        call: it is found as it stands, also after a restart. `context` tells the reviewer what led to it."""
        return await self._door.propose(
            _proposal(
                tool=tool,
                arguments=arguments,
                session=session,
                call_id=call_id,
                occurrence=occurrence,
                schema=schema,
                description=description,
                context=context,
                needs_approval=needs_approval is not False,  # whatever it is, only False means that nobody is asked
                version=version,
                decide_within=decide_within,
                at_deadline=at_deadline,
                approval_valid_for=approval_valid_for,
                recovery=recovery,
            )
        )

    async def wait(self, call: GateCall | str, timeout: float | None = None) -> GateCall:  # noqa: ASYNC109
        """The call when something can be done about it: it may be claimed, or it is over. GateTimeout when nobody has
        decided within `timeout` seconds; the call goes on waiting then, and does not run."""
        name = _id(call)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = POLL_SECONDS if until is None else max(0.0, min(POLL_SECONDS, until - time.monotonic()))
            found = await self._door.look(name, left)
            if found.status not in UNSETTLED:
                return found
            if until is not None and time.monotonic() >= until:
                raise GateTimeout(
                    f"Call {found.id} ({found.tool}) was not decided within {timeout:g} s: it does not run. It goes on "
                    "waiting, and is found again under the same identity.",
                    found,
                )

    async def wait_for_any(self, calls: Sequence[GateCall | str], timeout: float = POLL_SECONDS) -> list[GateCall]:  # noqa: ASYNC109
        """Of many calls (up to 1000) those about which something can be done, as soon as there is one; none when the
        time is over. One question to the door, however many they are."""
        if len(calls) > MAX_AT_ONCE:
            raise UserError(f"At most {MAX_AT_ONCE} calls are waited for at once, and these are {len(calls)}.")
        return await self._door.look_at_many([_id(call) for call in calls], min(timeout, POLL_SECONDS))

    async def look(self, call: GateCall | str) -> GateCall:
        """The call as it stands."""
        return await self._door.look(_id(call), 0.0)

    async def claim(self, call: GateCall | str, *, lease: float | None = None, again: bool = False) -> Permit:
        """The right to execute the call once; an error that says why not. `lease`: seconds until a report is due.
        `again`: of a call that this guest has claimed, the permit once more, for whoever lost it."""
        permit = await self._door.claim(_id(call), lease, again=again)
        permit.lease = lease
        return permit

    async def renew(self, permit: Permit, lease: float | None = None) -> Permit:
        """Have more time for the report: `lease` seconds, else as many as the claim asked for. PermitRefused when the
        lease has ended."""
        more = permit.lease if lease is None else lease
        permit.lease_until = await self._door.renew(permit.call.id, permit.token, more)
        return permit

    async def report(self, permit: Permit, outcome: Reported, output: Json = None) -> GateCall:
        """What happened to the call: `finished` or `failed`, with what it gave; `unknown`: a person is asked."""
        return await self._door.report(permit.call.id, permit.token, outcome, plain_output(output))

    async def withdraw(self, call: GateCall | str) -> GateCall:
        """Take a call back that has not begun."""
        return await self._door.withdraw(_id(call))

    async def close(self, session: str) -> None:
        """End a session: what waits in it ends. It goes on in a new run if something more is proposed in it."""
        await self._door.close_session(session)

    # -- all of them at once ------------------------------------------------------------------------------------------

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        session: str | None = None,
        call_id: str | None = None,
        timeout: float | None = None,
        lease: float | None = None,
        **more: object,
    ) -> AbstractAsyncContextManager[Permit]:
        """`async with gate.call("refund", {…}) as permit:` the block runs when the call was approved, with
        `permit.arguments`; what it leaves in `permit.output` is reported, and so is an exception. Without a `call_id`
        it is a call of its own each time."""
        given: JsonObject = {"session": session or "calls", "call_id": call_id or mint("call"), **more}
        return self._call(tool, arguments, timeout, lease, given, is_fresh=call_id is None)

    @contextlib.asynccontextmanager
    async def _call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        timeout: float | None,  # noqa: ASYNC109
        lease: float | None,
        given: JsonObject,
        *,
        is_fresh: bool,
    ) -> AsyncIterator[Permit]:
        call = await self._door.propose(_proposal(tool=tool, arguments=arguments, **given))
        permit = await self.permit_for(call, timeout=timeout, lease=lease, is_fresh=is_fresh)
        async with self.executing(permit):
            yield permit

    async def permit_for(
        self,
        call: GateCall,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        lease: float | None = None,
        is_fresh: bool = False,
    ) -> Permit:
        """Wait until the call may run, and claim it. `is_fresh`: nobody could ever find it again, so if waiting for it
        is broken off, it is withdrawn."""
        try:
            while True:
                call = await self.wait(call, timeout)
                if call.status != "claimable":
                    raise why_not_run(call)
                try:
                    return await self.claim(call, lease=lease)
                except GateError as error:
                    if isinstance(error, CallClaimed | GateUnavailable | GateTimeout):
                        raise
                    call = await self.look(call)  # held back, or asked again in between: wait on
                    if call.is_over:
                        raise why_not_run(call) from error
        except (asyncio.CancelledError, GateTimeout):
            if is_fresh:
                with contextlib.suppress(GateError, asyncio.CancelledError, TimeoutError):
                    async with asyncio.timeout(2.0):
                        await asyncio.shield(self.withdraw(call))
            raise

    @contextlib.asynccontextmanager
    async def executing(self, permit: Permit) -> AsyncIterator[Permit]:
        """While the block executes the call its lease is renewed; its end is reported. A block that raises has failed:
        with what it left in `permit.output`, else with the error."""
        renewing = asyncio.create_task(self._keep(permit))
        try:
            yield permit
        except Exception as error:
            await self._tell(permit, "failed", text_of(error) if permit.output is None else permit.output)
            raise
        except BaseException:  # it was broken off: it is unknown how far it got
            await self._tell(permit, "unknown", None)
            raise
        else:
            await self._tell(permit, "finished", permit.output)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _keep(self, permit: Permit) -> None:
        while True:
            left = permit.lease_until - self._clock.now()
            await asyncio.sleep(max(0.05, left / 3))
            try:
                await self.renew(permit)
            except PermitRefused:
                logger.warning("lease ended", extra={"action": "lease_ended", "call_id": permit.call.id})
                return
            except GateError as error:
                logger.warning("lease not renewed", extra={"action": "lease_not_renewed", "error": str(error)})

    async def _tell(self, permit: Permit, outcome: Reported, output: Json) -> None:
        """The effect has happened: that it cannot be reported does not undo it. The lease will end, and people ask."""
        try:
            await asyncio.shield(self.report(permit, outcome, output))
        except (GateError, UserError, asyncio.CancelledError) as error:
            told = {"action": "outcome_not_reported", "call_id": permit.call.id, "error": str(error)}
            logger.error("outcome not reported", extra=told)
            if isinstance(error, asyncio.CancelledError):
                raise


def text_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # a foreign error whose own text fails is still an error
        return type(error).__name__


def plain_output(output: object) -> Json:
    """What a program gives as an outcome, as plain JSON; else as it would be shown."""
    try:
        return plain(output, "output")
    except NotPlain:
        import pydantic_core

        try:
            return plain(pydantic_core.to_jsonable_python(output), "output")
        except (NotPlain, ValueError):
            return repr(output)[:10_000]


def _proposal(**given: object) -> Proposal:
    """InvalidProposal, in words, for what is no proposal: the mistake of a program is told where it is made."""
    try:
        arguments = plain(given.pop("arguments"), "arguments")
        schema = given.pop("schema", None)
        given["schema"] = None if schema is None else plain(schema, "schema")
    except NotPlain as error:
        raise InvalidProposal(f"{error}.") from error
    try:
        return msgspec.convert({"arguments": arguments, **given}, Proposal)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidProposal(f"This is no proposal: {error}.") from error


def _id(call: GateCall | str) -> str:
    return call if isinstance(call, str) else call.id


def _policy_of(given: PolicyGiven | None) -> PolicySource | None:
    if given == MANAGED:
        raise UserError("The policy that people voted on is followed by a desk: give a gate on a store a file.")
    return opened(given, [])


def is_address(at: object) -> bool:
    """Whether it is a desk's, and no store's."""
    return isinstance(at, str) and at.startswith(("http://", "https://"))


def _door(
    at: str | DeskStore,
    token: str | None,
    named: str | None,
    guest: Guest,
    patience: float,
    clock: Clock,
    limits: GuestLimits | None,
    policy: PolicySource | None,
    receipts: ReceiptIssuer | None,
) -> Door:
    if isinstance(at, str) and is_address(at):
        from placet.gate.remote import DeskDoor

        if policy is not None:
            raise UserError("A desk has a policy of its own: Gate(…, policy=…) is for a store.")
        return DeskDoor(at, token, guest, patience)
    if named is None:
        raise UserError('On a store a gate says who executes its calls: Gate(…, guest="nightly-jobs").')
    if token is not None:
        raise UserError("A token is for a desk (https://…). A store needs none.")
    if not isinstance(at, str) and not hasattr(at, "wait_for_news"):
        raise UserError(f"A gate is over a desk, a store that is shared, or its URL, not over a {type(at).__name__}.")
    from placet.gate.embedded import StoreDoor

    if isinstance(at, str):
        from placet.stores.opening import open_store

        return StoreDoor(open_store(at, clock=clock), guest, clock, limits, policy, receipts, owns_store=True)
    return StoreDoor(at, guest, clock, limits, policy, receipts, owns_store=False)

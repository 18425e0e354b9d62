"""The gate over the API: what guests propose, wait for, claim and report. A guest reaches its own calls only."""

from __future__ import annotations

from placet.core.guest import Guest, Proposal
from placet.desk.access.people import Actor
from placet.desk.api.gate_shapes import (
    ClaimShape,
    ClosedSession,
    GateCallShape,
    GateCallsShape,
    NewCall,
    OutcomeShape,
    PermitShape,
    RenewedShape,
    RenewShape,
    WaitFor,
    WaitForMany,
)
from placet.desk.api.operations import AnyApiRequest, ApiAnswer, ApiRequest, Operation
from placet.desk.api.shapes import Nothing
from placet.desk.web.deciding import as_datetime
from placet.desk.web.problems import Problem


def name_of(actor: Actor, given: str | None) -> str:
    """Who the guest is: whoever the token belongs to. A desk that has no log-in believes what is said."""
    if actor.via == "open":
        return given or "guest"
    if actor.role != "guest":
        words = f"{actor.name} is a {actor.role}: calls are proposed with a token of the role guest."
        raise Problem(403, "access_denied", words)
    return actor.name


def _guest(ask: AnyApiRequest) -> Guest:
    """Whose calls are looked at. At a desk that asks nobody, everybody's are: the call says whose it is."""
    return Guest(name=name_of(ask.actor, ask.request.headers.get("placet-guest")))


async def propose(ask: ApiRequest[Nothing, NewCall]) -> ApiAnswer:
    given = ask.body
    guest = Guest(
        name=name_of(ask.actor, given.guest),
        source=given.source,
        reports=given.reports,
        edits=given.edits,
        answers=given.answers,
    )
    proposal = Proposal(
        tool=given.tool,
        arguments=given.arguments,
        session=given.session,
        call_id=given.call_id,
        occurrence=given.occurrence,
        schema=given.schema,
        description=given.description,
        context=given.context,
        needs_approval=given.needs_approval,
        version=given.version,
        decide_within=given.decide_within,
        at_deadline=given.at_deadline,
        approval_valid_for=given.approval_valid_for,
        recovery=given.recovery,
    )
    found = await ask.web.desk.guests.propose(guest, proposal)
    return ApiAnswer(GateCallShape.of(found))


async def look(ask: ApiRequest[WaitFor, Nothing]) -> GateCallShape:
    guests, wait = ask.web.desk.guests, ask.query.wait
    if guests.watcher.waits >= ask.web.settings.max_waits:
        wait = 0.0  # as many wait as this process takes: the guest asks again
    return GateCallShape.of(await guests.wait(_guest(ask), ask.part("call_id"), wait))


async def look_at_many(ask: ApiRequest[Nothing, WaitForMany]) -> GateCallsShape:
    guests, wait = ask.web.desk.guests, ask.body.wait
    if guests.watcher.waits >= ask.web.settings.max_waits:
        wait = 0.0
    found = await guests.wait_for_any(_guest(ask), ask.body.calls, wait)
    return GateCallsShape(calls=[GateCallShape.of(each) for each in found])


async def claim(ask: ApiRequest[Nothing, ClaimShape]) -> PermitShape:
    given = ask.body
    permit = await ask.web.desk.guests.claim(
        _guest(ask), ask.part("call_id"), given.lease, again=given.again, key=given.key
    )
    return PermitShape.of(permit, call=GateCallShape.of(permit.call))


async def renew(ask: ApiRequest[Nothing, RenewShape]) -> RenewedShape:
    until = await ask.web.desk.guests.renew(_guest(ask), ask.part("call_id"), ask.body.token, ask.body.lease)
    return RenewedShape(lease_until=as_datetime(until))


async def report(ask: ApiRequest[Nothing, OutcomeShape]) -> GateCallShape:
    given = ask.body
    found = await ask.web.desk.guests.report(_guest(ask), ask.part("call_id"), given.token, given.outcome, given.output)
    return GateCallShape.of(found)


async def withdraw(ask: ApiRequest[Nothing, Nothing]) -> GateCallShape:
    return GateCallShape.of(await ask.web.desk.guests.withdraw(_guest(ask), ask.part("call_id")))


async def close_session(ask: ApiRequest[Nothing, ClosedSession]) -> ClosedSession:
    guest = Guest(name=name_of(ask.actor, ask.body.guest), source=ask.body.source)
    await ask.web.desk.guests.close_session(guest, ask.body.session)
    return ask.body


OPERATIONS = (
    Operation(
        "POST",
        "/v1/gate/calls",
        propose,
        "Propose a call that you will execute yourself",
        "gate",
        role="guest",
        body=NewCall,
        answer=GateCallShape,
        problems=(413, 429),
        details="The same session, call_id, occurrence, tool and arguments are the same call: it is given back as it "
        "stands, and no person is asked twice. Nothing is stored of a proposal that is refused.",
    ),
    Operation(
        "GET",
        "/v1/gate/calls/{call_id}",
        look,
        "A call, as soon as something can be done about it",
        "gate",
        role="guest",
        query=WaitFor,
        answer=GateCallShape,
        problems=(404,),
        details="Answers at once when the call may be claimed or is over, otherwise when it is, or after `wait` "
        "seconds: then ask again.",
    ),
    Operation(
        "POST",
        "/v1/gate/calls/wait",
        look_at_many,
        "Of many calls those about which something can be done",
        "gate",
        role="guest",
        body=WaitForMany,
        answer=GateCallsShape,
        problems=(404,),
        details="Answers as soon as one of them may be claimed or is over, and leaves out those that still wait; after "
        "`wait` seconds with none. So a program that waits for hundreds asks one question.",
    ),
    Operation(
        "DELETE",
        "/v1/gate/calls/{call_id}",
        withdraw,
        "Withdraw a call that has not begun",
        "gate",
        role="guest",
        answer=GateCallShape,
        problems=(404,),
    ),
    Operation(
        "POST",
        "/v1/gate/calls/{call_id}/claim",
        claim,
        "Claim a call before executing it",
        "gate",
        role="guest",
        body=ClaimShape,
        answer=PermitShape,
        problems=(404, 409),
        shows_secret=True,
        details="Execute the call only with the permit's arguments, and only if the answer is 200. A `key` of your own "
        "(a long random text) lets you ask for the same claim again, where its answer was lost.",
    ),
    Operation(
        "POST",
        "/v1/gate/calls/{call_id}/renew",
        renew,
        "Have more time for the report",
        "gate",
        role="guest",
        body=RenewShape,
        answer=RenewedShape,
        problems=(403, 404),
    ),
    Operation(
        "POST",
        "/v1/gate/calls/{call_id}/outcome",
        report,
        "Report what became of a call",
        "gate",
        role="guest",
        body=OutcomeShape,
        answer=GateCallShape,
        problems=(403, 404),
    ),
    Operation(
        "POST",
        "/v1/gate/sessions/close",
        close_session,
        "End a session: what waits in it ends",
        "gate",
        role="guest",
        body=ClosedSession,
        answer=ClosedSession,
    ),
)

"""An approval provider of the Agent Approval Protocol (AAP), over the gate: its clients need nothing but this address.

The protocol carries yes and no. What the gate knows beyond that (holds, deadlines, claims, doubts) stays at the desk.
"""

from __future__ import annotations

import uuid

from placet.desk.api.aap_requests import AapRequests
from placet.desk.api.aap_shapes import AapError, AapReport, AapRequest, AapSubmission, AapWait, seconds_of
from placet.desk.api.gate import name_of
from placet.desk.api.operations import AnyApiRequest, ApiAnswer, ApiRequest, Operation
from placet.desk.api.shapes import Nothing

LONGEST_WAIT = 30.0


def _requests(ask: AnyApiRequest) -> AapRequests:
    web = ask.web
    guest = name_of(ask.actor, ask.request.headers.get("placet-guest"))
    return AapRequests(web.desk.store, web.desk.guests, web.clock, guest)


def _key(ask: AnyApiRequest) -> str | None:
    key: str | None = ask.request.headers.get("idempotency-key")
    return key


def _answer(found: AapRequest, status: int = 200) -> ApiAnswer:
    return ApiAnswer(found, status, {"X-Request-ID": str(uuid.uuid4())})


async def create(ask: ApiRequest[Nothing, AapSubmission]) -> ApiAnswer:
    found, is_new = await _requests(ask).create(ask.body, _key(ask))
    return _answer(found, 201 if is_new else 200)


async def look(ask: ApiRequest[AapWait, Nothing]) -> ApiAnswer:
    given = ask.query.wait
    wait = 0.0 if given is None else min(LONGEST_WAIT, seconds_of(given))
    if ask.web.desk.guests.watcher.waits >= ask.web.settings.max_waits:
        wait = 0.0  # as many wait as this process takes: the client asks again
    return _answer(await _requests(ask).show(ask.part("request_id"), wait))


async def cancel(ask: ApiRequest[Nothing, Nothing]) -> ApiAnswer:
    return _answer(await _requests(ask).cancel(ask.part("request_id")))


async def consume(ask: ApiRequest[Nothing, Nothing]) -> ApiAnswer:
    return _answer(await _requests(ask).consume(ask.part("request_id"), _key(ask)))


async def report(ask: ApiRequest[Nothing, AapReport]) -> ApiAnswer:
    return _answer(await _requests(ask).report(ask.part("request_id"), ask.body))


ONE = "/aap/v1/requests/{request_id}"

OPERATIONS = (
    Operation(
        "POST",
        "/aap/v1/requests",
        create,
        "Submit a proposed call",
        "aap",
        role="guest",
        body=AapSubmission,
        answer=AapRequest,
        more_statuses=(201,),
        problems=(409,),
        keeps_key=True,
        error=AapError,
        details="The same Idempotency-Key and the same fields are the same request: it is given back as it stands.",
    ),
    Operation(
        "GET",
        ONE,
        look,
        "A request, as soon as it is decided",
        "aap",
        role="guest",
        query=AapWait,
        answer=AapRequest,
        problems=(404,),
        error=AapError,
    ),
    Operation(
        "DELETE",
        ONE,
        cancel,
        "Withdraw a pending request",
        "aap",
        role="guest",
        answer=AapRequest,
        problems=(404, 409),
        error=AapError,
    ),
    Operation(
        "POST",
        ONE + "/consume",
        consume,
        "Take an approval, once, before executing the call",
        "aap",
        role="guest",
        answer=AapRequest,
        problems=(404, 409),
        keeps_key=True,
        error=AapError,
    ),
    Operation(
        "POST",
        ONE + "/outcome",
        report,
        "Report what became of a call",
        "aap",
        role="guest",
        body=AapReport,
        answer=AapRequest,
        problems=(404, 409),
        keeps_key=True,
        error=AapError,
    ),
)

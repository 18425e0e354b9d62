"""The gate over HTTP: a guest asks a desk, which knows it by its token.

Every request can be asked again: proposing, reporting and renewing are the same twice, and a claim carries a key. So a
desk that is away, or restarts, is asked again with growing pauses, as long as the guest's patience says; then the call
does not run.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

import msgspec

from placet.core.guest import GateCall, GateStatus, Guest, Permit, Proposal
from placet.facts import errors
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.errors import GateUnavailable, LimitExceeded, PlacetError
from placet.gate.door import Reported
from placet.gate.wire import Answer, HttpClient, NotUnderstood

V = TypeVar("V")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
ANSWER_SECONDS = 30.0
"""How long an answer may take, beyond the time that was asked to be waited."""
MAX_BODY = 2**20
"""Bytes that a desk takes at once."""
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Every request is the same twice, so whatever may be better in a moment is asked again."""


class _CallBody(msgspec.Struct):
    """A call as the desk tells of it. A status that is not known here is refused: nobody acts on it."""

    id: str
    status: GateStatus
    tool: str
    arguments: JsonObject
    session: str
    call_id: str
    occurrence: int
    digest: str
    is_edited: bool = False
    request_id: str | None = None
    expires_at: datetime | None = None
    message: str | None = None
    output: object = None
    decided_by: str | None = None
    attempts: int = 0

    def call(self) -> GateCall:
        given = msgspec.structs.asdict(self)
        given["expires_at"] = None if self.expires_at is None else self.expires_at.timestamp()
        return GateCall(**given)


class _CallsBody(msgspec.Struct):
    calls: list[_CallBody]


class _PermitBody(msgspec.Struct):
    call: _CallBody
    token: str
    arguments: JsonObject
    lease_until: datetime
    idempotency_key: str
    receipt: str | None = None
    is_again: bool = False


class _Renewed(msgspec.Struct):
    lease_until: datetime


class _ProblemBody(msgspec.Struct):
    code: str = ""
    detail: str = ""
    output: object = None


class DeskDoor:
    def __init__(self, url: str, token: str | None, guest: Guest, patience: float) -> None:
        headers = {"Placet-Guest": guest.name}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._client = HttpClient(url, headers)
        self._url = url
        self._guest = guest
        self._patience = patience

    async def propose(self, proposal: Proposal) -> GateCall:
        guest: JsonObject = {name: getattr(self._guest, name) for name in ("source", "reports", "edits", "answers")}
        body = {**msgspec.structs.asdict(proposal), **guest, "guest": self._guest.name}
        return (await self._ask("POST", "/v1/gate/calls", _CallBody, body)).call()

    async def look(self, call: str, wait: float) -> GateCall:
        return (await self._ask("GET", f"{_path(call)}?wait={wait:.3f}", _CallBody, wait=wait)).call()

    async def look_at_many(self, calls: Sequence[str], wait: float) -> list[GateCall]:
        found = await self._ask(
            "POST", "/v1/gate/calls/wait", _CallsBody, {"calls": list(calls), "wait": wait}, wait=wait
        )
        return [each.call() for each in found.calls]

    async def claim(self, call: str, lease: float | None, *, again: bool) -> Permit:
        """Under a key of its own: if its answer is lost, the same claim is asked for again, and not a second one."""
        body: JsonObject = {"lease": lease, "again": again, "key": os.urandom(32).hex()}
        found = await self._ask("POST", _path(call, "/claim"), _PermitBody, body)
        return Permit(
            call=found.call.call(),
            token=found.token,
            arguments=found.arguments,
            lease_until=found.lease_until.timestamp(),
            idempotency_key=found.idempotency_key,
            receipt=found.receipt,
            is_again=found.is_again,
        )

    async def renew(self, call: str, token: str, lease: float | None) -> float:
        found = await self._ask("POST", _path(call, "/renew"), _Renewed, {"token": token, "lease": lease})
        return found.lease_until.timestamp()

    async def report(self, call: str, token: str, outcome: Reported, output: Json) -> GateCall:
        if len(encode(output)) > MAX_BODY // 2:  # the effect has happened: what cannot be sent is no reason to hide it
            output = f"The output has {len(encode(output))} bytes: too many to be sent to the desk."
        body: JsonObject = {"token": token, "outcome": outcome, "output": output}
        return (await self._ask("POST", _path(call, "/outcome"), _CallBody, body)).call()

    async def withdraw(self, call: str) -> GateCall:
        return (await self._ask("DELETE", _path(call), _CallBody)).call()

    async def close_session(self, session: str) -> None:
        body: JsonObject = {"source": self._guest.source, "guest": self._guest.name, "session": session}
        await self._ask("POST", "/v1/gate/sessions/close", msgspec.Raw, body)

    async def aclose(self) -> None:
        await self._client.close()

    async def _ask(self, method: str, path: str, kind: type[V], body: object = None, wait: float = 0.0) -> V:
        """The answer as it should be. Anything else is an error: no answer, no sense, no call."""
        until = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        data = None if body is None else encode(body)
        if data is not None and len(data) > MAX_BODY:
            raise LimitExceeded(f"What is sent to a desk has at most {MAX_BODY} bytes, and this has {len(data)}.")
        while True:
            problem: str
            try:
                answer = await self._client.ask(method, path, data, wait + ANSWER_SECONDS)
                if answer.status not in _TRY_AGAIN or _is_final(answer):
                    return _read(answer, kind)
                problem = f"it answers {answer.status}"
            except (OSError, TimeoutError, NotUnderstood) as error:
                problem = f"{type(error).__name__}: {error}".rstrip(": ")
            if time.monotonic() + pause > until:
                raise GateUnavailable(
                    f"The desk at {self._url} could not be asked within {self._patience:g} s ({problem}): no call runs "
                    "without its word."
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
            pause = min(LONGEST_PAUSE, pause * 2)


def _is_final(answer: Answer) -> bool:
    """A limit of the guest's own is told at once: to ask again would make it no better."""
    return answer.status == 429 and b'"too_many_waiting"' in answer.body


def _path(call: str, tail: str = "") -> str:
    return f"/v1/gate/calls/{quote(call, safe='')}{tail}"


def _read(answer: Answer, kind: type[V]) -> V:
    if 200 <= answer.status < 300:
        try:
            return msgspec.json.decode(answer.body or b"null", type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise GateUnavailable(f"The desk's answer is not understood here: {error}. No call runs by it.") from error
    raise _error(answer)


def _error(answer: Answer) -> PlacetError:
    """The same error that a gate on a store would raise."""
    try:
        told = msgspec.json.decode(answer.body, type=_ProblemBody)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return GateUnavailable(f"The desk answers {answer.status}, and not in words that are understood here.")
    found = _ERRORS.get(told.code)
    if found is None:
        return GateUnavailable(f"The desk answers {answer.status} ({told.code}): {told.detail}")
    return found(told.detail, None, told.output) if issubclass(found, errors.CallAnswered) else found(told.detail)


_ERRORS: Mapping[str, type[PlacetError]] = {
    kind.code: kind
    for kind in (
        errors.UserError,
        errors.InvalidProposal,
        errors.LimitExceeded,
        errors.TooManyWaiting,
        errors.AccessDenied,
        errors.GateError,
        errors.CallRejected,
        errors.CallAnswered,
        errors.CallNotClaimable,
        errors.CallClaimed,
        errors.CallNotFound,
        errors.PermitRefused,
        errors.StoreError,
    )
} | {
    "invalid_request": errors.InvalidProposal,
    "malformed_json": errors.InvalidProposal,
    "too_large": errors.LimitExceeded,
    "not_authenticated": errors.AccessDenied,
}
"""The same errors that a gate on a store raises, by the codes of the desk's problems."""

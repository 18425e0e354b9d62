"""Errors on the wire: one shape (RFC 9457), one place that says which error is which status."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from placet.facts import errors
from placet.facts.codec import Json, encode

logger = logging.getLogger("placet.desk")

MEDIA_TYPE = "application/problem+json"


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one part of what was sent."""

    field: str
    message: str


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that stands."""

    decision: str
    by: str | None
    at: str | None


class Problem(Exception):
    """An error with a status: raise it anywhere below a route."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: list[FieldProblem] | None = None,
        winner: Winner | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.winner = winner
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        """What else an error of this kind says."""

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase

    def body(self, instance: str) -> dict[str, Json]:
        found: dict[str, Json] = {
            "type": f"urn:placet:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "instance": instance,
        }
        if self.errors is not None:
            found["errors"] = self.errors
        if self.winner is not None:
            found["winner"] = self.winner
        return found | self.more


AAP = "/aap/"
"""Below this address errors are told as the Agent Approval Protocol has it."""
AAP_STATUS = {408: 400, 413: 400, 415: 400, 421: 400, 422: 400}
"""Its clients know fewer statuses."""
_AAP_TYPES = {
    401: "authentication",
    403: "authorization",
    404: "not_found",
    409: "conflict",
    429: "rate_limit",
    500: "internal",
    503: "dependency",
}


def _aap_error(problem: Problem) -> Response:
    status, exchange = AAP_STATUS.get(problem.status, problem.status), str(uuid.uuid4())
    kind = _AAP_TYPES.get(status, "invalid_request")
    error: Json = {"type": kind, "code": problem.code, "message": problem.detail, "request_id": exchange}
    return Response(
        encode({"error": error}), status, {**problem.headers, "X-Request-ID": exchange}, media_type="application/json"
    )


def problem_response(problem: Problem, instance: str) -> Response:
    if instance.startswith(AAP):
        return _aap_error(problem)
    return Response(encode(problem.body(instance)), problem.status, problem.headers, MEDIA_TYPE)


_STATUS_OF: tuple[tuple[type[errors.PlacetError], int], ...] = (
    (errors.AccessDenied, 403),
    (errors.PermitRefused, 403),
    (errors.CallNotFound, 404),
    (errors.GateError, 409),
    (errors.TooManyWaiting, 429),
    (errors.LimitExceeded, 413),
    (errors.NotPending, 409),
    (errors.SessionBusy, 409),
    (errors.UserError, 422),
    (errors.StaleApproval, 409),
    (errors.RunFinished, 409),
    (errors.RunConflict, 409),
    (errors.IndexAltered, 500),
    (errors.StoreError, 503),
)
"""The first class that fits gives the status; what is not in here is ours, and a 500."""


def as_problem(error: errors.PlacetError) -> Problem:
    status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)
    headers = {"Retry-After": "2"} if status in (429, 503) else {}
    return Problem(status, error.code, error.message, headers=headers, more=_more(error))


def _more(error: errors.PlacetError) -> dict[str, Json]:
    """What happened to a guest's call: by it a guest knows why, without asking again."""
    if isinstance(error, errors.CallAnswered):
        return {"output": error.output}
    return {}


ProblemKind: TypeAlias = type[Problem]

_DETAILS = {
    400: ("bad_request", "The request could not be understood."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not know that method."),
    413: ("too_large", "The body is larger than this desk takes."),
}


def of_status(status: int, detail: str | None = None, headers: Mapping[str, str] | None = None) -> Problem:
    """A problem for an error that the framework raised."""
    known = status if status in HTTPStatus._value2member_map_ else 500
    code, text = _DETAILS.get(known, (HTTPStatus(known).name.lower(), HTTPStatus(known).phrase))
    return Problem(known, code, detail if detail and detail != HTTPStatus(known).phrase else text, headers=headers)


def unknown_error() -> Problem:
    return Problem(500, "internal_error", "Something went wrong here that is not your doing; the desk's log has more.")


def wants_html(request: Request) -> bool:
    """Whether the client is a person at a browser: it says so, and the address is not one for programs."""
    path = request.url.path
    if path.startswith(("/v1/", AAP)) or path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/.well-known/jwks.json",
    ):
        return False
    return "text/html" in request.headers.get("accept", "")

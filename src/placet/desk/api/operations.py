"""An operation of the API as a value, and how a request becomes a call of it: who, what, answered how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.desk.access.people import Actor, Role
from placet.desk.api.idempotency import once
from placet.desk.api.shapes import Nothing, ProblemShape
from placet.desk.api.validation import field_problem
from placet.desk.web.context import Web, actor_of, require, web_of
from placet.desk.web.guards import media_type
from placet.desk.web.problems import FieldProblem, Problem
from placet.facts.codec import JsonObject, encode, parse_arguments

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[Q, B]):
    """One call of an operation."""

    web: Web
    request: Request
    query: Q
    body: B

    @property
    def actor(self) -> Actor:
        return actor_of(self.request)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What an operation answers, where it is more than a value with its usual status."""

    value: msgspec.Struct | None
    status: int | None = None
    headers: Mapping[str, str] | None = None


AnyApiRequest: TypeAlias = ApiRequest[Any, Any]  # Any: each operation names its own
Outcome: TypeAlias = msgspec.Struct | ApiAnswer | Response | None


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    """With `{name}` for a part, and `{name:path}` for one that may hold slashes."""
    run: Callable[[AnyApiRequest], Awaitable[Outcome]]
    summary: str
    tag: str
    role: Role | None = "viewer"
    """Who may; None: everybody, known or not."""
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    """None: an empty answer, or (with `media_type`) a text."""
    status: int = 200
    problems: tuple[int, ...] = ()
    """The errors that are its own; those that any operation has come besides."""
    media_type: str = "application/json"
    details: str = ""
    shows_secret: bool = False
    """Its answer holds a text that is shown once: it is not kept to be given again."""
    more_statuses: tuple[int, ...] = ()
    """Others of its answers, with the same body."""
    keeps_key: bool = False
    """It looks after Idempotency-Keys itself: what is asked again under one is told as it stands by then."""
    error: type[msgspec.Struct] = ProblemShape
    """What is told of an error."""


def routes_of(operations: Sequence[Operation]) -> list[Route]:
    """A route for each path; which operation is meant depends on the method."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _endpoint(found), methods=list(found)) for path, found in paths.items()]


def _endpoint(found: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await perform(found["GET" if request.method == "HEAD" else request.method], request)

    return endpoint


async def perform(operation: Operation, request: Request) -> Response:
    """Who asks is checked before anything of what they sent is looked at."""
    if operation.role is not None:
        require(request, operation.role)
    web = web_of(request)
    query = read_query(request, operation.query)
    raw = await request.body() if operation.body is not None else b""
    body = read_body(request, operation.body, raw) if operation.body is not None else Nothing()

    async def run() -> Response:
        return _response(operation, await operation.run(ApiRequest(web, request, query, body)))

    is_kept = operation.method == "POST" and not operation.keeps_key
    key = request.headers.get("idempotency-key") if is_kept else None
    return (
        await run() if key is None else await once(web, request, key, raw, run, keeps_answer=not operation.shows_secret)
    )


def _response(operation: Operation, outcome: Outcome) -> Response:
    if isinstance(outcome, Response):
        return outcome
    answer = outcome if isinstance(outcome, ApiAnswer) else ApiAnswer(outcome)
    status = answer.status or operation.status
    headers = dict(answer.headers or {})
    if answer.value is None:
        return Response(None, status if answer.status or operation.status != 200 else 204, headers)
    return Response(encode(answer.value), status, headers, operation.media_type)


def read_query(request: Request, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The parameters after the question mark. An empty one is none; a repeated or unknown one is refused."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise refused("query", [FieldProblem(field=name, message="stands twice")])
        if "\x00" in value or "\x00" in name:
            raise refused("query", [FieldProblem(field=name.replace("\x00", "?"), message="holds a NUL character")])
        if value:
            given[name] = value
    try:
        found = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise refused("query", [field_problem(error, kind)]) from error
    for name, value in given.items():  # msgspec takes the text «null» for none, where there may be none
        if getattr(found, name) is None:
            raise refused("query", [FieldProblem(field=name, message=f"{value!r} is no value")])
    return found


def read_body(request: Request, kind: type[msgspec.Struct], raw: bytes) -> msgspec.Struct:
    if raw and media_type(request) != "application/json":
        raise Problem(415, "unsupported_media_type", "Send JSON: «Content-Type: application/json».")
    found = _object_of(raw)
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise refused("body", [field_problem(error, kind)]) from error


def _object_of(raw: bytes) -> JsonObject:
    try:
        found = parse_arguments(raw.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise Problem(
            400,
            "malformed_json",
            "The body is not one JSON object in UTF-8 (or a key stands twice, a number has more than 64 bits, "
            "or it is nested more than 200 levels deep).",
        )
    return found


def refused(what: str, problems: list[FieldProblem]) -> Problem:
    listed = "; ".join(f"{each.field}: {each.message}" for each in problems)
    return Problem(422, "invalid_request", f"The {what} is not what this takes. {listed}.", errors=problems)

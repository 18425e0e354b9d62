"""What stands before every route: host, origin, who asks, how often, how much. The safe branch first.

One middleware, in this order: the `Host` must be ours (against DNS rebinding); the user is identified; they may ask
only so often; a body is counted while it comes in; an unsafe request of a browser must come from our own pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.desk.access.people import Actor
from placet.desk.web.context import Web
from placet.desk.web.problems import Problem, as_problem, problem_response, wants_html
from placet.desk.web.sessions import client_address, cookie_name, is_secure
from placet.facts.errors import PlacetError

logger = logging.getLogger("placet.desk")

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 2000
MOST_PAST, PAST_SECONDS = 64 * 2**20, 5.0
"""Of a body that is too large: so much of it is read, and thrown away, for so long."""
FOR_EVERYBODY = ("/static/", "/healthz", "/readyz", "/.well-known/jwks.json")
"""Users need not log in here, and nothing about anybody is told."""

FOR_GUESTS = ("/v1/gate/", "/aap/v1/")
"""All that a guest may reach."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guards:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app = app
        self._web = web
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        answered = _Answered(send, HTTPConnection(scope), self._web)
        self._in_flight += 1
        try:
            guarded = await self._admit(scope, receive)
        except Problem as problem:
            if problem.code == "too_large":
                await read_past(receive)
            await self._refuse(problem, scope, receive, answered)
        except PlacetError as error:
            await self._refuse(as_problem(error), scope, receive, answered)
        else:
            await self._app(scope, guarded, answered)
        finally:
            self._in_flight -= 1
            if not answered.is_stream:
                route = getattr(scope.get("route"), "path", "other")
                self._web.meter.count_request(scope["method"], route, answered.status, time.perf_counter() - began)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        connection = HTTPConnection(scope)
        check_host(connection, self._web)
        path = scope["path"]
        if path.startswith(FOR_EVERYBODY):
            return receive
        idle = self._web.feed.listeners + self._web.desk.guests.watcher.waits  # they wait, and nobody works on them
        if self._in_flight - idle > self._web.settings.max_in_flight:
            raise Problem(503, "busy", "This process has all hands full: try again.", headers={"Retry-After": "1"})
        self._web.limits.count_request(client_address(connection))
        actor = scope["placet.actor"] = await authenticate(connection, self._web)
        if actor is not None and actor.role == "guest" and not path.startswith(FOR_GUESTS):
            message = f"{actor.name} is a guest: it proposes calls at {FOR_GUESTS[0]}, and may do nothing else here."
            raise Problem(403, "access_denied", message)
        counted = Body(receive, connection, self._web)
        if scope["method"] not in SAFE_METHODS and (actor is None or actor.via != "token"):
            check_origin(connection, self._web)
            if actor is not None:
                await check_csrf(connection, actor, counted)
        return counted

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        logger.info(
            "request refused",
            extra={"action": "request_refused", "path": scope["path"], "status": problem.status, "code": problem.code},
        )
        request = Request(scope)
        if self._web.error_page is not None and wants_html(request):
            await self._web.error_page(request, problem)(scope, receive, send)
        else:
            await problem_response(problem, scope["path"])(scope, receive, send)


class _Answered:
    """Passes an answer on, with the headers that all answers have, and notes how it began."""

    def __init__(self, send: Send, connection: HTTPConnection, web: Web) -> None:
        self._send = send
        self._is_secure = is_secure(connection, web.settings)
        self.status = 500
        self.is_stream = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            if self._is_secure:
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            self.is_stream = headers.get("content-type", "").startswith("text/event-stream")
        await self._send(message)


def check_host(connection: HTTPConnection, web: Web) -> None:
    """A page elsewhere can point a name of its own at this machine; it cannot make the browser say our name."""
    given = connection.headers.getlist("host")
    allowed = web.settings.hosts
    public = urlsplit(web.settings.public_url or "").hostname
    if len(given) == 1 and ("*" in allowed or without_port(given[0]) in (*allowed, public)):
        return
    raise Problem(421, "unknown_host", "This desk is not asked for by that name: start it with --host-name NAME.")


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower().rstrip(".")


async def authenticate(connection: HTTPConnection, web: Web) -> Actor | None:
    """Who shows what they have: a token, or the cookie of a session. A token that is not valid is refused at once."""
    header = connection.headers.get("authorization")
    if header is not None:
        scheme, _, credential = header.partition(" ")
        actor = await web.accounts.actor_of_token(credential.strip()) if scheme.lower() == "bearer" else None
        if actor is None:
            raise Problem(
                401,
                "not_authenticated",
                "This token is not valid: it was revoked, has expired, or never was one.",
                headers={"WWW-Authenticate": 'Bearer realm="placet", error="invalid_token"'},
            )
        return actor
    if web.settings.is_open:
        return Actor(name=web.settings.open_name, role="admin", via="open", csrf=web.open_csrf)
    cookie = connection.cookies.get(cookie_name(connection, web.settings))
    return await web.accounts.actor_of_cookie(cookie) if cookie else None


def check_origin(connection: HTTPConnection, web: Web) -> None:
    """What a browser sends says where it comes from. Programs say nothing, and show no cookie."""
    origin = connection.headers.get("origin")
    site = connection.headers.get("sec-fetch-site")
    ours = {f"{connection.scope['scheme']}://{connection.headers.get('host', '')}".lower()}
    if web.settings.public_url is not None:
        parts = urlsplit(web.settings.public_url)
        ours.add(f"{parts.scheme}://{parts.netloc}".lower())
    if (origin is not None and origin.lower() not in ours) or site in ("cross-site", "same-site"):
        raise Problem(403, "foreign_origin", "This request comes from another site's page, and is refused.")


async def check_csrf(connection: HTTPConnection, actor: Actor, body: Body) -> None:
    """Only our own pages know the session's token, which a form or a script has to show."""
    is_form = media_type(connection) == FORM
    if actor.via == "open" and not is_form and "sec-fetch-site" not in connection.headers:
        return  # a program on this machine: without a cookie there is nothing to be abused
    shown = connection.headers.get("x-csrf-token")
    if shown is None and is_form:
        shown = _csrf_token_in(await body.whole())
    if shown is None or not hmac.compare_digest(shown.encode(), actor.csrf.encode()):
        raise Problem(403, "csrf", "This form is out of date, or not one of this desk's: load the page again.")


def _csrf_token_in(form: bytes) -> str | None:
    return next((value for name, value in form_fields(form) if name == "csrf_token" and value), None)


def form_fields(form: bytes) -> list[tuple[str, str]]:
    """The fields of a form, in their order; Problem 413 where there are more than any of our forms has."""
    try:
        return parse_qsl(form.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        message = f"A form has at most {MAX_FIELDS} fields here: nothing was done. Larger arguments are edited as JSON."
        raise Problem(413, "too_large", message) from error


def media_type(connection: HTTPConnection) -> str:
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_past(receive: Receive) -> None:
    """Throw away what is still on its way, up to a bound. A connection that is closed before it was read is reset, and
    the client would never see why it was refused."""
    left = MOST_PAST
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAST_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class Body:
    """A request's body as it comes in: counted, and not waited for without end."""

    def __init__(
        self, receive: Receive, connection: HTTPConnection, web: Web, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._receive = receive
        self._limit = web.settings.max_body
        self._seconds = web.settings.body_seconds
        self._now = now
        self._until = now() + self._seconds
        self._size = 0
        self._is_whole = False
        self._kept: bytes | None = None
        length = connection.headers.get("content-length", "")
        if length.isdigit() and int(length[:18]) > self._limit:
            raise self._too_large()

    async def __call__(self) -> Message:
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return {"type": "http.request", "body": kept, "more_body": False}
        if self._is_whole:
            return await self._receive()  # the end of the connection, whenever it comes
        try:
            async with asyncio.timeout(max(0.0, self._until - self._now())):
                message = await self._receive()
        except TimeoutError as error:
            raise self._too_slow() from error
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._size > self._limit:
                await read_past(self._receive)
                raise self._too_large()
        return message

    async def whole(self) -> bytes:
        """All of it; the user next gets it again."""
        parts = []
        while not self._is_whole:
            message = await self()
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
        self._kept = b"".join(parts)
        return self._kept

    def _too_large(self) -> Problem:
        message = f"A request's body has at most {self._limit} bytes here."
        return Problem(413, "too_large", message, headers={"Connection": "close"})

    def _too_slow(self) -> Problem:
        message = f"The body did not arrive within {self._seconds:g} s."
        return Problem(408, "too_slow", message, headers={"Connection": "close"})

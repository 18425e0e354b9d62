"""Sessions of browsers: the cookie, logging in and out, following an invitation."""

from __future__ import annotations

import logging

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from placet.desk.access.people import User
from placet.desk.access.sessions import SESSION_SECONDS
from placet.desk.web.context import Web, actor_or_none, web_of
from placet.desk.web.settings import WebSettings
from placet.facts.errors import AccessDenied
from placet.facts.requirements import Assurance

logger = logging.getLogger("placet.desk")

COOKIE = "placet_session"


def is_secure(connection: HTTPConnection, settings: WebSettings) -> bool:
    """Whether people reach this desk over TLS."""
    url = settings.public_url or ""
    return connection.scope["scheme"] == "https" or url.startswith("https://")


def cookie_name(connection: HTTPConnection, settings: WebSettings) -> str:
    """With the prefix, browsers make sure that no other host and no plain connection set it."""
    return f"__Host-{COOKIE}" if is_secure(connection, settings) else COOKIE


def client_address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else "unknown"


async def log_in(request: Request, response: Response, name: str, password: str) -> None:
    """Open a session for who knows the password and put its cookie on the response; AccessDenied otherwise."""
    web = web_of(request)
    web.limits.count_login(client_address(request))
    refuse_password(web, name)
    try:
        with web.limits.guess_of_login(client_address(request), name):
            cookie, session = await web.accounts.log_in(name, password, client=request.headers.get("user-agent", ""))
    except AccessDenied:
        logger.warning("login refused", extra={"action": "login_refused", "client": client_address(request)})
        raise
    logger.info("login", extra={"action": "login", "user": session.owner, "client": client_address(request)})
    await _leave_the_old_one(request)
    _set(request, response, cookie)


def refuse_password(web: Web, name: str | None) -> None:
    """AccessDenied where people log in by a provider; those are left who are named for the day on which it is away."""
    allowed = web.settings.passwords
    if allowed is not None and name is not None and name.strip().lower() not in allowed:
        raise AccessDenied("A password opens nothing here: sign in with your provider.")


async def open_session(
    request: Request, response: Response, user: User, assurance: Assurance, provider: str | None = None
) -> None:
    """Log somebody in who was recognized by other means than a password."""
    web = web_of(request)
    client = request.headers.get("user-agent", "")
    cookie, _ = await web.accounts.open_session(user, client=client, assurance=assurance, provider=provider)
    fields = {"action": "login", "user": user.name, "client": client_address(request), "assurance": assurance}
    logger.info("login", extra=fields)
    await _leave_the_old_one(request)
    _set(request, response, cookie)


async def accept_invitation(request: Request, response: Response, key: str, password: str, *, name: str | None) -> User:
    """Make the invited user, and log them in."""
    web = web_of(request)
    web.limits.count_login(client_address(request))
    user = await web.accounts.accept(key, password, name=name)
    cookie, _ = await web.accounts.open_session(user, client=request.headers.get("user-agent", ""))
    _set(request, response, cookie)
    return user


async def log_out(request: Request, response: Response) -> None:
    """End the session: here, and in the store, so that a copy of the cookie is worth nothing."""
    await _leave_the_old_one(request)
    settings = web_of(request).settings
    secure = is_secure(request, settings)
    response.delete_cookie(cookie_name(request, settings), path="/", secure=secure, httponly=True, samesite="lax")


async def _leave_the_old_one(request: Request) -> None:
    actor = actor_or_none(request)
    if actor is not None and actor.via == "session":
        await web_of(request).accounts.end_session(actor.credential, owner=actor.name)


def _set(request: Request, response: Response, cookie: str) -> None:
    settings = web_of(request).settings
    response.set_cookie(
        cookie_name(request, settings),
        cookie,
        max_age=int(SESSION_SECONDS),
        path="/",
        secure=is_secure(request, settings),
        httponly=True,
        samesite="lax",  # a link in a chat message opens the inbox; unsafe requests are checked besides
    )

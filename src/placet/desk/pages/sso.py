"""Single sign-on over the web: out to the provider and back, bound to the browser that went.

What an answer needs is kept in the store, under a state that is used once; the browser keeps the state in a cookie of
its own, so that nobody is logged in by a link that somebody else began.
"""

from __future__ import annotations

import hmac
import logging

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.access.people import User
from placet.desk.access.records import read, record_of
from placet.desk.access.secrets import new_secret
from placet.desk.pages.rendering import show
from placet.desk.web.context import Web, web_of
from placet.desk.web.problems import Problem
from placet.desk.web.sessions import client_address, is_secure, open_session
from placet.desk.web.single_sign_on import home_of
from placet.facts.errors import AccessDenied, PlacetError
from placet.sso.oidc import Client, Identity

logger = logging.getLogger("placet.desk")

WAY_SECONDS = 600.0
COOKIE = "placet_sso"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A log-in on its way to a provider."""

    provider: str
    nonce: str
    verifier: str
    redirect: str
    next: str
    invitation: str = ""


def _client(web: Web, name: str) -> Client:
    found = web.sso.get(name)
    if found is None:
        raise Problem(404, "not_found", "This desk knows no such provider.")
    return found


def _redirect(request: Request, name: str) -> str:
    public = web_of(request).settings.public_url
    return f"{(public or f'{request.url.scheme}://{request.url.netloc}').rstrip('/')}/login/sso/{name}/callback"


async def begin(request: Request) -> Response:
    """Send the browser to the provider."""
    web, name = web_of(request), str(request.path_params["provider"])
    client = _client(web, name)
    web.limits.count_login(client_address(request))
    state, query = new_secret(), request.query_params
    way = Way(
        provider=name,
        nonce=new_secret(),
        verifier=new_secret() + new_secret(),
        redirect=_redirect(request, name),
        next=home_of(query.get("next", "")),
        invitation=query.get("key", ""),
    )
    try:
        address = await client.address(redirect=way.redirect, state=state, nonce=way.nonce, verifier=way.verifier)
    except PlacetError as error:
        return await _not_in(request, error, 503)
    await web.desk.store.add_record(record_of("sso", state, way, "", web.clock.now() + WAY_SECONDS))
    response = RedirectResponse(address, 303)
    secure = is_secure(request, web.settings)
    response.set_cookie(
        COOKIE, state, max_age=int(WAY_SECONDS), path="/login", secure=secure, httponly=True, samesite="lax"
    )
    return response


async def come_back(request: Request) -> Response:
    """The browser is back with a code, or with why there is none."""
    web, name = web_of(request), str(request.path_params["provider"])
    client, query = _client(web, name), request.query_params
    try:
        with web.limits.guess_of_passkey(f"sso {client_address(request)}"):
            way = await _way(request, name, query.get("state", ""))
            if "error" in query:
                raise AccessDenied(f"{client.provider.shown} let nobody in: {query['error'][:100]}.")
            identity = await client.identity(
                code=query.get("code", ""),
                issuer=query.get("iss"),
                redirect=way.redirect,
                nonce=way.nonce,
                verifier=way.verifier,
            )
            user = await _user(web, identity, client, way)
    except PlacetError as error:
        fields = {"action": "sso_refused", "provider": name, "client": client_address(request), "code": error.code}
        logger.warning("single sign-on refused", extra=fields)
        return await _not_in(request, error, 403 if isinstance(error, AccessDenied) else 503)
    response = RedirectResponse(way.next, 303)
    response.delete_cookie(COOKIE, path="/login")
    provider = msgspec.json.encode({"name": name, "id_token": identity.id_token}).decode()
    await open_session(request, response, user, "sso", provider)
    return response


async def _way(request: Request, name: str, state: str) -> Way:
    web, shown = web_of(request), request.cookies.get(COOKIE, "")
    is_text = bool(state) and state.isascii() and state.isprintable()
    is_ours = is_text and hmac.compare_digest(shown.encode(), state.encode())
    way = read(await web.desk.store.take_record("sso", state) if is_ours else None, Way)
    if way is None or way.provider != name:
        raise AccessDenied("This log-in was not begun in this browser, was answered already, or is too old: try again.")
    return way


async def _user(web: Web, identity: Identity, client: Client, way: Way) -> User:
    book, provider = web.identities, client.provider
    user = await book.of(identity)
    if user is None:
        user = await (book.accept_as(way.invitation, identity) if way.invitation else book.admit(identity, provider))
    if not user.is_active or user.role == "guest":
        raise AccessDenied(f"{user.name} may not log in.")
    return await book.follow_groups(user, identity, provider)


async def _not_in(request: Request, error: PlacetError, status: int) -> Response:
    context = {"next": "/inbox", "name": "", "problem": error.message, "is_new": False}
    return show(request, "login.html", context, status)

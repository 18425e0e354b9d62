"""What the pages' script asks about passkeys: JSON to and fro. The person sees the browser's own dialogue."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from placet.desk.access.passkeys import challenge_of
from placet.desk.access.people import Actor, User
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.passkeys import (
    CREATION_SECONDS,
    Answer,
    ask,
    attempt,
    confirm,
    creation,
    question,
    question_of_waiting,
    who_logs_in,
)
from placet.desk.web.problems import Problem
from placet.desk.web.sessions import client_address, open_session
from placet.desk.web.single_sign_on import home_of
from placet.facts.errors import AccessDenied, UserError

G = TypeVar("G")


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What is meant: a passkey, or one that waits for signatures."""

    id: str = ""


class NewKeyAnswer(Answer, frozen=True, kw_only=True):
    name: str = ""


class LoginAnswer(Answer, frozen=True, kw_only=True):
    next: str = ""


class WaitingAnswer(Answer, frozen=True, kw_only=True):
    id: str


async def _given(request: Request, shape: type[G]) -> G:
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=shape)
    except msgspec.DecodeError as error:
        raise Problem(422, "user_error", f"This is not what was asked for: {error}.") from error


def _person(request: Request) -> tuple[Web, Actor]:
    web, actor = web_of(request), actor_of(request)
    if actor.via != "session":
        raise Problem(403, "access_denied", "A passkey is used by its owner, at a browser.")
    return web, actor


# -- logging in, and confirming ---------------------------------------------------------------------------------------


async def login_options(request: Request) -> Response:
    web_of(request).limits.count_login(client_address(request))
    nonce = await ask(request, "log in", "")
    return JSONResponse(await question(request, nonce, challenge_of(nonce), None))


async def login(request: Request) -> Response:
    given = await _given(request, LoginAnswer)
    key = await who_logs_in(request, given)
    user = await web_of(request).accounts.user(key.owner)
    if user is None or not user.is_active or user.role == "guest":
        raise AccessDenied(f"{key.owner} may not log in.")
    response = JSONResponse({"next": home_of(given.next)})
    await open_session(request, response, user, "passkey")
    return response


async def step_up_options(request: Request) -> Response:
    _, actor = _person(request)
    nonce = await ask(request, "step up", actor.name, actor.credential)
    return JSONResponse(await question(request, nonce, challenge_of(nonce), actor.name))


async def step_up(request: Request) -> Response:
    _, actor = _person(request)
    await confirm(request, actor, await _given(request, Answer))
    return JSONResponse({})


# -- registering and removing -----------------------------------------------------------------------------------------


async def register_options(request: Request) -> Response:
    web, actor = _person(request)
    await _refuse_stale(web, actor)
    nonce = await ask(request, "register", actor.name)
    return JSONResponse(await creation(request, nonce, actor.name))


async def register(request: Request) -> Response:
    web, actor = _person(request)
    given = await _given(request, NewKeyAnswer)
    with attempt(web, actor.name, "register"):
        ceremony = await web.passkeys.take(given.nonce, "register", actor.name, "")
        waiting = await web.passkeys.register(actor.name, given.name, given.credential, ceremony)
    if waiting is None:
        return JSONResponse({"is_registered": True})
    has_key = bool(await web.passkeys.keys(actor.name))
    return JSONResponse({"is_registered": False, "waiting": waiting.id, "sign_yourself": has_key})


async def _refuse_stale(web: Web, actor: Actor) -> None:
    """A first key makes of an open browser what a signature can do: only who has just logged in adds it."""
    session = await web.accounts.session(actor.credential)
    if await web.passkeys.keys(actor.name) or session is None:
        return
    if web.clock.now() - session.created_at > CREATION_SECONDS:
        raise Problem(403, "access_denied", "Log out and in again first: a first passkey is added right after that.")


async def remove(request: Request) -> Response:
    """Propose a removal. It counts when it is signed."""
    web, actor = _person(request)
    key = await web.passkeys.key((await _given(request, Named)).id)
    if key is None or (key.owner != actor.name and not actor.may("admin")):
        raise Problem(404, "not_found", "You have no such passkey.")
    waiting = await web.passkeys.remove(key.id, by=actor.name)
    return JSONResponse({"waiting": waiting.id if waiting is not None else ""})


async def vouch_options(request: Request) -> Response:
    web, actor = _person(request)
    waiting = await web.passkeys.waiting_key((await _given(request, Named)).id)
    signer = await _user(web, actor)
    if waiting is None or not (waiting.key.owner == actor.name or actor.may("admin")):
        raise Problem(404, "not_found", "That passkey does not wait for a signature any more.")
    if not web.passkeys.may_sign(waiting, signer):
        raise Problem(409, "user_error", "You have signed this already: another admin has to.")
    return JSONResponse(await question_of_waiting(request, actor, waiting))


async def vouch(request: Request) -> Response:
    from placet.passkeys.checking import shown

    web, actor = _person(request)
    given = await _given(request, WaitingAnswer)
    with attempt(web, actor.name, "vouch"):
        ceremony = await web.passkeys.take(given.nonce, "vouch", actor.name, given.id)
        assertion = shown(given.credential).assertion(ceremony.id)
        left = await web.passkeys.sign(given.id, assertion, ceremony, await _user(web, actor))
    missing = await web.passkeys.needed(left) if left is not None else 0
    return JSONResponse({"missing": missing})


async def withdraw(request: Request) -> Response:
    web, actor = _person(request)
    waiting = await web.passkeys.waiting_key((await _given(request, Named)).id)
    if waiting is None or not (actor.name in (waiting.key.owner, waiting.by) or actor.may("admin")):
        raise Problem(404, "not_found", "There is no such passkey.")
    await web.passkeys.withdraw(waiting.id)
    return JSONResponse({})


async def _user(web: Web, actor: Actor) -> User:
    user = await web.accounts.user(actor.name)
    if user is None:
        raise UserError(f"There is no user {actor.name}.")
    return user

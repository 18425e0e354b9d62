"""The pages about people: users and invitations for admins, and everybody's own account and tokens."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.access.accounts import checked_role
from placet.desk.access.passkeys import WaitingKey
from placet.desk.access.people import EVERYTHING, ROLES, Actor, DecisionScope, User, patterns_of
from placet.desk.api.people import groups_are_asked
from placet.desk.asked_changes import is_asked as is_asked_at
from placet.desk.pages.form_data import Form, form_of
from placet.desk.pages.rendering import Notice, show
from placet.desk.web.context import Web, actor_of, require, web_of
from placet.desk.web.problems import Problem
from placet.facts.errors import AccessDenied, UserError

DAY = 86400.0
NOTHING = "nothing"
"""How a form says that a user may decide no call at all: an empty field is everything."""
LIFETIMES = (("", "never"), ("1", "in a day"), ("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"))


def scopes_of(text: str) -> tuple[DecisionScope, ...]:
    """«agent tool», one a line, with `*` for any; nothing written is everything."""
    found = []
    if text.strip() == NOTHING:
        return ()
    for line in filter(None, (each.strip() for each in text.splitlines())):
        agent, _, tool = line.partition(" ")
        found.append(DecisionScope(agent=agent, tool=tool.strip() or "*"))
    return tuple(found) or EVERYTHING


def groups_of(text: str) -> list[str]:
    """Written with commas or spaces between them."""
    return text.replace(",", " ").split()


def scope_text(scopes: tuple[DecisionScope, ...]) -> str:
    return "\n".join(f"{scope.agent} {scope.tool}" for scope in scopes) or NOTHING


def scope_label(user: User) -> str:
    if user.role == "guest":
        return "proposes calls, sees its own"
    if user.role == "viewer":
        return "looks, does not decide"
    if user.decides == EVERYTHING:
        return "everything"
    return "; ".join(f"{scope.tool} of {scope.agent}" for scope in user.decides) or NOTHING


async def people(request: Request) -> Response:
    return await _people(request, require(request, "admin"))


async def _people(request: Request, actor: Actor, status: int = 200, **more: Any) -> Response:
    web = web_of(request)
    users = await web.accounts.users()
    context = {
        "page": "people",
        "invitations": await web.accounts.invitations(),
        "users": [(user, scope_label(user), scope_text(user.decides)) for user in users],
        "roles": ROLES,
        "invitation_link": "",
        "invited": "",
        "problem": "",
        "four_eyes": scope_text(
            tuple(DecisionScope(agent=path, tool=tool) for path, tool in await web.desk.four_eyes())
        ),
        "nothing": NOTHING,
        "me": actor.name,
        "keys_waiting": await _keys_waiting(web, actor, None),
        **more,
    }
    return show(request, "people.html", context, status)


async def _keys_waiting(web: Web, actor: Actor, owner: str | None) -> list[tuple[WaitingKey, int, bool]]:
    """What waits for signatures, how many are missing, and whether the reader can give one."""
    me = await web.accounts.user(actor.name)
    return [
        (each, await web.passkeys.needed(each), me is not None and web.passkeys.may_sign(each, me))
        for each in await web.passkeys.waiting(owner)
    ]


async def change_people(request: Request) -> Response:
    """One form for each thing that an admin can do; what was wrong comes back on the page."""
    actor, form = require(request, "admin"), await form_of(request)
    try:
        shown = await _change(web_of(request), actor, form)
    except UserError as error:
        return await _people(request, actor, 422, problem=error.message)
    if shown:
        link = f"{base_url(request)}/invitation?key={shown}"
        return await _people(request, actor, invitation_link=link, invited=form.text("name"))
    return RedirectResponse("/people", 303)


async def _change(web: Web, actor: Actor, form: Form) -> str:
    """What there is to show once: an invitation's key."""
    name = form.text("name")
    match form.text("action"):
        case "invite":
            return await _invite(web, actor, form, name)
        case "link":
            return await web.accounts.invite(name, by=actor.name)
        case "revoke-link":
            await web.accounts.revoke_invitation(form.text("id"), by=actor.name)
        case "four-eyes":
            text = form.text("patterns")
            scopes = scopes_of(text) if text else ()
            await web.desk.set_four_eyes(patterns_of(scopes), by=actor.name, reason=form.text("reason") or None)
        case "change":
            await _change_rights(web, actor, form, name)
        case "deactivate" | "activate" as verb:
            await web.accounts.change_user(name, is_active=verb == "activate", by=actor.name)
        case "remove":
            await web.accounts.remove_user(name, by=actor.name)
        case _:
            raise Problem(422, "user_error", "Choose something to do.")
    return ""


async def _invite(web: Web, actor: Actor, form: Form, name: str) -> str:
    role = checked_role(form.text("role"))
    groups = groups_of(form.text("groups"))
    is_asked = bool(groups) and await is_asked_at(web.desk.store, "groups.set", actor.name)
    user = await web.accounts.add_user(
        name,
        role,
        decides=scopes_of(form.text("decides")),
        groups=() if is_asked else groups,
        by=actor.name,
    )
    await groups_are_asked(web, actor.name, user.name, groups)
    if user.role == "guest":
        return ""  # guests have tokens, and no password
    return await web.accounts.invite(user.name, by=actor.name)


async def _change_rights(web: Web, actor: Actor, form: Form, name: str) -> None:
    groups = groups_of(form.text("groups"))
    is_given = form.get("groups") is not None
    is_asked = is_given and await groups_are_asked(web, actor.name, name, groups)
    await web.accounts.change_user(
        name,
        role=checked_role(form.text("role")),
        decides=scopes_of(form.text("decides")),
        groups=groups if is_given and not is_asked else None,
        owner=form.text("owner") if form.get("owner") is not None else None,
        same_as=form.text("same_as") if form.get("same_as") is not None else None,
        by=actor.name,
    )


def base_url(request: Request) -> str:
    """Where people reach this desk."""
    public = web_of(request).settings.public_url
    return (public or f"{request.url.scheme}://{request.url.netloc}").rstrip("/")


async def account(request: Request) -> Response:
    return await _account(request, actor_of(request))


async def _account(request: Request, actor: Actor, status: int = 200, **more: Any) -> Response:
    web = web_of(request)
    context = {
        "page": "account",
        "tokens": await web.accounts.tokens(actor.name),
        "sessions": await web.accounts.sessions(actor.name),
        "roles": ROLES[: ROLES.index(actor.role) + 1],
        "lifetimes": LIFETIMES,
        "keys": await web.passkeys.keys(actor.name),
        "keys_waiting": await _keys_waiting(web, actor, actor.name),
        "new_token": "",
        "problem": "",
        **more,
    }
    return show(request, "account.html", context, status)


async def change_account(request: Request) -> Response:
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    if actor.via != "session":
        raise Problem(403, "access_denied", "An account is changed by its owner, at a browser.")
    try:
        match form.text("action"):
            case "token":
                token = await _new_token(web, actor, form)
                return await _account(request, actor, new_token=token)
            case "revoke":
                await _revoke(web, actor, form.text("id"))
            case "end":
                await web.accounts.end_session(form.text("id"), owner=actor.name)
            case "password":
                return await _new_password(request, actor, form)
            case _:
                raise Problem(422, "user_error", "Choose something to do.")
    except UserError as error:
        return await _account(request, actor, 422, problem=error.message)
    return RedirectResponse("/account", 303)


async def _new_token(web: Web, actor: Actor, form: Form) -> str:
    days = form.text("days")
    if days not in dict(LIFETIMES):
        raise UserError("Choose when the token ends.")
    role = checked_role(form.text("role") or actor.role)
    await web.accounts.check_token_role(actor.name, role)
    text, _ = await web.accounts.add_token(
        actor.name,
        form.text("name"),
        role=role,
        seconds=float(days) * DAY if days else None,
        by=actor.name,
    )
    return text


async def _revoke(web: Web, actor: Actor, token_id: str) -> None:
    token = await web.accounts.token(token_id)
    if token is not None and token.owner == actor.name:
        await web.accounts.revoke_token(token_id, by=actor.name)


async def _new_password(request: Request, actor: Actor, form: Form) -> Response:
    new = form.get("password") or ""
    if new != (form.get("again") or ""):
        raise UserError("The two passwords are not the same.")
    web = web_of(request)
    try:  # who only found an open browser does not know the old one, and may not guess it at leisure
        with web.limits.guess_of_password(actor.name):
            await web.accounts.check_password(actor.name, form.get("old") or "")
    except AccessDenied:
        return await _account(request, actor, 403, problem="That is not your password so far: nothing was changed.")
    except Problem as problem:
        return await _account(request, actor, problem.status, problem=problem.detail)
    await web.accounts.set_password(actor.name, new, by=actor.name)
    return show(request, "login.html", _after_password(actor), 200)


def _after_password(actor: Actor) -> dict[str, Any]:
    notice = Notice("Your password is changed. All sessions have ended: sign in anew.")
    return {"next": "/account", "name": actor.name, "problem": "", "is_new": False, "actor": None, "notice": notice}

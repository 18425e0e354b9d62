"""Signing in and out, and following an invitation: the first admin's, or that of a new user."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.pages.form_data import form_of
from placet.desk.pages.rendering import show
from placet.desk.web.context import actor_or_none, web_of
from placet.desk.web.problems import Problem
from placet.desk.web.sessions import accept_invitation, log_in, log_out, refuse_password
from placet.desk.web.single_sign_on import address_after_log_out, home_of
from placet.facts.errors import AccessDenied, UserError


async def login_page(request: Request) -> Response:
    following = home_of(request.query_params.get("next", ""))
    if actor_or_none(request) is not None:
        return RedirectResponse(following, 303)
    context = {"next": following, "name": "", "problem": "", "is_new": not await web_of(request).accounts.has_people()}
    return show(request, "login.html", context)


async def login(request: Request) -> Response:
    form = await form_of(request)
    following = home_of(form.text("next"))
    response = RedirectResponse(following, 303)
    try:
        await log_in(request, response, form.text("name"), form.get("password") or "")
    except AccessDenied as error:
        return _login_again(request, following, form.text("name"), error.message, 403)
    except Problem as problem:
        return _login_again(request, following, form.text("name"), problem.detail, problem.status)
    return response


def _login_again(request: Request, following: str, name: str, problem: str, status: int) -> Response:
    context = {"next": following, "name": name, "problem": problem, "is_new": False}
    return show(request, "login.html", context, status)


async def logout(request: Request) -> Response:
    """Who came by a provider is shown the way out there: a form may not lead to another site."""
    actor = actor_or_none(request)
    session = await web_of(request).accounts.session(actor.credential) if actor is not None else None
    leave = await address_after_log_out(request, session.provider if session is not None else None)
    if leave is None:
        response: Response = RedirectResponse("/login", 303)
    else:
        context = {"next": "/inbox", "name": "", "problem": "", "is_new": False, "leave": leave, "actor": None}
        response = show(request, "login.html", context)
    await log_out(request, response)
    return response


async def invitation_page(request: Request) -> Response:
    key = request.query_params.get("key", "")
    invitation = await web_of(request).accounts.invitation(key)
    if invitation is None:
        raise Problem(404, "not_found", await web_of(request).accounts.why_not_usable(key))
    context = {"key": key, "invitation": invitation, "name": invitation.name or "", "problem": ""}
    return show(request, "invitation.html", context)


async def follow_invitation(request: Request) -> Response:
    form = await form_of(request)
    key, password = form.get("key") or "", form.get("password") or ""
    invitation = await web_of(request).accounts.invitation(key)
    if invitation is None:
        raise Problem(404, "not_found", await web_of(request).accounts.why_not_usable(key))
    response = RedirectResponse("/inbox", 303)
    try:
        if password != (form.get("again") or ""):
            raise UserError("The two passwords are not the same.")
        refuse_password(web_of(request), invitation.name)
        await accept_invitation(request, response, key, password, name=form.text("name") or None)
    except (AccessDenied, UserError) as error:
        context = {"key": key, "invitation": invitation, "name": form.text("name"), "problem": error.message}
        return show(request, "invitation.html", context, 422)
    return response

"""The page on which people have their browsers told: one click, and this browser shows what waits."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from placet.channels.push import Browser, push_key
from placet.desk.access.people import Actor
from placet.desk.pages.form_data import form_of
from placet.desk.pages.rendering import STATIC, show
from placet.desk.web.context import actor_of, web_of
from placet.desk.web.problems import Problem
from placet.facts.errors import LimitExceeded, UserError
from placet.service.browsers import browsers_of, forget_browser, tell_browser


async def browsers(request: Request) -> Response:
    return await _page(request, actor_of(request))


async def _page(request: Request, actor: Actor, status: int = 200, *, problem: str = "") -> Response:
    subscriptions = web_of(request).desk.outbox.subscriptions
    context: dict[str, Any] = {
        "page": "account",
        "browsers": await browsers_of(subscriptions, actor.name),
        "push_key": _public_key(),
        "problem": problem,
    }
    return show(request, "browsers.html", context, status)


def _public_key() -> str:
    """Empty: this desk tells no browsers."""
    if find_spec("pywebpush") is None:
        return ""
    try:
        return push_key().public
    except UserError:
        return ""


async def change_browsers(request: Request) -> Response:
    actor, form = actor_of(request), await form_of(request)
    if actor.via != "session":
        raise Problem(403, "access_denied", "A browser is added by its user, in that browser.")
    subscriptions = web_of(request).desk.outbox.subscriptions
    try:
        match form.text("action"):
            case "add":
                found = Browser(endpoint=form.text("endpoint"), p256dh=form.text("p256dh"), auth=form.text("auth"))
                label = request.headers.get("user-agent", "")
                await tell_browser(subscriptions, found, actor.name, "".join(filter(str.isprintable, label)))
            case "remove":
                await forget_browser(subscriptions, form.text("id"), actor.name)
            case _:
                raise Problem(422, "user_error", "Choose something to do.")
    except (UserError, LimitExceeded) as error:
        return await _page(request, actor, 422, problem=error.message)
    return RedirectResponse("/account/browsers", 303)


async def push_worker(_request: Request) -> Response:
    """At the root, since a worker is for the addresses below its own."""
    return FileResponse(STATIC / "push-worker.js", media_type="text/javascript", headers={"Cache-Control": "no-cache"})

"""The page on which people link their accounts in a chat: they get a word, type it there, and confirm it here."""

from __future__ import annotations

import os
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.channels.slack_client import APP_TOKEN
from placet.desk.access.chat_links import ChatLinks
from placet.desk.access.people import Actor
from placet.desk.pages.form_data import form_of
from placet.desk.pages.rendering import show
from placet.desk.web.context import actor_of, web_of
from placet.desk.web.problems import Problem
from placet.facts.errors import UserError


async def chat_account(request: Request) -> Response:
    return await _page(request, actor_of(request))


async def _page(request: Request, actor: Actor, status: int = 200, **more: Any) -> Response:
    links = _links(request)
    context = {
        "page": "account",
        "links": await links.of(actor.name),
        "begun": await links.begun(actor.name),
        "is_slack_here": bool(os.environ.get(APP_TOKEN)),
        "word": "",
        "problem": "",
        **more,
    }
    return show(request, "chat_account.html", context, status)


async def change_chat_account(request: Request) -> Response:
    actor, form, links = actor_of(request), await form_of(request), _links(request)
    if actor.via != "session":
        raise Problem(403, "access_denied", "An account is changed by its owner, at a browser.")
    try:
        match form.text("action"):
            case "begin":
                return await _page(request, actor, word=await links.begin(actor.name))
            case "confirm":
                await links.confirm_here(actor.name, form.text("account"))
            case "give-up":
                await links.give_up(actor.name)
            case "unlink":
                await links.remove(form.text("account"), owner=actor.name, by=actor.name)
            case _:
                raise Problem(422, "user_error", "Choose something to do.")
    except UserError as error:
        return await _page(request, actor, 422, problem=error.message)
    return RedirectResponse("/account/chat", 303)


def _links(request: Request) -> ChatLinks:
    web = web_of(request)
    return ChatLinks(web.desk.store, web.clock)

"""Saved views: filters to which somebody gave a name, each person their own."""

from __future__ import annotations

import hashlib

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.access.people import Actor
from placet.desk.pages.form_data import filters_of_text, form_of
from placet.desk.pages.rendering import link
from placet.desk.web.context import Web, actor_of, web_of
from placet.facts.errors import LimitExceeded, UserError
from placet.ports import StoredRecord

VIEW = "view"
MAX_VIEWS = 30
MAX_NAME = 40


class SavedView(msgspec.Struct, frozen=True):
    name: str
    query: str
    """As it stands in the address."""


async def views_of(web: Web, actor: Actor) -> list[SavedView]:
    rows = await web.desk.store.records(VIEW, owner=actor.name)
    return sorted(
        (msgspec.json.decode(row.data, type=SavedView) for row in rows), key=lambda view: view.name.casefold()
    )


async def change_views(request: Request) -> Response:
    """Give the filters at hand a name, or forget a name; then the list as it was."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    filters, name = filters_of_text(form.text("query")), form.text("name")
    if form.get("forget") is not None:
        await web.desk.store.take_record(VIEW, _place(actor, form.text("forget")))
        return RedirectResponse(link("/inbox", filters.query), 303)
    if not 1 <= len(name) <= MAX_NAME:
        raise UserError(f"A view has a name of at most {MAX_NAME} letters.")
    known = await views_of(web, actor)
    if len(known) >= MAX_VIEWS and name not in {view.name for view in known}:
        raise LimitExceeded(f"You have {MAX_VIEWS} saved views: forget one first.")
    data = msgspec.json.encode(SavedView(name, filters.text)).decode()
    record = StoredRecord(kind=VIEW, id=_place(actor, name), data=data, owner=actor.name)
    if not await web.desk.store.add_record(record):
        await web.desk.store.replace_record(record)
    return RedirectResponse(link("/inbox", filters.query), 303)


def _place(actor: Actor, name: str) -> str:
    return hashlib.blake2b(f"{actor.name}\x00{name}".encode(), digest_size=12).hexdigest()

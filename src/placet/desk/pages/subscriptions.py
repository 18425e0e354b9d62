"""The page about who is told of what happens: channels, what did not get through, and a message to try them."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.access.people import Actor
from placet.desk.api.subscriptions import shape_of
from placet.desk.pages.form_data import Form, form_of
from placet.desk.pages.rendering import show
from placet.desk.web.context import Web, require, web_of
from placet.desk.web.problems import Problem
from placet.facts.errors import LimitExceeded, UserError
from placet.service.outbox_events import EVENT_TYPES
from placet.service.subscriptions import Every, Filters, Subscription

MOST_LETTERS = 50
"""Letters of one webhook that the page lists; the API and the command list all."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the page says once, after a form was sent."""

    secret: str = ""
    name: str = ""
    tested: str = ""
    is_delivered: bool = False


NOTHING_SEEN = Seen()


async def subscriptions(request: Request) -> Response:
    return await _page(request, require(request, "admin"))


async def _page(
    request: Request, actor: Actor, status: int = 200, *, problem: str = "", seen: Seen = NOTHING_SEEN
) -> Response:
    web = web_of(request)
    known = web.desk.outbox.subscriptions
    rows: list[dict[str, Any]] = []  # Any: what the template shows
    for each in await known.all():
        dead = await known.dead(each.id)
        rows.append({"it": each, "shape": await shape_of(web, each), "dead": dead[:MOST_LETTERS], "count": len(dead)})
    context = {
        "page": "subscriptions",
        "rows": rows,
        "event_types": EVENT_TYPES,
        "problem": problem,
        "seen": seen,
        "me": actor.name,
    }
    return show(request, "subscriptions.html", context, status)


async def change_subscriptions(request: Request) -> Response:
    """One form for each thing that an admin can do; what was wrong comes back on the page."""
    actor, form = require(request, "admin"), await form_of(request)
    try:
        seen = await _change(web_of(request), actor, form)
    except (UserError, LimitExceeded) as error:
        return await _page(request, actor, 422, problem=error.message)
    if seen is not NOTHING_SEEN:
        return await _page(request, actor, seen=seen)
    return RedirectResponse("/subscriptions", 303)


async def _change(web: Web, actor: Actor, form: Form) -> Seen:
    known, wanted = web.desk.outbox.subscriptions, form.text("id")
    if form.text("action") == "add":
        made = await known.add(
            form.text("name"),
            form.text("url"),
            filters_of(form),
            by=actor.name,
            shows_arguments=form.get("shows_arguments") == "yes",
            every=every_of(form),
        )
        return Seen(secret=made.secrets[0].key, name=made.name) if made.secrets else NOTHING_SEEN
    found = None if "\x00" in wanted else await known.find(wanted)
    if found is None:
        raise Problem(404, "not_found", "This channel is not there any more.")
    return await _change_one(web, actor, form, found)


async def _change_one(web: Web, actor: Actor, form: Form, found: Subscription) -> Seen:
    known = web.desk.outbox.subscriptions
    match form.text("action"):
        case "change":
            new = {"name": form.text("name"), "url": form.text("url"), "filters": filters_of(form)}
            new |= {"every": every_of(form)}
            shows = form.get("shows_arguments") == "yes"
            await known.change(
                found.id, lambda it: msgspec.structs.replace(it, **new, shows_arguments=shows), by=actor.name
            )
        case "rotate":
            changed = await known.rotate(found.id, by=actor.name)
            return NOTHING_SEEN if changed is None else Seen(secret=changed.secrets[0].key, name=changed.name)
        case "test":
            result = await web.desk.outbox.test(found)
            return Seen(tested=result.error or "It got through.", name=found.name, is_delivered=result.error is None)
        case "suspend":
            await known.suspend(found.id, f"{actor.name} suspended it", by=actor.name)
        case "resume" | "resume-from-now" as verb:
            await known.resume(found.id, by=actor.name, from_now=verb == "resume-from-now")
        case "send-all":
            await known.send_all_again(found.id)
        case "send":
            await known.send_again(found.id, form.text("letter"))
        case "remove":
            await known.remove(found.id, by=actor.name)
        case _:
            raise Problem(422, "user_error", "Choose something to do.")
    return NOTHING_SEEN


def every_of(form: Form) -> Every | None:
    match form.text("every"):
        case "":
            return None
        case "hour" | "day" as every:
            return every
        case other:
            raise UserError(f"A digest is told once an hour or a day, not {other[:20]!r}.")


def filters_of(form: Form) -> Filters:
    """All events ticked is no filter: then events of later versions are told, too."""
    events = form.getlist("events")
    return Filters(
        events=[] if set(events) >= set(EVENT_TYPES) else events,
        agents=_names(form.text("agents")),
        tools=_names(form.text("tools")),
        groups=_names(form.text("groups")),
    )


def _names(text: str) -> list[str]:
    """Patterns, separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]

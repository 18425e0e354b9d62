"""Templates: one environment that escapes everything, and what every page is given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from placet.core.budget import text_of
from placet.desk.pages import text_format
from placet.desk.web.context import actor_or_none, csrf_of, web_of
from placet.desk.web.feed import kind_name
from placet.desk.web.passkeys import are_available
from placet.desk.web.single_sign_on import links
from placet.facts import events
from placet.facts.ids import key_of_request
from placet.facts.requirements import SURE_BY

HERE = Path(__file__).parent
STATIC = HERE / "static"


@dataclass(frozen=True, slots=True)
class Notice:
    """A short message that goes away by itself."""

    text: str
    look: str = "good"
    link: str = ""
    link_text: str = ""
    undo: str = ""
    """The request whose approval can be taken back from here."""
    undo_until: float | None = None
    """When the call begins at the earliest."""


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": text_format.age,
        "call_key": lambda request: key_of_request(request).partition("#")[0],  # as events name the call
        "clock": text_format.clock,
        "cut": text_format.shortened,
        "iso": text_format.iso,
        "limit_text": text_of,
        "json_line": lambda value: text_format.json_text(value, indent=None),
        "date_and_time": text_format.date_and_time,
        "outer": lambda place: place.rpartition("…")[0].removesuffix("."),
        "rows": lambda text: min(14, max(2, text.count("\n") + 1 + len(text) // 90)),
        "short_id": short_id,
        "size": text_format.size,
        "span": text_format.span,
        "steps": text_format.agent_steps,
        "sure_by": SURE_BY.__getitem__,
        "visible": text_format.visible,
        "visible_line": lambda text: text_format.visible(str(text), one_line=True),
        "visible_text": text_format.visible_text,
    }
    made.globals |= {"static": static_url, "link": link}
    return made


def short_id(run_id: str) -> str:
    """The end of an id distinguishes two of them: its beginning is the time."""
    prefix, _, rest = run_id.partition("_")
    return f"{prefix}_…{rest[-8:]}" if len(rest) > 10 else run_id


@cache
def _version(name: str) -> str:
    return hashlib.blake2b((STATIC / name).read_bytes(), digest_size=6).hexdigest()


def static_url(name: str) -> str:
    """With the file's digest: browsers may keep it, and see a new one at once."""
    return f"/static/{name}?v={_version(name)}"


def link(path: str, query: Mapping[str, str] | None = None, /, **more: str | None) -> str:
    given = {key: each for key, each in {**(query or {}), **more}.items() if each}
    return f"{path}?{urlencode(given)}" if given else path


@cache
def live_names() -> str:
    """The names of all events that a stream may bring: those of the facts, as the feed writes them."""
    return " ".join(kind_name(each) for each in get_args(events.PlainFact))


def render(request: Request, template: str, context: Mapping[str, Any]) -> str:
    web, csrf = web_of(request), csrf_of(request)
    field = Markup('<input type="hidden" name="csrf_token" value="{}">').format(csrf)
    given = {
        "actor": actor_or_none(request),
        "now": web.clock.now(),
        "page": "",
        "notice": None,
        "live_url": link("/v1/events", after=_text(context.get("sequence"))),
        "live_names": live_names(),
        "has_people": not web.settings.is_open,
        "sso_links": lambda following, key="": links(web, following, key),
        "has_passkeys": are_available() and not web.settings.is_open,
        "csrf_field": lambda: field,
        "url": lambda path: path,
        **context,
    }
    return environment().get_template(template).render(given)


def _text(number: object) -> str | None:
    return None if number is None else str(number)


def show(
    request: Request,
    template: str,
    context: Mapping[str, Any],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    return HTMLResponse(render(request, template, context), status, headers)


def about(request_id: str) -> dict[str, str]:
    """Says which request an answer is about: a page that shows another one by then drops it."""
    return {"Placet-Request": request_id}


def is_partial(request: Request) -> bool:
    """Whether a script of ours asks for a part of a page."""
    return request.headers.get("hx-request") == "true"

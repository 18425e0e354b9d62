"""The inbox: the list, the card, its forms; whole pages for browsers, parts of them for the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.index import RequestKind, RequestStatus
from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.argument_parts import arguments_of
from placet.desk.pages.arguments import in_one_line, in_parts
from placet.desk.pages.cards import MAX_COUNTED, STATUS_LABEL, RequestCard, card_of, notice_of
from placet.desk.pages.form_data import STATUSES, Filters, filters_of
from placet.desk.pages.panels import Panel, panel_of
from placet.desk.pages.rendering import about, is_partial, link, show
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import request_meant, request_or_404, voting_of
from placet.facts.codec import JsonObject

PAGE = 50
STATUS_OPTIONS = [*((name, STATUS_LABEL[name].lower()) for name in STATUSES), ("all", "all")]
NEW = 3.0
"""Seconds for which a row is marked as new."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of the list."""

    id: str
    digest: str
    tool: str
    agent: str
    kind: RequestKind
    status: RequestStatus
    summary: str
    parts: list[tuple[str, str]]
    created_at: float
    expires_at: float | None
    decided_by: str | None
    grant: str | None
    """The standing decision that decided: no person looked at this call."""
    asked_for: str
    """What the agent asked for, where an edit made something else of it."""
    can_pick: bool
    is_new: bool
    standing: str = ""
    """Where several people have to approve: what is there and what is missing."""


def list_row(
    request: DeskRequest, actor: Actor, now: float, runs_with: JsonObject | str, standing: str = ""
) -> ListRow:
    """A call in doubt, and one that asks for something, is decided by itself."""
    may = actor.may_decide(request.agent, request.tool)
    can_pick = request.status == "pending" and request.kind == "approval" and may
    return ListRow(
        id=request.id,
        digest=request.digest,
        tool=request.tool,
        agent=request.agent,
        kind=request.kind,
        status=request.status,
        summary=in_one_line(runs_with),
        parts=in_parts(runs_with),
        created_at=request.created_at,
        expires_at=request.expires_at,
        decided_by=request.decided_by,
        grant=request.grant,
        asked_for=in_one_line(request.arguments) if request.status == "edited" else "",
        can_pick=can_pick,
        is_new=now - request.created_at < NEW,
        standing=standing,
    )


async def listed(web: Web, filters: Filters, cursor: str | None) -> tuple[list[DeskRequest], str | None]:
    status: Any = None if filters.status == "all" else filters.status
    page = await web.desk.requests(
        status=status,
        agent=filters.agent or None,
        tool=filters.tool or None,
        run_id=filters.run or None,
        cursor=cursor,
        limit=PAGE,
    )
    return page.rows, page.cursor


async def list_context(request: Request, filters: Filters, cursor: str | None, open_id: str = "") -> dict[str, Any]:
    """What the list needs; `rows` are the requests themselves."""
    web, actor = web_of(request), actor_of(request)
    found, following = await listed(web, filters, cursor)
    now = web.clock.now()
    ours = [agent.address for agent in web.desk.agents]
    known = {name for name in (*ours, *(row.agent for row in found), filters.agent) if name}
    tools = {name for name in (*(row.tool for row in found), filters.tool) if name}
    return {
        "page": "inbox",
        "filters": filters,
        "cursor": cursor,
        "next_cursor": following,
        "requests": [
            list_row(each, actor, now, await arguments_of(web, each), await _standing(web, actor, each))
            for each in found
        ],
        "rows": found,
        "open_id": open_id,
        "others": await _others(web, filters, cursor) if not found else 0,
        "max_counted": MAX_COUNTED,
        "agents": sorted(known),
        "tools": sorted(tools),
        "statuses": STATUS_OPTIONS,
        "card": None,
        "panel": None,
        "problem": None,
        "together": None,
        "outcomes": None,
        "is_fresh": False,
    }


async def _standing(web: Web, actor: Actor, request: DeskRequest) -> str:
    voting = await voting_of(web, actor, request) if request.ballot is not None else None
    return voting.line if voting is not None else ""


async def _others(web: Web, filters: Filters, cursor: str | None) -> int:
    """How many requests wait that an empty list does not show."""
    if not filters.is_set and cursor is None:
        return 0
    return len((await web.desk.requests(limit=MAX_COUNTED)).rows)


async def inbox(request: Request) -> Response:
    """The whole page. `open` names the request that is shown, `do` the form that is open."""
    web, actor = web_of(request), actor_of(request)
    given = request.query_params
    filters, cursor = filters_of(given), given.get("cursor") or None
    sequence = await web.desk.store.latest_sequence()  # before anything is read: what happens from here on is heard
    context = await list_context(request, filters, cursor, given.get("open", "")) | {"sequence": sequence}
    if given.get("open"):
        context |= await card_context(web, actor, given["open"], given.get("do", ""), given.get("as") == "json")
    if given.get("done"):
        context["notice"] = await notice_of(web, actor, await request_or_404(web, given["done"]))
    if not context["card"] and not context["requests"] and not filters.is_set:
        context["is_fresh"] = not (await web.desk.runs(limit=1)).rows
    return show(request, "inbox.html", context)


async def card_context(web: Web, actor: Actor, request_id: str, verb: str, as_json: bool) -> dict[str, Any]:
    card = await card_of(web, actor, await request_meant(web, request_id))
    return {"card": card, "panel": _allowed_panel(card, verb, as_json)}


def _allowed_panel(card: RequestCard, verb: str, as_json: bool) -> Panel | None:
    if card.request.status != "pending" or verb not in [each for each, _, _ in card.panels]:
        return None
    return panel_of(card, verb, as_json=as_json)


async def inbox_list(request: Request) -> Response:
    """The list alone, for live updates."""
    given = request.query_params
    context = await list_context(request, filters_of(given), given.get("cursor") or None, given.get("open", ""))
    return show(request, "_list.html", context)


async def inbox_card(request: Request) -> Response:
    if not is_partial(request):
        return RedirectResponse(link("/inbox", dict(request.query_params)), 303)
    web, actor, given = web_of(request), actor_of(request), request.query_params
    context = await card_context(web, actor, given.get("open", ""), "", False)
    return show(request, "_card.html", context | _place(given), headers=about(context["card"].request.id))


async def inbox_panel(request: Request) -> Response:
    if not is_partial(request):
        return RedirectResponse(link("/inbox", dict(request.query_params)), 303)
    web, actor, given = web_of(request), actor_of(request), request.query_params
    context = await card_context(
        web, actor, given.get("open", ""), given.get("do", ""), given.get("as") == "json"
    ) | _place(given)
    if context["panel"] is None:
        headers = onto("#card-status", "outerHTML") | about(context["card"].request.id)
        return show(request, "_status.html", context, headers=headers)
    return show(request, "_panel.html", context, headers=about(context["card"].request.id))


async def inbox_status(request: Request) -> Response:
    web, actor, given = web_of(request), actor_of(request), request.query_params
    context = await card_context(web, actor, given.get("open", ""), "", False)
    return show(request, "_status.html", context | _place(given), headers=about(context["card"].request.id))


def _place(given: Any) -> dict[str, Any]:
    return {"filters": filters_of(given), "cursor": given.get("cursor") or None, "problem": None}


def onto(target: str, swap: str) -> dict[str, str]:
    """Headers that put an answer elsewhere than where it was asked for."""
    return {"HX-Retarget": target, "HX-Reswap": swap}

"""The inbox: the list, the card, its forms; whole pages for browsers, parts of them for the script."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.casting import Known
from placet.core.index import RequestKind, RequestStatus
from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.argument_parts import arguments_of
from placet.desk.pages.arguments import in_one_line, in_parts
from placet.desk.pages.cards import MAX_COUNTED, STATUS_LABEL, RequestCard, card_of, notice_of
from placet.desk.pages.decks import PREFIX, Deck
from placet.desk.pages.form_data import STATUSES, Filters, filters_of
from placet.desk.pages.listing import MAX_FOUND, listed
from placet.desk.pages.panels import Panel, panel_of
from placet.desk.pages.rendering import about, is_partial, link, show
from placet.desk.pages.tables import table_of_deck
from placet.desk.pages.views import views_of
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import request_meant, request_or_404, voting_of
from placet.desk.web.problems import Problem
from placet.desk.web.waiting import Care
from placet.facts.codec import JsonObject
from placet.ports import MAX_COUNTED as MAX_COUNTED_IN_ALL
from placet.ports import RequestQuery
from placet.service.stuck import all_who_could

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
    care: Care = "plain"
    sentence: str = ""
    """What the tool says of this call."""
    is_deck: bool = False


def list_row(
    request: DeskRequest,
    actor: Actor,
    now: float,
    runs_with: JsonObject | str,
    standing: str = "",
    care: Care = "plain",
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
        care=care,
        sentence=request.summary or "",
    )


@dataclass(frozen=True, slots=True)
class DeckRow:
    """One line of the list for many requests that are alike."""

    id: str
    tool: str
    agent: str
    count: int
    usual: int
    unusual: int
    parts: list[tuple[str, str]]
    created_at: float
    expires_at: float | None
    can_pick: bool = False
    is_deck: bool = True

    @property
    def word(self) -> str:
        """What is said of its members, compared with what was approved before."""
        if not self.usual:
            return ""
        return "usual" if self.usual == self.count else f"{self.usual} usual"


def deck_row(deck: Deck) -> DeckRow:
    return DeckRow(
        id=deck.id,
        tool=deck.tool,
        agent=deck.agent,
        count=len(deck.members),
        usual=deck.usual,
        unusual=deck.unusual,
        parts=deck.parts,
        created_at=deck.place[0],
        expires_at=deck.expires_at,
    )


async def list_context(request: Request, filters: Filters, cursor: str | None, open_id: str = "") -> dict[str, Any]:
    """What the list needs; `ids` are its lines."""
    web, actor = web_of(request), actor_of(request)
    found = await listed(web, filters, cursor)
    now = web.clock.now()
    ours = {agent.address for agent in web.desk.agents}
    is_voted = any(isinstance(line, DeskRequest) and line.ballot is not None for line in found.lines)
    everybody = await all_who_could(web.desk.store) if is_voted else None
    rows = [
        deck_row(line)
        if isinstance(line, Deck)
        else list_row(
            line,
            actor,
            now,
            await arguments_of(web, line),
            await _standing(web, actor, line, everybody),
            found.cares.get(line.id, "plain"),
        )
        for line in found.lines
    ]
    return {
        "page": "inbox",
        "filters": filters,
        "cursor": cursor,
        "next_cursor": found.cursor,
        "requests": rows,
        "open_id": open_id,
        "others": await _others(web, filters, cursor) if not rows else 0,
        "max_counted": MAX_COUNTED,
        "waiting_count": web.waiting.count,
        "total": found.total,
        "is_more": found.total >= MAX_COUNTED_IN_ALL,
        "max_found": MAX_FOUND if found.is_cut else 0,
        "has_search": web.settings.search,
        "views": await views_of(web, actor),
        "agents": sorted({*ours, *found.agents, filters.agent} - {""}),
        "tools": sorted({*found.tools, filters.tool} - {""}),
        "statuses": STATUS_OPTIONS,
        "reviews_owed": len(await web.desk.reviews_owed()),
        "card": None,
        "panel": None,
        "problem": None,
        "together": None,
        "outcomes": None,
        "is_fresh": False,
        "is_auto": False,
    }


async def _standing(web: Web, actor: Actor, request: DeskRequest, everybody: Known | None) -> str:
    if request.ballot is None:
        return ""
    voting = await voting_of(web, actor, request, everybody=everybody)
    if voting is None:
        return ""
    return f"stuck: too few people are left · {voting.line}" if voting.is_stuck else voting.line


async def _others(web: Web, filters: Filters, cursor: str | None) -> int:
    """How many requests wait that an empty list does not show."""
    return await web.desk.store.count_requests(RequestQuery(), MAX_COUNTED) if filters.is_set or cursor else 0


async def inbox(request: Request) -> Response:
    """The whole page. `open` names the request or the deck that is shown, `do` the form that is open. Where none is
    named, the first one of the list is open; on a narrow screen the list is seen then."""
    web, actor = web_of(request), actor_of(request)
    given = request.query_params
    filters, cursor = filters_of(given), given.get("cursor") or None
    sequence = await web.desk.store.latest_sequence()  # before anything is read: what happens from here on is heard
    context = await list_context(request, filters, cursor, given.get("open", "")) | {"sequence": sequence}
    open_id = given.get("open", "")
    if not open_id and context["requests"] and filters.status == "pending":
        context |= {"is_auto": True, "open_id": (open_id := context["requests"][0].id)}
    if open_id:
        with contextlib.suppress(*([Problem] if context["is_auto"] else [])):  # it went a moment ago
            context |= await place_context(
                web, actor, filters, open_id, given.get("do", ""), as_json=given.get("as") == "json"
            )
    if given.get("done"):
        context["notice"] = await notice_of(web, actor, await request_or_404(web, given["done"]))
    if not context["card"] and not context["requests"] and not filters.is_set:
        context["is_fresh"] = not (await web.desk.runs(limit=1)).rows
    return show(request, "inbox.html", context)


async def place_context(
    web: Web, actor: Actor, filters: Filters, open_id: str, verb: str = "", *, as_json: bool = False
) -> dict[str, Any]:
    """What stands beside the list: a card, or the table of a deck."""
    if open_id.startswith(PREFIX):
        return {"together": await table_of_deck(web, actor, filters, open_id)}
    return await card_context(web, actor, open_id, verb, as_json)


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
    open_id = given.get("open", "")
    context = await place_context(web, actor, filters_of(given), open_id) | _place(given)
    if open_id.startswith(PREFIX):
        return show(request, "_together.html", context, headers=about(open_id))
    return show(request, "_card.html", context, headers=about(context["card"].request.id))


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
    return {"filters": filters_of(given), "cursor": given.get("cursor") or None, "problem": None, "is_auto": False}


def onto(target: str, swap: str) -> dict[str, str]:
    """Headers that put an answer elsewhere than where it was asked for."""
    return {"HX-Retarget": target, "HX-Reswap": swap}

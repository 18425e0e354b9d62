"""The inbox as JSON: the same lines, decks, differences and offers as the pages, for the inbox in a terminal.

Rule of this file: it derives nothing. What the pages show and refuse, it shows and refuses.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import in_one_line
from placet.desk.pages.cards import card_of
from placet.desk.pages.decisions import make_offered, undo_until
from placet.desk.pages.decks import Deck
from placet.desk.pages.differences import comparison_of
from placet.desk.pages.form_data import filters_of, filters_of_text
from placet.desk.pages.listing import listed
from placet.desk.pages.tables import table_of_deck
from placet.desk.pages.text_format import iso
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import Decision, can_take_back, decide, request_meant, request_or_404
from placet.desk.web.problems import Problem
from placet.desk.web.waiting import care_of
from placet.facts.codec import JsonObject, encode


class DecisionHere(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request: str
    decision: Decision
    seen: list[str] = []
    """The unusual values that the reader acknowledged."""


class OfferTaken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    deck: str
    offer: str
    """The digest of what was offered."""
    digest: str
    """What the first call of the deck showed."""
    filters: str = ""


async def lines(request: Request) -> Response:
    """One page of the list."""
    web, given = web_of(request), request.query_params
    filters = filters_of(given)
    found = await listed(web, filters, given.get("cursor") or None)
    rows = [_deck(line) if isinstance(line, Deck) else _request(line, found.cares) for line in found.lines]
    answer = {"lines": rows, "total": found.total, "next": found.cursor, "waiting": web.waiting.count}
    return _json({**answer, "sorts": dict(filters.sorts), "has_search": web.settings.search, "filters": filters.text})


async def count(request: Request) -> Response:
    """How much waits: for a page that nobody looks at, and that is not drawn."""
    web = web_of(request)
    actor_of(request)
    await web.waiting.refresh(web.clock.now())
    return _json({"waiting": web.waiting.count})


def _deck(deck: Deck) -> JsonObject:
    return {
        "id": deck.id,
        "is_deck": True,
        "tool": deck.tool,
        "agent": deck.agent,
        "count": deck.count,
        "usual": deck.usual,
        "unusual": deck.unusual,
        "care": deck.care,
        "text": " · ".join(f"{name}: {value}" if name else value for name, value in deck.parts),
        "created_at": iso(deck.place[0]),
        "expires_at": iso(deck.expires_at) if deck.expires_at else None,
    }


def _request(row: DeskRequest, cares: Any) -> JsonObject:  # Any: how much care each needs, by id
    return {
        "id": row.id,
        "is_deck": False,
        "tool": row.tool,
        "agent": row.agent,
        "count": 1,
        "kind": row.kind,
        "status": row.status,
        "care": cares.get(row.id, "plain"),
        "text": row.summary or in_one_line(row.arguments),
        "created_at": iso(row.created_at),
        "expires_at": iso(row.expires_at) if row.expires_at else None,
        "digest": row.digest,
    }


async def differs(request: Request) -> Response:
    """What a card says first: the sentence, what is unusual, where values came from, what led to it."""
    web, actor = web_of(request), actor_of(request)
    card = await card_of(web, actor, await request_meant(web, request.query_params.get("open", "")))
    found = card.differs
    notes = {name: [note.text for note in each] for name, each in found.notes.items()}
    steps = [{"sort": step.sort, "who": step.who, "text": step.text[:700]} for step in card.steps]
    return _json(
        {
            "id": card.request.id,
            "sentence": found.sentence,
            "care": found.care,
            "odd": [{"name": note.name, "text": note.text} for note in found.odd],
            "approved": found.comparison.approved,
            "runs": found.comparison.runs,
            "notes": notes,
            "origins": found.origins,
            "steps": steps,
            "steps_left_out": card.steps_left_out,
            "verbs": [verb for verb, _, _ in card.panels],
            "can_be_approved": card.can_be_approved,
            "why_not": card.why_not,
            "may_reject": card.may_reject,
        }
    )


async def deck(request: Request) -> Response:
    """The calls of a deck, as they wait now, and what is offered for it."""
    web, given = web_of(request), request.query_params
    found = await table_of_deck(web, actor_of(request), filters_of(given), given.get("open", ""))
    offer = found.offer
    rows = [
        {"id": row.id, "digest": row.digest, "cells": dict(zip(group.columns, row.cells, strict=False))}
        for group in found.groups
        for row in group.rows
    ]
    offered = offer and {
        "digest": offer.digest,
        "bounds": offer.bounds,
        "would_have": offer.would_have,
        "of": offer.of,
        "uses": offer.uses,
        "days": offer.days,
    }
    excluded = [list(each) for each in found.excluded]
    tool, agent = (found.groups[0].tool, found.groups[0].agent) if found.groups else ("", "")
    about = {"id": found.deck, "tool": tool, "agent": agent, "is_usual": found.is_usual, "left": found.left}
    return _json({**about, "rows": rows, "excluded": excluded, "unusual": found.unusual, "offer": offered})


async def decide_here(request: Request) -> Response:
    """A decision of the inbox: what is unusual was acknowledged, and what one key decides can be taken back."""
    web, actor, given = web_of(request), actor_of(request), await _body(request, DecisionHere)
    row = await request_or_404(web, given.request)
    if given.decision.digest is None:
        raise Problem(422, "user_error", "A decision names the digest of what was shown. Nothing was decided.")
    comparison = await comparison_of(web, row)
    odd = [note.name for note in comparison.odd] if comparison.is_unusual else []
    unseen = [name for name in odd if name not in given.seen]
    if given.decision.decision == "approve" and row.status == "pending" and unseen:
        listed_names = ", ".join(unseen[:8])
        raise Problem(422, "not_acknowledged", f"Look at what is unusual first: {listed_names}. Nothing was decided.")
    until = undo_until(web, row, care_of(row, comparison), given.decision)
    done = await decide(web, actor, row.id, given.decision, until)
    return await _done(web, request, done, until)


async def take_offer(request: Request) -> Response:
    """Make the standing decision that a deck offers: what was shown, or nothing."""
    web, given = web_of(request), await _body(request, OfferTaken)
    filters = filters_of_text(given.filters)
    _, done, _ = await make_offered(web, actor_of(request), filters, given.deck, given.offer, given.digest)
    return await _done(web, request, done, None)


async def _done(web: Web, request: Request, done: DeskRequest, until: float | None) -> Response:
    can_undo = await can_take_back(web, actor_of(request), done)
    return _json({"id": done.id, "status": done.status, "tool": done.tool, "can_undo": can_undo, "undo_until": until})


async def _body(request: Request, shape: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.body(), type=shape)
    except msgspec.MsgspecError as error:
        raise Problem(422, "user_error", f"This is not what was asked for: {error}. Nothing was decided.") from error


def _json(value: Any) -> Response:
    return Response(encode(value), media_type="application/json")

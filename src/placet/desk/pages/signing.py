"""Signing on the page: what the card's form says is what the passkey is asked to sign."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from placet.desk.pages.cards import card_of
from placet.desk.pages.decisions import read_decision
from placet.desk.pages.form_data import form_of
from placet.desk.web.context import actor_of, web_of
from placet.desk.web.deciding import question_to_sign, request_or_404


async def sign_options(request: Request) -> Response:
    """The question to a passkey about the form as it stands. A form that cannot be sent gets none: it is sent as it is,
    and comes back with what is wrong in it."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    card = await card_of(web, actor, await request_or_404(web, form.text("open")))
    decision, _ = read_decision(web, card, form, form.text("panel") or form.text("decision"))
    if decision is None:
        return JSONResponse({})
    return JSONResponse(await question_to_sign(request, actor, card.request.id, decision))

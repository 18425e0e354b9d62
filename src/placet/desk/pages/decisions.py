"""Deciding on the page: one request, or several together that were on the screen; and what is shown afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import in_one_line
from placet.desk.pages.cards import STATUS_LABEL, RequestCard, card_of, notice_of
from placet.desk.pages.decks import deck_of
from placet.desk.pages.differences import comparison_of
from placet.desk.pages.form_data import Filters, Form, filters_of_text, form_of
from placet.desk.pages.forms import Reading
from placet.desk.pages.inbox import list_context, onto, place_context
from placet.desk.pages.offers import Offer, offer_for
from placet.desk.pages.panels import (
    Panel,
    always_of,
    fill_answer,
    fill_edit,
    original_arguments,
    panel_of,
    read_answer,
    read_edit,
    values_of,
)
from placet.desk.pages.rendering import Notice, about, is_partial, link, render, show
from placet.desk.pages.tables import MAX_TOGETHER, Together, grouped, why_alone, why_left_out
from placet.desk.pages.text_format import json_text
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import Decision, decide, request_or_404, take_back
from placet.desk.web.grant_checks import warnings_on_always
from placet.desk.web.passkeys import Answer
from placet.desk.web.problems import Problem
from placet.desk.web.waiting import Care, care_of
from placet.facts.events import Verdict
from placet.facts.verdict_words import counted


@dataclass(frozen=True, slots=True)
class Refusal:
    title: str
    text: str


# -- one --------------------------------------------------------------------------------------------------------------


async def decide_one(request: Request) -> Response:
    """Take a form of the card. What is wrong with it comes back beside its fields, and nothing is decided."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    card = await card_of(web, actor, await request_or_404(web, form.text("open")))
    verb = form.text("panel") or form.text("decision")
    decision, panel = read_decision(web, card, form, verb)
    if decision is None:
        status = 200 if form.get("change") else 422
        return await _card_again(request, card, form, status, panel=panel)
    if (unseen := _not_acknowledged(card, form, decision)) is not None:
        return await _refused(request, card, form, unseen)
    decision = msgspec.structs.replace(decision, signature=_signature(form))
    following = await _following(request, form, card.request.id)
    warnings = await warnings_on_always(web, card.request, decision)
    until = undo_until(web, card.request, card.differs.care if panel is None else "plain", decision)
    try:
        done = await decide(web, actor, card.request.id, decision, until)
    except Problem as problem:
        return await _refused(request, card, form, problem)
    return await _went_on(request, form, done, following, warnings)


def _signature(form: Form) -> Answer | None:
    """What the reviewer's passkey said about this form, if it was asked."""
    text = form.get("signature")
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Answer)
    except msgspec.DecodeError as error:
        raise Problem(422, "user_error", "The signature cannot be read: nothing was decided.") from error


def undo_until(web: Web, row: DeskRequest, care: Care, decision: Decision) -> float | None:
    """When a call that is approved here begins at the earliest: what one key decides leaves time to take it back, and a
    tool may want that for each yes."""
    if decision.decision not in ("approve", "edit") or row.kind != "approval":
        return None
    seconds = row.undo_window
    if seconds is None:
        seconds = web.settings.undo_seconds if care == "usual" else 0.0
    return web.clock.now() + seconds if seconds > 0 else None


def _not_acknowledged(card: RequestCard, form: Form, decision: Decision) -> Problem | None:
    """A yes to something unusual names what is unusual about it: what the form did not show, nobody has looked at."""
    if decision.decision != "approve" or card.request.status != "pending":
        return None
    seen = set(form.getlist("seen"))
    unseen = [note.name for note in card.differs.odd if note.name not in seen]
    if not unseen:
        return None
    listed = ", ".join(unseen[:8])
    return Problem(
        422, "not_acknowledged", f"Look at what is unusual and tick it first: {listed}. Nothing was decided."
    )


def read_decision(web: Web, card: RequestCard, form: Form, verb: str) -> tuple[Decision | None, Any]:
    """What the form says; None, with the form again, when it says nothing that could be sent."""
    verdict = _verdict(form.text("decision"))
    panel = _panel(card, form, verb)
    values = values_of(form)
    decision = Decision(
        decision=verdict,
        message=values.message or None if verdict == "reject" else None,
        output=values.output if verdict == "respond" else msgspec.UNSET,
        reason=values.reason or None,
        digest=form.text("digest"),  # a form without one was not made by this page
    )
    if panel is None:
        return decision, None
    decision = _in_whose_name(decision, values.whose)
    if decision.break_glass and not decision.reason:
        panel.problems = ["To go ahead alone needs a note: say why."]
        return None, panel
    filled = _filled_in(decision, card, form, panel)
    always, problems = always_of(values, original_arguments(card), web.clock.now())
    if filled is None or problems:
        panel.problems = panel.problems or problems
        return None, panel
    return msgspec.structs.replace(filled, always=always), panel


def _in_whose_name(decision: Decision, whose: str) -> Decision:
    if whose == "alone":
        return msgspec.structs.replace(decision, break_glass=True)
    principal = whose.removeprefix("for ") if whose.startswith("for ") else None
    return msgspec.structs.replace(decision, on_behalf_of=principal)


def _panel(card: RequestCard, form: Form, verb: str) -> Panel | None:
    """The form of the card that was sent; None: it was a plain button."""
    if not form.get("panel"):
        return None
    if verb not in [each for each, _, _ in card.panels]:
        raise Problem(403 if card.why_not else 422, "user_error", card.why_not or "This request has no such form.")
    return panel_of(card, verb, form, as_json=form.get("as") == "json")


def _filled_in(decision: Decision, card: RequestCard, form: Form, panel: Panel) -> Decision | None:
    """The word with what its fields hold; None, with what is wrong in the panel, when they cannot be sent."""
    if decision.decision == "edit":
        reading = read_edit(card, form)
        fill_edit(panel, card, reading)
        if not _is_sound(reading, form, panel, as_json=panel.as_json):
            return None
        if json_text(reading.arguments) == json_text(original_arguments(card)):
            return msgspec.structs.replace(decision, decision="approve")  # nobody changed anything: a plain yes
        return msgspec.structs.replace(decision, arguments=reading.arguments)
    if decision.decision == "respond" and card.answer_schema is not None:
        reading = read_answer(card, form)
        fill_answer(panel, card, reading)
        sound = _is_sound(reading, form, panel, as_json=False)
        return msgspec.structs.replace(decision, output=reading.arguments) if sound else None
    if decision.decision == "respond" and not decision.output:
        panel.problems = ["Write what the agent is to read."]
        return None
    return decision


def _is_sound(reading: Reading, form: Form, panel: Panel, *, as_json: bool) -> bool:
    """Whether the fields can be sent: nothing is wrong with them, and they are not just being changed in number."""
    panel.problems = [] if form.get("change") else _summary(reading.problems, as_json)
    return not reading.problems and not form.get("change")


def _verdict(text: str) -> Verdict:
    match text:
        case "approve" | "reject" | "edit" | "respond":
            return text
        case _:
            raise Problem(422, "user_error", "A decision is approve, reject, edit or respond.")


def _summary(problems: dict[str, str], as_json: bool) -> list[str]:
    """What stands above the form: in one large field, all of it; otherwise what stands beside no field."""
    if as_json:
        return [f"{place}: {text}" if place else text for place, text in problems.items()]
    general = [text for place, text in problems.items() if not place]
    beside = len(problems) - len(general)
    return general + (
        [f"{counted(beside, 'field')} below {'needs' if beside == 1 else 'need'} a look."] if beside else []
    )


async def _card_again(request: Request, card: RequestCard, form: Form, status: int, **more: Any) -> Response:
    filters, cursor = filters_of_text(form.text("back")), form.text("cursor") or None
    if is_partial(request):
        context = {"card": card, "filters": filters, "cursor": cursor, "problem": None, **more}
        return show(request, "_panel.html", context, status, onto("#panel", "innerHTML") | about(card.request.id))
    context = await list_context(request, filters, cursor, card.request.id)
    return show(request, "inbox.html", context | {"card": card} | more, status)


async def _refused(request: Request, card: RequestCard, form: Form, problem: Problem) -> Response:
    """Another person was quicker, or it may not be: say who and why, and leave what was typed where it is."""
    web, actor = web_of(request), actor_of(request)
    now_card = await card_of(web, actor, await request_or_404(web, card.request.id))
    refusal = Refusal(_refusal_title(problem, now_card), _refusal_text(problem, now_card))
    filters, cursor = filters_of_text(form.text("back")), form.text("cursor") or None
    if is_partial(request):
        context = {"card": now_card, "filters": filters, "cursor": cursor, "problem": refusal}
        headers = onto("#card-status", "outerHTML") | about(now_card.request.id)
        return show(request, "_status.html", context, problem.status, headers)
    context = await list_context(request, filters, cursor, card.request.id)
    return show(request, "inbox.html", context | {"card": now_card, "problem": refusal}, problem.status)


def _refusal_title(problem: Problem, card: RequestCard) -> str:
    if problem.winner is not None:
        return f"{problem.winner.by or 'Another person'} was quicker."
    return "Not decided." if card.request.status == "pending" else "Too late."


def _refusal_text(problem: Problem, card: RequestCard) -> str:
    if problem.winner is not None:
        return f"Your decision was not applied. What stands: {card.status_label.lower()}."
    return problem.detail


async def _following(request: Request, form: Form, request_id: str) -> str:
    """What is shown after this request: the next line of the list, or else the one before it. Of a deck, or of a list
    that does not hold the request, it is the first one."""
    context = await list_context(request, filters_of_text(form.text("back")), form.text("cursor") or None)
    ids = [row.id for row in context["requests"] if row.is_deck or row.status == "pending" or row.id == request_id]
    if request_id not in ids:
        return ids[0] if ids else ""
    at = ids.index(request_id)
    others = [*ids[at + 1 :], *reversed(ids[:at])]
    return others[0] if others else ""


async def _went_on(request: Request, form: Form, done: DeskRequest, following: str, warnings: list[str]) -> Response:
    web, actor = web_of(request), actor_of(request)
    filters, cursor = filters_of_text(form.text("back")), form.text("cursor") or None
    address = link("/inbox", filters.query, cursor=cursor, open=following)
    if not is_partial(request):
        return RedirectResponse(link("/inbox", filters.query, cursor=cursor, open=following, done=done.id), 303)
    notice = await notice_of(web, actor, done, warnings)
    context = await list_context(request, filters, cursor, following) | {"notice": notice}
    if following:
        context |= await place_context(web, actor, filters, following)
    template = "_together.html" if context["together"] else "_card.html" if following else "_nothing_open.html"
    return await _with_list(request, render(request, template, context), context, address)


async def revoke(request: Request) -> Response:
    """Undo: take an approval back, and open the question that is asked in its place."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    card = await card_of(web, actor, await request_or_404(web, form.text("open")))
    try:
        asked = await take_back(web, actor, card.request.id)
    except Problem as problem:
        if is_partial(request):  # another card may be open: a message says it
            raise
        return await _refused(request, card, form, problem)
    filters = filters_of_text(form.text("back"))
    address = link("/inbox", filters.query, open=asked.id)
    if not is_partial(request):
        return RedirectResponse(address, 303)
    notice = Notice(f"Taken back: {asked.tool}. Nothing runs until a person decides again.")
    context = await list_context(request, filters, None, asked.id) | {"notice": notice}
    context["card"] = await card_of(web, actor, asked)
    return await _with_list(request, render(request, "_card.html", context), context, address)


async def accept_offer(request: Request) -> Response:
    """Make the standing decision that a deck offers, with a yes to its first call: what was shown, or nothing."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    filters = filters_of_text(form.text("back"))
    row, done, offer = await make_offered(
        web, actor, filters, form.text("deck"), form.text("offer"), form.text("digest")
    )
    outcomes = Outcomes(verb="decided, and calls like it from now on")
    spared = f"Up to {offer.uses} more like it, for {offer.days} days, are approved without asking."
    text = f"{STATUS_LABEL[done.status]}. {spared}"
    outcomes.rows.append(Outcome(row.tool, in_one_line(row.arguments, 90), True, text))
    return await _card_place(request, form, "_outcomes.html", outcomes=outcomes)


async def make_offered(
    web: Web, actor: Actor, filters: Filters, deck_id: str, offered: str, digest: str
) -> tuple[DeskRequest, DeskRequest, Offer]:
    """The first call of the deck before and after, and what was made."""
    await web.waiting.refresh(web.clock.now())
    deck = deck_of(web.waiting, filters, deck_id)
    offer = await offer_for(web, deck.members[0]) if deck is not None else None
    if deck is None or offer is None or offer.digest != offered:
        raise Problem(409, "stale_approval", "What is offered is another thing by now: nothing was made. Look again.")
    row = deck.members[0].request
    reason = f"offered: {offer.would_have} of the last {offer.of} would have been decided so"
    given = Decision(decision="approve", digest=digest, reason=reason)
    grant = offer.grant(web.clock.now())
    return row, await decide(web, actor, row.id, given, undo_until(web, row, "usual", given), grant), offer


async def revoke_together(request: Request) -> Response:
    """Undo all that was approved together and has not begun."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    outcomes = Outcomes(verb="taken back")
    for request_id in form.getlist("open")[:MAX_TOGETHER]:
        row = await request_or_404(web, request_id)
        summary = in_one_line(row.arguments, 90)
        try:
            await take_back(web, actor, row.id)
            outcomes.rows.append(Outcome(row.tool, summary, True, "Taken back: it waits again."))
        except Problem as problem:
            outcomes.rows.append(Outcome(row.tool, summary, False, problem.detail))
    return await _card_place(request, form, "_outcomes.html", outcomes=outcomes)


async def _with_list(request: Request, body: str, context: dict[str, Any], address: str) -> Response:
    """A part of the page for the card's place, and with it the list and a message for theirs."""
    parts = render(request, "_parts.html", context)
    return Response(body + parts, 200, {"HX-Push-Url": address}, "text/html")


# -- several ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    tool: str
    summary: str
    is_good: bool
    text: str


@dataclass(slots=True)
class Outcomes:
    verb: str = "decided"
    rows: list[Outcome] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    """Those that have not begun and can be taken back, until then."""
    undo_until: float = 0.0

    @property
    def title(self) -> str:
        good = sum(each.is_good for each in self.rows)
        bad = len(self.rows) - good
        return f"{good} {self.verb}" + (f", {bad} not" if bad else "")


def picks_of(form: Form) -> list[tuple[str, str]]:
    """What was on the screen when it was selected: ids and digests."""
    found: dict[str, str] = {}
    for text in form.getlist("pick"):
        request_id, _, digest = text.partition(" ")
        found[request_id] = digest
    if len(found) > MAX_TOGETHER:
        raise Problem(422, "user_error", f"At most {MAX_TOGETHER} requests can be decided together.")
    return list(found.items())


async def review_together(request: Request) -> Response:
    """Show what was selected, exactly, before anything is decided."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    good: list[DeskRequest] = []
    excluded: list[tuple[str, str]] = []
    for request_id, digest in picks_of(form):
        row = await request_or_404(web, request_id)
        why = await why_left_out(web, actor, row, digest)
        if why is None:
            good.append(row)
        else:
            excluded.append((f"{row.tool} {in_one_line(row.arguments, 60)}", why))
    together = Together(grouped(good), excluded)
    return await _card_place(request, form, "_together.html", together=together)


async def decide_together(request: Request) -> Response:
    """Each with its own outcome; only what was on the screen, as it was on the screen."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    verdict = _verdict(form.text("decision"))
    if verdict not in ("approve", "reject"):
        raise Problem(422, "user_error", "Several requests are approved or rejected together.")
    outcomes = Outcomes()
    for request_id, digest in picks_of(form):
        row = await request_or_404(web, request_id)
        alone = await why_alone(web, row) if verdict == "approve" and row.status == "pending" else None
        if alone is not None:
            outcomes.rows.append(Outcome(row.tool, in_one_line(row.arguments, 90), False, f"Not decided: {alone}."))
            continue
        decision = Decision(
            decision=verdict,
            message=form.text("message") or None if verdict == "reject" else None,
            reason=form.text("reason") or None,
            digest=digest,
        )
        care = care_of(row, await comparison_of(web, row))
        until = undo_until(web, row, care, decision)
        outcomes.rows.append(await _outcome(web, actor, row, decision, until))
        if until is not None and outcomes.rows[-1].is_good:
            outcomes.undo.append(row.id)
            outcomes.undo_until = max(outcomes.undo_until, until)
    return await _card_place(request, form, "_outcomes.html", outcomes=outcomes)


async def _outcome(web: Web, actor: Any, row: DeskRequest, decision: Decision, until: float | None) -> Outcome:
    summary = in_one_line(row.arguments, 90)
    try:
        done = await decide(web, actor, row.id, decision, until)
    except Problem as problem:
        now_row = await request_or_404(web, row.id)
        text = problem.detail
        if problem.winner is not None:
            text = f"{problem.winner.by or 'Another person'} was quicker: {STATUS_LABEL[now_row.status].lower()}."
        return Outcome(row.tool, summary, False, text)
    return Outcome(row.tool, summary, True, f"{STATUS_LABEL[done.status]}.")


async def _card_place(request: Request, form: Form, template: str, **more: Any) -> Response:
    filters = filters_of_text(form.text("back"))
    context = await list_context(request, filters, None) | more
    if not is_partial(request):
        return show(request, "inbox.html", context)
    body = render(request, template, context)
    return await _with_list(request, body, context, link("/inbox", filters.query))

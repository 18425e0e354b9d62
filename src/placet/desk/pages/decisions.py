"""Deciding on the page: one request, or several together that were on the screen; and what is shown afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import in_a_cell, in_one_line
from placet.desk.pages.cards import STATUS_LABEL, RequestCard, card_of, notice_of
from placet.desk.pages.form_data import Form, filters_of_text, form_of
from placet.desk.pages.forms import Reading
from placet.desk.pages.inbox import list_context, onto
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
from placet.desk.pages.text_format import counted, json_text
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import Decision, decide, request_or_404, take_back, why_not_decide
from placet.desk.web.grant_checks import warnings_on_always
from placet.desk.web.problems import Problem
from placet.facts.events import Verdict

MAX_TOGETHER = 200
MAX_COLUMNS = 8


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
    following = await _following(request, form, card.request.id)
    warnings = await warnings_on_always(web, card.request, decision)
    try:
        done = await decide(web, actor, card.request.id, decision)
    except Problem as problem:
        return await _refused(request, card, form, problem)
    return await _went_on(request, form, done, following, warnings)


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
    filled = _filled_in(decision, card, form, panel)
    always, problems = always_of(values, original_arguments(card), web.clock.now())
    if filled is None or problems:
        panel.problems = panel.problems or problems
        return None, panel
    return msgspec.structs.replace(filled, always=always), panel


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
    """The request that is shown after this one: the next in the list, or else the one before it."""
    context = await list_context(request, filters_of_text(form.text("back")), form.text("cursor") or None)
    ids = [row.id for row in context["rows"] if row.status == "pending" or row.id == request_id]
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
        context["card"] = await card_of(web, actor, await request_or_404(web, following))
    body = render(request, "_card.html" if following else "_nothing_open.html", context)
    return await _with_list(request, body, context, address)


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


async def _with_list(request: Request, body: str, context: dict[str, Any], address: str) -> Response:
    """A part of the page for the card's place, and with it the list and a message for theirs."""
    parts = render(request, "_parts.html", context)
    return Response(body + parts, 200, {"HX-Push-Url": address}, "text/html")


# -- several ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class GroupRow:
    id: str
    digest: str
    summary: str
    cells: list[str]
    created_at: float


@dataclass(slots=True)
class Group:
    tool: str
    agent: str
    columns: list[str]
    rows: list[GroupRow]


@dataclass(slots=True)
class Together:
    groups: list[Group]
    excluded: list[tuple[str, str]]

    @property
    def count(self) -> int:
        return sum(len(group.rows) for group in self.groups)

    @property
    def title(self) -> str:
        return counted(self.count, "request")


@dataclass(slots=True)
class Outcome:
    tool: str
    summary: str
    is_good: bool
    text: str


@dataclass(slots=True)
class Outcomes:
    rows: list[Outcome] = field(default_factory=list)

    @property
    def title(self) -> str:
        good = sum(each.is_good for each in self.rows)
        bad = len(self.rows) - good
        return f"{good} decided" + (f", {bad} not" if bad else "")


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
        why = await _why_left_out(web, actor, row, digest)
        if why is None:
            good.append(row)
        else:
            excluded.append((f"{row.tool} {in_one_line(row.arguments, 60)}", why))
    together = Together(grouped(good), excluded)
    return await _card_place(request, form, "_together.html", together=together)


async def _why_left_out(web: Web, actor: Any, row: DeskRequest, digest: str) -> str | None:
    if row.status != "pending":
        return f"{STATUS_LABEL[row.status].lower()} by {row.decided_by or 'an unnamed person'} meanwhile"
    if row.digest != digest:
        return "it changed since it was on your screen"
    if row.kind == "in_doubt":
        return "it is unknown whether it happened: decide about it alone"
    if row.kind == "elicitation":
        return "it asks for something: answer it by itself"
    return await why_not_decide(web, actor, row)


def grouped(requests: Sequence[DeskRequest]) -> list[Group]:
    """Alike with alike: one table for each agent and tool, a column for each argument."""
    found: dict[tuple[str, str], list[DeskRequest]] = {}
    for each in requests:
        found.setdefault((each.tool, each.agent), []).append(each)
    return [_group(tool, agent, rows) for (tool, agent), rows in found.items()]


def _group(tool: str, agent: str, requests: list[DeskRequest]) -> Group:
    names: dict[str, None] = {}
    for each in requests:
        if isinstance(each.arguments, dict):
            names |= dict.fromkeys(each.arguments)
    columns = list(names)
    shown, rest = columns[:MAX_COLUMNS], columns[MAX_COLUMNS:]
    rows = [
        GroupRow(each.id, each.digest, in_one_line(each.arguments, 80), _cells(each, shown, rest), each.created_at)
        for each in requests
    ]
    return Group(tool, agent, [*shown, *(["more"] if rest else [])] or ["arguments"], rows)


def _cells(request: DeskRequest, shown: list[str], rest: list[str]) -> list[str]:
    given = request.arguments
    if isinstance(given, str) or not shown:
        text = given if isinstance(given, str) else "none"
        return [in_a_cell(text), *("" for _ in shown[1:])]
    cells = [in_a_cell(given[name]) if name in given else "" for name in shown]
    more = {name: given[name] for name in rest if name in given}
    return [*cells, *([in_a_cell(more)] if rest else [])]


async def decide_together(request: Request) -> Response:
    """Each with its own outcome; only what was on the screen, as it was on the screen."""
    web, actor, form = web_of(request), actor_of(request), await form_of(request)
    verdict = _verdict(form.text("decision"))
    if verdict not in ("approve", "reject"):
        raise Problem(422, "user_error", "Several requests are approved or rejected together.")
    outcomes = Outcomes()
    for request_id, digest in picks_of(form):
        row = await request_or_404(web, request_id)
        decision = Decision(
            decision=verdict,
            message=form.text("message") or None if verdict == "reject" else None,
            reason=form.text("reason") or None,
            digest=digest,
        )
        outcomes.rows.append(await _outcome(web, actor, row, decision))
    return await _card_place(request, form, "_outcomes.html", outcomes=outcomes)


async def _outcome(web: Web, actor: Any, row: DeskRequest, decision: Decision) -> Outcome:
    summary = in_one_line(row.arguments, 90)
    try:
        done = await decide(web, actor, row.id, decision)
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

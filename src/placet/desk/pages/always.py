"""The form of a standing decision: bounds for each argument, uses, time and a sum, filled in from the call at hand and
from what people approved, and what it would have decided so far.

Rule of this file: it makes what it shows. Bounds are tried on the last decisions before anything is decided.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.grant_bounds import bounds_for
from placet.declare.decisions import Grant
from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import in_one_line
from placet.desk.pages.form_data import Form, form_of
from placet.desk.pages.panels import UNTILS
from placet.desk.pages.rendering import link, show
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import Always, Decision, as_datetime, decide, request_or_404, why_not_decide
from placet.desk.web.problems import Problem
from placet.desk.web.second_look import CODE, trial_of
from placet.facts.codec import Json, JsonObject, canonical
from placet.facts.errors import UserError
from placet.service.like_calls import Trial, approved_in, like_calls

KINDS = {
    "any": "anything",
    "range": "from … to",
    "one_of": "one of (a line each)",
    "prefix": "begins with",
    "pattern": "fits the pattern",
    "shell": "the command (a line each; * is a word)",
}
EVERY = ("", "hour", "day", "week", "month", "year")
HOUR = 3600.0
MOST_LISTED = 20
_TEXTS = ("scope", "uses", "sum", "most", "by", "zone", "confirm", "reason")


@dataclass(slots=True)
class ArgumentBound:
    """One line of the form."""

    name: str
    value: Json
    kind: str = "any"
    text: str = ""
    """Lines of values; of a range, its beginning."""
    high: str = ""

    @property
    def shown(self) -> str:
        return self.value if isinstance(self.value, str) else canonical(self.value).decode()

    def matching(self) -> JsonObject | None:
        """As a grant has it; None: it may be anything. UserError where it says nothing."""
        match self.kind:
            case "range":
                bounds = (("min", self.text), ("max", self.high))
                return {word: _number(self.name, text) for word, text in bounds if text.strip()}
            case "one_of":
                return {"one_of": [self._typed(line) for line in _lines(self.text)]}
            case "shell":
                return {"shell": [*_lines(self.text)]}
            case "prefix" | "pattern":
                return {self.kind: self.text}
            case _:
                return None

    def _typed(self, text: str) -> Json:
        if isinstance(self.value, str):
            return text
        try:
            found: Json = json.loads(text)
        except ValueError:
            raise UserError(f'{self.name}: {text!r} is no value of JSON, such as 5, true or "text".') from None
        return found


@dataclass(slots=True)
class AlwaysForm:
    """What the fields hold."""

    lines: list[ArgumentBound]
    scope: str = "agent"
    uses: str = ""
    until: str = "168"
    sum: str = ""
    most: str = ""
    by: str = ""
    every: str = "day"
    zone: str = ""
    confirm: str = ""
    reason: str = ""

    def always(self, now: float) -> Always:
        matching = {each.name: found for each in self.lines if (found := each.matching()) is not None}
        return Always(
            scope="run" if self.scope == "run" else "agent",
            until=as_datetime(now + float(self.until) * HOUR) if self.until else None,
            uses=_whole(self.uses) if self.uses.strip() else None,
            matching=dict(matching) or None,
            budget=self._budget(),
            confirm=self.confirm.strip() or None,
        )

    def _budget(self) -> JsonObject | None:
        if not self.most.strip():
            return None
        found: JsonObject = {"sum": self.sum, "most": self.most.strip()} if self.sum else {"uses": _whole(self.most)}
        if self.by.strip():
            found["by"] = [each.strip() for each in self.by.split(",")]
        if self.every:
            found["every"] = self.every
            if self.zone.strip():
                found["zone"] = self.zone.strip()
        return found


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _number(name: str, text: str) -> Json:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise UserError(f"{name}: {text!r} is no number.")


def _whole(text: str) -> int:
    if not (text.strip().isdecimal() and 1 <= int(text) <= 1_000_000):
        raise UserError(f"{text!r}: at most so many times is a whole number, 1 or more.")
    return int(text)


def _filled(request: DeskRequest, matching: Mapping[str, JsonObject]) -> AlwaysForm:
    """The form as it begins."""
    values = request.arguments if isinstance(request.arguments, dict) else {}
    return AlwaysForm([_filled_line(name, value, matching.get(name)) for name, value in values.items()])


def _filled_line(name: str, value: Json, bound: JsonObject | None) -> ArgumentBound:
    if bound is None:
        return ArgumentBound(name, value)
    if "min" in bound or "max" in bound:
        return ArgumentBound(name, value, "range", str(bound.get("min", "")), str(bound.get("max", "")))
    kind, given = next(iter(bound.items()))
    texts = given if isinstance(given, list) else [given]
    text = "\n".join(each if isinstance(each, str) else canonical(each).decode() for each in texts)
    return ArgumentBound(name, value, kind, text)


def _read(request: DeskRequest, form: Form) -> AlwaysForm:
    made = _filled(request, {})
    for number, each in enumerate(made.lines):
        kind = form.text(f"kind{number}")
        each.kind = kind if kind in KINDS else "any"
        each.text, each.high = form.text(f"value{number}"), form.text(f"high{number}")
    for name in _TEXTS:
        setattr(made, name, form.text(name))
    until, every = form.text("until"), form.text("every")
    made.until = until if until in dict(UNTILS) else "168"
    made.every = every if every in EVERY else "day"
    return made


# -- the pages --------------------------------------------------------------------------------------------------------


async def always_form(request: Request) -> Response:
    """The form, filled in."""
    web = web_of(request)
    asked = await _asked(request, request.query_params.get("open", ""))
    cases = await like_calls(web.desk.store, asked.agent, asked.tool)
    call = asked.arguments if isinstance(asked.arguments, dict) else {}
    return await _page(request, asked, _filled(asked, bounds_for(call, approved_in(cases))))


async def decide_always(request: Request) -> Response:
    """Look what the bounds would have decided; or approve the call, and calls like it from now on."""
    web, form = web_of(request), await form_of(request)
    asked = await _asked(request, form.text("open"))
    filled = _read(asked, form)
    if form.text("action") != "approve":
        return await _page(request, asked, filled)
    try:
        always = filled.always(web.clock.now())
        given = Decision(decision="approve", digest=form.text("digest"), reason=filled.reason or None, always=always)
        done = await decide(web, actor_of(request), asked.id, given)
    except Problem as problem:
        return await _page(request, asked, filled, problem.detail, problem.status, needs_word=problem.code == CODE)
    except UserError as error:
        return await _page(request, asked, filled, error.message, 422)
    return RedirectResponse(link("/inbox", done=done.id), 303)


async def _asked(request: Request, request_id: str) -> DeskRequest:
    web = web_of(request)
    found = await request_or_404(web, request_id)
    why = await why_not_decide(web, actor_of(request), found, "approve")
    if why is not None:
        raise Problem(403, "access_denied", why)
    if found.kind != "approval" or found.status != "pending":
        raise Problem(409, "not_pending", "This request does not wait any more: there is nothing to decide.")
    return found


async def _page(
    request: Request,
    asked: DeskRequest,
    filled: AlwaysForm,
    problem: str = "",
    status: int = 200,
    *,
    needs_word: bool = False,
) -> Response:
    web = web_of(request)
    tried: Trial | None = None
    try:
        tried = await _tried(web, asked, filled)
    except UserError as error:
        problem, status = problem or error.message, 422
    calls = tried.calls[:MOST_LISTED] if tried is not None else []
    context = {
        "page": "inbox",
        "asked": asked,
        "filled": filled,
        "kinds": KINDS,
        "untils": UNTILS,
        "every": EVERY,
        "trial": tried,
        "rows": [await _row(web, each) for each in calls],
        "against": set(tried.contradicts) if tried is not None else set(),
        "problem": problem,
        "needs_word": needs_word or (tried is not None and bool(tried.wider) and filled.scope != "run"),
    }
    return show(request, "always.html", context, status)


async def _tried(web: Web, asked: DeskRequest, filled: AlwaysForm) -> Trial:
    always = filled.always(web.clock.now())
    bounds = Grant(scope=always.scope, uses=always.uses, matching=always.matching, budget=always.budget)
    call = asked.arguments if isinstance(asked.arguments, dict) else None
    return await trial_of(web, asked.agent, asked.tool, "approve", bounds, call)


class TriedCall(msgspec.Struct, frozen=True):
    """A call that it would have decided."""

    id: str
    summary: str
    status: str
    by: str | None
    at: float


async def _row(web: Web, request_id: str) -> TriedCall:
    found = await request_or_404(web, request_id)
    return TriedCall(found.id, in_one_line(found.arguments, 110), found.status, found.decided_by, found.created_at)

"""The pages about runs: the list, one run as a picture with its log behind it, starting and ending one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.index import RunStatus
from placet.core.log import Log, read_lines
from placet.core.story import bare, story_of
from placet.desk.desk import DeskRun
from placet.desk.pages.form_data import form_of
from placet.desk.pages.history import notes_of, output_text
from placet.desk.pages.rendering import link, show
from placet.desk.pages.text_format import shortened
from placet.desk.pages.timeline import draw
from placet.desk.web.context import Web, actor_of, require, web_of
from placet.desk.web.deciding import refuse_to_end
from placet.desk.web.feed import kind_of
from placet.desk.web.problems import Problem
from placet.facts.codec import encode
from placet.facts.errors import PlacetError, UserError
from placet.facts.events import AnyFact, Record

PAGE = 50
MAX_LOG = 400
"""Lines of the log that a page shows; the rest is reached by its pages."""
MAX_FACT = 700
RUN_STATUSES: tuple[str, ...] = get_args(RunStatus)


@dataclass(frozen=True, slots=True)
class FactLine:
    line: int
    at: float
    kind: str
    path: str
    text: str
    cut: int
    is_first: bool
    """The first of its line: the place that the picture leads to."""


async def runs(request: Request) -> Response:
    web, given = web_of(request), request.query_params
    actor_of(request)
    status = given.get("status", "")
    chosen: Any = status if status in RUN_STATUSES else None
    page = await web.desk.runs(
        status=chosen, agent=given.get("agent") or None, cursor=given.get("cursor") or None, limit=PAGE
    )
    context = {
        "page": "runs",
        "runs": page.rows,
        "status": chosen or "",
        "agent": given.get("agent", ""),
        "agents": sorted({agent.address for agent in web.desk.agents} | {run.agent for run in page.rows}),
        "own_agents": [agent.address for agent in web.desk.agents],
        "statuses": RUN_STATUSES,
        "cursor": given.get("cursor", ""),
        "next_cursor": page.cursor,
        "problem": "",
        "input": "",
    }
    return show(request, "runs.html", context)


async def start_run(request: Request) -> Response:
    web, actor, form = web_of(request), require(request, "reviewer"), await form_of(request)
    if not form.text("input"):
        raise Problem(422, "user_error", "Write what the agent is to do.")
    run = await web.desk.start(form.text("agent"), form.text("input"), by=actor.name)
    return RedirectResponse(f"/runs/{run.id}", 303)


async def cancel_run(request: Request) -> Response:
    web, actor, form = web_of(request), require(request, "reviewer"), await form_of(request)
    run = await run_or_404(web, request.path_params["run_id"])
    refuse_to_end(actor, run)
    await web.desk.cancel(run.id, by=actor.name, reason=form.text("reason") or None)
    return RedirectResponse(f"/runs/{run.id}", 303)


async def resume_run(request: Request) -> Response:
    web, actor, form = web_of(request), require(request, "reviewer"), await form_of(request)
    run = await run_or_404(web, request.path_params["run_id"])
    await web.desk.resume(run.id, by=actor.name, own_history=form.text("own_history") == "yes")
    return RedirectResponse(f"/runs/{run.id}", 303)


async def run_or_404(web: Web, run_id: str) -> DeskRun:
    try:
        return await web.desk.get(run_id)
    except UserError as error:
        raise Problem(404, "not_found", error.message) from error


async def _run_meant(web: Web, typed: str) -> DeskRun:
    """The same for who only looks: a part of an id will do, if no other run has it."""
    try:
        return await web.desk.find_run(typed)
    except UserError as error:
        raise Problem(404, "not_found", error.message) from error


async def run_page(request: Request) -> Response:
    return show(request, "run.html", await run_context(request))


async def run_live(request: Request) -> Response:
    """What changes while a run goes on."""
    return show(request, "_run.html", await run_context(request))


async def run_context(request: Request) -> dict[str, Any]:
    web, actor = web_of(request), actor_of(request)
    sequence = await web.desk.store.latest_sequence()  # before anything is read: what happens from here on is heard
    run = await _run_meant(web, request.path_params["run_id"])
    log, records, trouble = await _log(web, run.id)
    story = story_of(records)
    now = web.clock.now()
    pending = await web.desk.pending(run_id=run.id)
    start = _number(request.query_params.get("from", "0"))
    return {
        "page": "runs",
        "run": run,
        "story": story,
        "picture": draw(story, None if run.status == "ended" else now) if records else None,
        "pending": pending,
        "notes": notes_of(story),
        "facts": fact_lines(records, start),
        "log_from": start,
        "log_length": len(records),
        "log_next": start + MAX_LOG if start + MAX_LOG < len(records) else None,
        "is_whole": log.verify() if log is not None else False,
        "head": log.head.hex() if log is not None else "",
        "trouble": trouble,
        # From the log, as all that the page tells: what is listed beside it can be changed without a trace.
        "output": output_text(story.output if records else run.final_output),
        "may_act": actor.may("reviewer"),
        "sequence": sequence,
    }


async def _log(web: Web, run_id: str) -> tuple[Log | None, list[Record], str]:
    """The log, what it says, and what is wrong with it if it cannot be read."""
    try:
        stored = await web.desk.store.load(run_id)
        if stored is None or stored.log is None:
            return None, [], "The log of this run is not here any more; its result is."
        return stored.log, read_lines(stored.log.lines), ""
    except PlacetError as error:
        return None, [], error.message


def fact_lines(records: list[Record], start: int = 0) -> list[FactLine]:
    """The log as text: every fact with all that it holds, long ones cut."""
    found = []
    for number, record in list(enumerate(records))[start : start + MAX_LOG]:
        for index, fact in enumerate(record.facts):
            found.append(_fact_line(number, index, record.at, fact))
    return found


def _fact_line(number: int, index: int, at: float, fact: AnyFact) -> FactLine:
    path, plain = bare(fact)
    given = msgspec.structs.asdict(plain)
    filled = {name: value for name, value in given.items() if value is not None and value not in ("", [], {})}
    text = encode(filled).decode() if filled else ""
    cut = len(text) if len(text) > MAX_FACT else 0
    kind = kind_of(plain).replace("_", " ")
    return FactLine(number, at, kind, path, shortened(text, MAX_FACT), cut, index == 0)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


async def whole_fact(request: Request) -> Response:
    """One line of the log, uncut."""
    web = web_of(request)
    actor_of(request)
    run = await run_or_404(web, request.path_params["run_id"])
    _, records, _ = await _log(web, run.id)
    number = int(request.path_params["line"])
    if number >= len(records):
        raise Problem(404, "not_found", f"The log of this run has {len(records)} lines.")
    text = "\n".join(encode(fact).decode() for fact in records[number].facts)
    context = {"page": "runs", "run": run, "number": number, "text": text, "at": records[number].at}
    return show(request, "fact.html", context | {"back": link(f"/runs/{run.id}")})

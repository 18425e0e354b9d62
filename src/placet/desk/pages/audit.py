"""The audit page: who decided what, newest first, and whether the logs that say so are whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from placet.core.log import Log
from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.argument_parts import arguments_of
from placet.desk.pages.arguments import in_one_line
from placet.desk.pages.cards import STATUS_LABEL
from placet.desk.pages.form_data import STATUSES
from placet.desk.pages.rendering import show
from placet.desk.web.context import Web, actor_of, web_of
from placet.facts.errors import PlacetError
from placet.service.records import AuditEntry, entries_of

PAGE = 50
MAX_SCAN = 2000
"""Requests that are looked through for one page when only some people's decisions are wanted."""
DECIDED = [name for name in STATUSES if name != "pending"]


@dataclass(frozen=True, slots=True)
class AuditRow:
    request: DeskRequest
    summary: str
    """What was decided about: after an edit, what it made of the arguments."""
    asked_for: str
    """What the agent asked for, where an edit made something else of it."""
    word: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Whether a run's log is what it was when it was written."""

    run_id: str
    state: str
    text: str


@dataclass(frozen=True, slots=True)
class OperatorsLogView:
    """The newest entries of the operators' log, newest first, and whether it is what it was when it was written."""

    entries: list[AuditEntry]
    is_whole: bool


async def audit(request: Request) -> Response:
    web, given = web_of(request), request.query_params
    actor = actor_of(request)
    status = given.get("status", "")
    filters = {name: given.get(name, "").strip() for name in ("by", "agent", "tool")}
    filters["status"] = status if status in DECIDED else ""
    rows, following = await _decided(web, filters, given.get("cursor") or None)
    chains = await chains_of(web, [row.request.run_id for row in rows])
    context = {
        "page": "audit",
        "rows": rows,
        "filters": filters,
        "statuses": [(name, STATUS_LABEL[name].lower()) for name in DECIDED],
        "chains": chains,
        "whole": sum(chain.state == "whole" for chain in chains.values()),
        "broken": [chain for chain in chains.values() if chain.state != "whole"],
        "cursor": given.get("cursor", ""),
        "next_cursor": following,
        "grants": await web.desk.grants(),
        "holds": await web.desk.holds(),
        "operators": await _operators(web, actor),
    }
    return show(request, "audit.html", context)


async def _operators(web: Web, actor: Actor) -> OperatorsLogView | None:
    """What operators did, for those who say who may what."""
    if not actor.may("admin"):
        return None
    try:
        log = await web.desk.store.operators_log()
        return OperatorsLogView(list(entries_of(log))[-PAGE:][::-1], log.verify())
    except PlacetError:
        return OperatorsLogView([], False)


async def _decided(web: Web, filters: dict[str, str], cursor: str | None) -> tuple[list[AuditRow], str | None]:
    """A page of ended questions; looks further where most are not wanted, up to a limit."""
    found: list[AuditRow] = []
    scanned = 0
    while True:
        page = await web.desk.requests(
            status=_status(filters["status"]),
            agent=filters["agent"] or None,
            tool=filters["tool"] or None,
            cursor=cursor,
            limit=PAGE,
            newest_first=True,
        )
        found += [await _row(web, each) for each in page.rows if _is_wanted(each, filters["by"])]
        scanned += PAGE
        cursor = page.cursor
        if cursor is None or len(found) >= PAGE or scanned >= MAX_SCAN:
            return found, cursor


def _status(text: str) -> Any:
    return text or None


def _is_wanted(request: DeskRequest, by: str) -> bool:
    return request.status != "pending" and (not by or (request.decided_by or "").lower() == by.lower())


async def _row(web: Web, request: DeskRequest) -> AuditRow:
    runs_with = await arguments_of(web, request)
    asked_for = in_one_line(request.arguments, 110) if request.status == "edited" else ""
    return AuditRow(request, in_one_line(runs_with, 110), asked_for, STATUS_LABEL[request.status])


async def chains_of(web: Web, run_ids: list[str]) -> dict[str, Chain]:
    """The chain of each of these runs, checked now."""
    return {run_id: await chain_of(web, run_id) for run_id in dict.fromkeys(run_ids)}


async def chain_of(web: Web, run_id: str) -> Chain:
    try:
        stored = await web.desk.store.load(run_id)
    except PlacetError as error:
        return Chain(run_id, "unreadable", error.message)
    log: Log | None = stored.log if stored is not None else None
    if log is None:
        return Chain(run_id, "unreadable", "Its log is not here any more.")
    try:
        is_whole = log.verify()
    except PlacetError as error:
        return Chain(run_id, "unreadable", error.message)
    if not is_whole:
        return Chain(run_id, "altered", "Its lines do not give the stored head.")
    return Chain(run_id, "whole", "")

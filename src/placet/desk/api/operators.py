"""The operators' log over the API: who changed who may what, held, granted, erased."""

from __future__ import annotations

from datetime import datetime

from placet.desk.access.people import DecisionScope, patterns_of
from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.people_shapes import Scopes
from placet.desk.api.shapes import Cursor, Given, Limit, Note, Nothing, Shown
from placet.desk.web.problems import Problem
from placet.facts.events import Pattern
from placet.ports import DeskStore
from placet.service.records import AuditEntry, What, entries_of


class OperatorFilter(Given, frozen=True, kw_only=True):
    limit: Limit = 50
    cursor: Cursor | None = None


class OperatorEntry(Shown, frozen=True, kw_only=True):
    """One thing that a person did at this desk, beyond deciding about a call."""

    at: datetime
    what: What
    subject: str
    by: str | None
    why: str | None
    digest: str | None
    detail: str | None


class FourEyesShape(Shown, frozen=True, kw_only=True):
    """Where the person who started a run may not say yes to its calls, at every desk and worker on this store."""

    patterns: list[DecisionScope]


class NewFourEyes(Given, frozen=True, kw_only=True):
    patterns: Scopes
    """These and no others from now on; none: four eyes are demanded nowhere."""
    reason: Note | None = None


class OperatorPage(Shown, frozen=True, kw_only=True):
    data: list[OperatorEntry]
    next: str | None


async def newest_entries(store: DeskStore, before: int | None, limit: int) -> tuple[list[AuditEntry], int | None]:
    """The newest entries of the operators' log before that place, newest first, and the place where older ones are."""
    found = list(entries_of(await store.operators_log()))
    end = len(found) if before is None else min(before, len(found))
    start = max(0, end - limit)
    return found[start:end][::-1], start or None


async def list_entries(ask: ApiRequest[OperatorFilter, Nothing]) -> OperatorPage:
    cursor = ask.query.cursor
    if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
        raise Problem(422, "invalid_request", "A cursor is the `next` of the page before.")
    found, older = await newest_entries(ask.web.desk.store, None if cursor is None else int(cursor), ask.query.limit)
    return OperatorPage(data=[OperatorEntry.of(entry) for entry in found], next=None if older is None else str(older))


async def show_four_eyes(ask: ApiRequest[Nothing, Nothing]) -> FourEyesShape:
    return _four_eyes(await ask.web.desk.four_eyes())


async def change_four_eyes(ask: ApiRequest[Nothing, NewFourEyes]) -> FourEyesShape:
    given = patterns_of(ask.body.patterns)
    return _four_eyes(await ask.web.desk.set_four_eyes(given, by=ask.actor.name, reason=ask.body.reason))


def _four_eyes(patterns: list[Pattern]) -> FourEyesShape:
    return FourEyesShape(patterns=[DecisionScope(agent=agent, tool=tool) for agent, tool in patterns])


OPERATIONS = (
    Operation(
        "GET",
        "/v1/four-eyes",
        show_four_eyes,
        "Where four eyes are demanded",
        "people",
        answer=FourEyesShape,
    ),
    Operation(
        "PUT",
        "/v1/four-eyes",
        change_four_eyes,
        "Say where four eyes are demanded",
        "people",
        role="admin",
        body=NewFourEyes,
        answer=FourEyesShape,
        details="It is a setting of the store, so that every desk, worker and command on it obeys it from now on, also "
        "for what was approved and has not begun. The operators' log says who changed it.",
    ),
    Operation(
        "GET",
        "/v1/operators",
        list_entries,
        "What operators did, newest first",
        "people",
        role="admin",
        query=OperatorFilter,
        answer=OperatorPage,
        details="Users, roles, patterns, passwords, links and tokens that were changed, where four eyes are demanded, "
        "holds, standing decisions, erased and deleted runs: who, when and why, as the operators' log has it. It is a "
        "chain, which `placet audit verify` checks. No secret is in it.",
    ),
)

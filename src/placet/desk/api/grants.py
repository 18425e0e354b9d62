"""Standing decisions, and what operators hold back, over the API."""

from __future__ import annotations

from placet.desk.access.people import Actor, may_hold, refuse_if_not_allowed
from placet.desk.api.idempotency import made_id
from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.paging import in_time, page_after
from placet.desk.api.shapes import (
    GrantList,
    GrantShape,
    HoldList,
    HoldShape,
    HoldsNow,
    ListFilter,
    MadeGrant,
    NewGrant,
    NewHold,
    Nothing,
    WhichHold,
)
from placet.desk.web.context import Web
from placet.desk.web.grant_checks import refuse_what_decides_nothing, warnings_on_grant, warnings_on_hold
from placet.desk.web.problems import Problem
from placet.facts.events import GrantMade, HoldKind


async def list_grants(ask: ApiRequest[ListFilter, Nothing]) -> GrantList:
    wanted, grants = ask.query, await ask.web.desk.grants()
    rows, following = page_after(grants, lambda grant: in_time(grant.at, grant.id), wanted.cursor, wanted.limit)
    return GrantList(data=[GrantShape.of(grant, decision=grant.verdict) for grant in rows], next=following)


async def make(ask: ApiRequest[Nothing, NewGrant]) -> MadeGrant:
    given = ask.body
    _check_right(ask, given.agent, given.tool)
    refuse_what_decides_nothing(
        ask.web.desk, given.agent, given.tool, given.arguments, given.until, ask.web.clock.now()
    )
    grant = await ask.web.desk.grant(
        given.agent,
        given.tool,
        given.decision,
        by=ask.actor.name,
        arguments=given.arguments,
        until=given.until,
        uses=given.uses,
        reason=given.reason,
        message=given.message,
        grant_id=made_id(ask.request, "grant_"),
        via=ask.actor.via,
        assurance=ask.actor.assurance,
    )
    return MadeGrant.of(grant, decision=grant.verdict, warnings=await warnings_on_grant(ask.web, grant))


async def revoke(ask: ApiRequest[Nothing, Nothing]) -> None:
    grant = await _grant_or_404(ask)
    _check_right(ask, grant.agent, grant.tool.rpartition(":")[2])
    await ask.web.desk.revoke_grant(grant.id, by=ask.actor.name)


async def _grant_or_404(ask: ApiRequest[Nothing, Nothing]) -> GrantMade:
    wanted = ask.part("grant_id")
    found = next((grant for grant in await ask.web.desk.grants() if grant.id == wanted), None)
    if found is None:
        raise Problem(404, "not_found", f"There is no grant {wanted[:80]!r} that stands.")
    return found


def _check_right(ask: ApiRequest[Nothing, NewGrant] | ApiRequest[Nothing, Nothing], agent: str, tool: str) -> None:
    refuse_if_not_allowed(ask.actor, "approve", agent=agent, tool=tool, started_by=None, four_eyes=())


async def list_holds(ask: ApiRequest[ListFilter, Nothing]) -> HoldList:
    wanted, holds = ask.query, await ask.web.desk.holds()
    rows, following = page_after(
        holds, lambda hold: in_time(hold.at, f"{hold.kind} {hold.name}"), wanted.cursor, wanted.limit
    )
    return HoldList(data=[HoldShape.of(hold) for hold in rows], next=following)


async def hold(ask: ApiRequest[Nothing, NewHold]) -> HoldsNow:
    kind, name, is_admin = ask.body.kind, ask.body.name, ask.actor.may("admin")
    await _check_hold(ask.web, ask.actor, kind, name)
    if not await ask.web.desk.hold(kind, name, by=ask.actor.name, reason=ask.body.reason, over_others=is_admin):
        raise Problem(409, "held_by_another", f"{await _held_by(ask.web, kind, name)} It stays held.")
    warnings = await warnings_on_hold(ask.web, ask.body.kind, ask.body.name)
    return HoldsNow(data=[HoldShape.of(each) for each in await ask.web.desk.holds()], warnings=warnings)


async def _check_hold(web: Web, actor: Actor, kind: HoldKind, name: str) -> None:
    row = await web.desk.store.run(name) if kind == "run" else None
    if not may_hold(actor, kind, name, row.agent if row is not None else None):
        message = f"{actor.name} may not hold the {kind} {name[:80]!r}: it covers calls that they may not decide."
        raise Problem(403, "access_denied", message)


async def _held_by(web: Web, kind: HoldKind, name: str) -> str:
    found = next((each for each in await web.desk.holds() if (each.kind, each.name) == (kind, name)), None)
    who = (found.by if found is not None else None) or "another person"
    return f"The {kind} {name[:80]!r} is held by {who}: they release it, or an admin does."


async def release(ask: ApiRequest[WhichHold, Nothing]) -> None:
    kind, name, by = ask.query.kind, ask.query.name, ask.actor.name
    await _check_hold(ask.web, ask.actor, kind, name)
    whose = None if ask.actor.may("admin") else by
    if await ask.web.desk.release_hold(kind, name, by=by, placed_by=whose):
        return
    if any((each.kind, each.name) == (kind, name) for each in await ask.web.desk.holds()):
        raise Problem(403, "access_denied", await _held_by(ask.web, kind, name))
    raise Problem(404, "not_found", f"There is no hold on the {kind} {name[:80]!r}.")


OPERATIONS = (
    Operation(
        "GET",
        "/v1/grants",
        list_grants,
        "Standing decisions, oldest first",
        "grants",
        query=ListFilter,
        answer=GrantList,
    ),
    Operation(
        "POST",
        "/v1/grants",
        make,
        "Make a standing decision",
        "grants",
        role="reviewer",
        body=NewGrant,
        answer=MadeGrant,
        status=201,
        details="It decides later calls of this tool of this agent, within its bounds, until the tool changes. Of two "
        "that contradict each other the newer one wins where both reach; the answer's `warnings` name the older one. "
        "What no call could ever meet is refused (422).",
    ),
    Operation(
        "DELETE",
        "/v1/grants/{grant_id}",
        revoke,
        "End a standing decision",
        "grants",
        role="reviewer",
        status=204,
        problems=(404,),
    ),
    Operation("GET", "/v1/holds", list_holds, "What is held back", "holds", query=ListFilter, answer=HoldList),
    Operation(
        "POST",
        "/v1/holds",
        hold,
        "Hold a run, an agent or a tool back",
        "holds",
        role="reviewer",
        body=NewHold,
        answer=HoldsNow,
        status=201,
        problems=(409,),
        details="Nothing that it covers starts from now on, approved or not. A call that has begun goes on. The user "
        "must be allowed to decide all calls that it covers. An unknown name is held, too, with a warning in "
        "`warnings`.",
    ),
    Operation(
        "DELETE",
        "/v1/holds",
        release,
        "End a hold",
        "holds",
        role="reviewer",
        query=WhichHold,
        status=204,
        problems=(404,),
        details="A hold of your own; an admin ends every hold.",
    ),
)

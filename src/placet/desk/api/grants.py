"""Standing decisions, and what operators hold back, over the API."""

from __future__ import annotations

from placet.core.grant_bounds import bounds_for
from placet.declare.decisions import Grant
from placet.declare.terms_shape import budget_shape, matching_shape
from placet.desk.access.people import Actor, may_hold, refuse_if_not_allowed
from placet.desk.api.idempotency import made_id
from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.paging import in_time, page_after
from placet.desk.api.shapes import (
    GrantList,
    GrantShape,
    GrantTrial,
    HoldList,
    HoldShape,
    HoldsNow,
    ListFilter,
    MadeGrant,
    NewGrant,
    NewHold,
    Nothing,
    SuggestedAlways,
    WhichHold,
)
from placet.desk.web.context import Web
from placet.desk.web.deciding import request_meant
from placet.desk.web.grant_checks import refuse_what_decides_nothing, warnings_on_grant, warnings_on_hold
from placet.desk.web.problems import Problem
from placet.desk.web.second_look import refuse_without_second_look, trial_of
from placet.facts.events import GrantMade, HoldKind
from placet.service.budget_figures import left_of
from placet.service.like_calls import approved_in, like_calls


async def list_grants(ask: ApiRequest[ListFilter, Nothing]) -> GrantList:
    wanted, grants = ask.query, await ask.web.desk.grants()
    rows, following = page_after(grants, lambda grant: in_time(grant.at, grant.id), wanted.cursor, wanted.limit)
    return GrantList(data=[await _shown(ask.web, grant) for grant in rows], next=following)


async def _shown(web: Web, grant: GrantMade) -> GrantShape:
    return GrantShape.of(grant, decision=grant.verdict, **await _terms(web, grant))


async def _terms(web: Web, grant: GrantMade) -> dict[str, object]:
    """What it is bounded by beyond values, uses and time, and what is left of that."""
    terms = grant.terms
    if terms is None:
        return {"matching": None, "budget": None, "left": []}
    left = await left_of(web.desk.store, grant.id, terms.budget, web.clock.now())
    return {
        "matching": matching_shape(terms.matching) or None,
        "budget": budget_shape(terms.budget) or None,
        "left": left,
    }


async def make(ask: ApiRequest[Nothing, NewGrant]) -> MadeGrant:
    given = ask.body
    _check_right(ask, given.agent, given.tool)
    named = {**(given.arguments or {}), **(given.matching or {})}
    refuse_what_decides_nothing(ask.web.desk, given.agent, given.tool, named, given.until, ask.web.clock.now())
    await refuse_without_second_look(ask.web, given.agent, given.tool, given.decision, _bounds(given), given.confirm)
    grant = await ask.web.desk.grant(
        given.agent,
        given.tool,
        given.decision,
        by=ask.actor.name,
        arguments=given.arguments,
        until=given.until,
        uses=given.uses,
        matching=given.matching,
        budget=given.budget,
        reason=given.reason,
        message=given.message,
        grant_id=made_id(ask.request, "grant_"),
        via=ask.actor.via,
        assurance=ask.actor.assurance,
    )
    warnings = await warnings_on_grant(ask.web, grant)
    return MadeGrant.of(grant, decision=grant.verdict, warnings=warnings, **await _terms(ask.web, grant))


def _bounds(given: NewGrant) -> Grant:
    return Grant(
        scope="agent",
        arguments=given.arguments,
        until=given.until,
        uses=given.uses,
        matching=given.matching,
        budget=given.budget,
    )


async def preview(ask: ApiRequest[Nothing, NewGrant]) -> GrantTrial:
    given = ask.body
    _check_right(ask, given.agent, given.tool)
    found = await trial_of(ask.web, given.agent, given.tool, given.decision, _bounds(given))
    return GrantTrial.of(found)


async def suggested_for(ask: ApiRequest[Nothing, Nothing]) -> SuggestedAlways:
    request = await request_meant(ask.web, ask.part("request_id"))
    cases = await like_calls(ask.web.desk.store, request.agent, request.tool)
    call = request.arguments if isinstance(request.arguments, dict) else {}
    matching = bounds_for(call, approved_in(cases))
    bounds = Grant(scope="agent", matching=matching or None)
    found = await trial_of(ask.web, request.agent, request.tool, "approve", bounds, call)
    return SuggestedAlways(matching=dict(matching), trial=GrantTrial.of(found))


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
        "What no call could ever meet is refused (422). What reaches further than what people approved needs "
        "`confirm`, the tool's name (422, `second_look`, says what is wide about it).",
    ),
    Operation(
        "POST",
        "/v1/grants/preview",
        preview,
        "What a standing decision would have decided",
        "grants",
        role="reviewer",
        body=NewGrant,
        answer=GrantTrial,
        details="Nothing is made. It is tried on the last 50 calls of this tool by this agent on which people decided.",
    ),
    Operation(
        "GET",
        "/v1/approvals/{request_id:path}/always",
        suggested_for,
        "The bounds of a standing decision for calls like this",
        "grants",
        answer=SuggestedAlways,
        problems=(404,),
        details="The narrowest that hold this call and what people approved before.",
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

"""Who has to approve, over the API: rules per tool, delegations, rotations, and reviews that are owed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from placet.core.rotations import on_call, shifts
from placet.desk.access.people import checked_groups
from placet.desk.api.operations import ApiAnswer, ApiRequest, Operation
from placet.desk.api.shapes import Given, Note, Nothing, Shown
from placet.desk.asked_changes import rotation_change, rule_change
from placet.desk.voting_settings import check_people, refuse_useless
from placet.desk.web.context import Web
from placet.desk.web.deciding import as_datetime, request_or_404
from placet.desk.web.problems import Problem
from placet.facts.codec import JsonObject
from placet.facts.errors import AccessDenied, NotPending
from placet.facts.requirements import Assurance, Needs, Part, Requirement, Step, needs_text
from placet.facts.voting_settings import ON_CALL, ApproverRule, Delegation, Rotation, Rung, RungKind

Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
SHOWN_DAYS = 42
"""Of a rotation, so much is listed ahead."""
DAY = 86400.0

# -- shapes -----------------------------------------------------------------------------------------------------------


class NeedStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many approvals of people who may vote in this step."""

    approve: Annotated[int, Meta(ge=1, le=100)] = 1
    deny: Annotated[int, Meta(ge=1, le=100)] = 1
    from_: list[str] = msgspec.field(name="from", default_factory=list)
    """Members of any of these groups; empty: everybody who may decide the call."""
    distinct_from: list[Part] = []
    assurance: Assurance = "none"
    predicate: str | None = None
    """An expression in CEL over `reviewer`, `args`, `agent`, `tool`, `started_by`, `reason`."""


class Need(NeedStep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to decide."""

    then: list[NeedStep] = []
    """Further steps, in this order."""


class RungShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of the ladder."""

    kind: RungKind
    after: Seconds
    """Seconds since the question was asked."""
    to: str | None = None
    """Of `on_call` the rotation, of `escalate` the group."""


class RuleShape(Given, frozen=True, kw_only=True):
    """What questions need at these tools, and who is told when they wait."""

    agent: Pattern = "*"
    tool: Pattern = "*"
    needs: list[Need] = msgspec.field(default_factory=list)
    """Any one of these decides; none: one word of anybody."""
    break_glass: list[str] | None = None
    """The groups of which one person may go ahead alone; empty: everybody; null: nobody."""
    break_glass_lifts: list[Part] = msgspec.field(default_factory=list)
    ladder: list[RungShape] = msgspec.field(default_factory=list)
    reject_after: Seconds | None = None
    """The ladder's end: rejected when nobody decided in so many seconds."""


class NewRule(RuleShape, frozen=True, kw_only=True):
    reason: Note | None = None


class ShownRule(Shown, frozen=True, kw_only=True):
    agent: str
    tool: str
    needs: list[Need]
    needs_text: str | None
    """Who has to approve, in one line."""
    break_glass: list[str] | None
    break_glass_lifts: list[Part]
    ladder: list[RungShape]
    reject_after: float | None


class RuleList(Shown, frozen=True, kw_only=True):
    data: list[ShownRule]
    asked: str | None
    """The request under which people are asked about the change: it is made when they approved it."""


class RuleName(Given, frozen=True, kw_only=True):
    agent: Pattern
    tool: Pattern


class DelegationShape(Shown, frozen=True, kw_only=True):
    """Somebody votes for somebody else, for a time. All see it."""

    id: str
    principal: str
    delegate: str
    begins: datetime
    until: datetime
    by: str | None
    reason: str | None


class NewDelegation(Given, frozen=True, kw_only=True):
    delegate: Name
    """Who votes."""
    until: datetime
    begins: datetime | None = None
    """null: now."""
    principal: Name | None = None
    """Whose vote it is; null: yours. An admin may say another's."""
    reason: Note | None = None


class DelegationList(Shown, frozen=True, kw_only=True):
    data: list[DelegationShape]


class ShiftShape(Shown, frozen=True, kw_only=True):
    person: str
    begins: datetime
    until: datetime


class RotationShape(Shown, frozen=True, kw_only=True):
    """Who is on call, one after the other. Whoever is, is in the group `on-call.NAME`."""

    name: str
    people: list[str]
    since: str
    zone: str
    days: int
    hours: list[str] | None
    on_call: str | None
    """Who is on call now; null: nobody."""
    shifts: list[ShiftShape]
    """Those of the next six weeks."""
    asked: str | None
    """The request under which people are asked about the change: it is made when they approved it."""


class NewRotation(Given, frozen=True, kw_only=True):
    people: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    since: Annotated[str, Meta(max_length=32)]
    """The first handover by the clocks of the zone, as in 2026-01-05T09:00."""
    zone: Annotated[str, Meta(max_length=64)] = "UTC"
    days: Annotated[int, Meta(ge=1, le=366)] = 7
    """From one handover to the next."""
    hours: Annotated[list[str], Meta(min_length=2, max_length=2)] | None = None
    """On call only from the one to the other time of the day."""
    reason: Note | None = None


class RotationList(Shown, frozen=True, kw_only=True):
    data: list[RotationShape]


class ReviewShape(Shown, frozen=True, kw_only=True):
    """One person went ahead alone, and nobody has looked at it yet."""

    request_id: str
    run_id: str
    agent: str
    tool: str
    by: str
    at: datetime
    reason: str | None


class ReviewList(Shown, frozen=True, kw_only=True):
    data: list[ReviewShape]


class NewReview(Given, frozen=True, kw_only=True):
    was_right: bool
    reason: Note | None = None


# -- rules ------------------------------------------------------------------------------------------------------------


def requirement_of_needs(given: RuleShape) -> Requirement | None:
    """UserError for what `Needs` would refuse."""
    if given.break_glass is None:
        allowed: bool | list[str] = False
    else:
        allowed = list(checked_groups(given.break_glass)) or True
    made: Needs | None = None
    for each in given.needs or ([Need()] if given.break_glass is not None else []):
        one = Needs(**_step(each), break_glass=allowed, break_glass_lifts=given.break_glass_lifts)
        for step in each.then:
            one = one.then(**_step(step))
        made = one if made is None else made | one
    return None if made is None else made.requirement


class _Step(TypedDict):
    """As `Needs` takes it."""

    approve: int
    deny: int
    group: list[str]
    distinct_from: list[Part]
    assurance: Assurance
    predicate: str | None


def _step(given: NeedStep) -> _Step:
    groups = [each if each.startswith(ON_CALL) else checked_groups([each])[0] for each in given.from_]
    return {
        "approve": given.approve,
        "deny": given.deny,
        "group": groups,
        "distinct_from": given.distinct_from,
        "assurance": given.assurance,
        "predicate": given.predicate,
    }


def _shown_step(step: Step) -> dict[str, object]:
    return {
        "approve": step.approve,
        "deny": step.deny,
        "from_": list(step.groups),
        "distinct_from": list(step.distinct_from),
        "assurance": step.assurance,
        "predicate": step.predicate,
    }


def _shown_rule(rule: ApproverRule) -> ShownRule:
    needed = rule.requirement
    alternatives = needed.alternatives if needed is not None else ()
    needs = [
        Need(**_shown_step(steps[0]), then=[NeedStep(**_shown_step(step)) for step in steps[1:]])  # type: ignore[arg-type]
        for steps in alternatives
    ]
    glass = needed.break_glass if needed is not None else None
    return ShownRule(
        agent=rule.agent,
        tool=rule.tool,
        needs=needs,
        needs_text=None if needed is None else needs_text(needed),
        break_glass=None if glass is None else list(glass),
        break_glass_lifts=list(needed.break_glass_lifts) if needed is not None else [],
        ladder=[RungShape(kind=rung.kind, after=rung.after, to=rung.to) for rung in rule.rungs],
        reject_after=rule.reject_after,
    )


async def list_rules(ask: ApiRequest[Nothing, Nothing]) -> RuleList:
    settings = await ask.web.desk.voting_settings()
    return RuleList(data=[_shown_rule(rule) for rule in settings.rules], asked=None)


async def put_rule(ask: ApiRequest[Nothing, NewRule]) -> RuleList:
    given = ask.body
    rungs = tuple(Rung(each.kind, each.after, each.to) for each in sorted(given.ladder, key=lambda one: one.after))
    rule = ApproverRule(given.agent, given.tool, requirement_of_needs(given), rungs, given.reject_after)
    desk, by = ask.web.desk, ask.actor.name
    await refuse_useless(desk.store, rule)
    asked = await desk.ask_about_change("approvers.set", rule_change(rule), by=by, reason=given.reason)
    if asked is None:
        await desk.set_approvers(rule, by=by, reason=given.reason)
    return await _all_rules(ask.web, asked)


async def _all_rules(web: Web, asked: str | None) -> RuleList:
    rules = (await web.desk.voting_settings()).rules
    return RuleList(data=[_shown_rule(each) for each in rules], asked=asked)


async def remove_rule(ask: ApiRequest[RuleName, Nothing]) -> RuleList:
    wanted, desk, by = ask.query, ask.web.desk, ask.actor.name
    rules = (await desk.voting_settings()).rules
    if not any((each.agent, each.tool) == (wanted.agent, wanted.tool) for each in rules):
        raise Problem(404, "not_found", f"There is no rule for {wanted.agent}:{wanted.tool}.")
    names: JsonObject = {"agent": wanted.agent, "tool": wanted.tool}
    asked = await desk.ask_about_change("approvers.remove", names, by=by)
    if asked is None:
        await desk.remove_approvers(wanted.agent, wanted.tool, by=by)
    return await _all_rules(ask.web, asked)


# -- delegations ------------------------------------------------------------------------------------------------------


async def list_delegations(ask: ApiRequest[Nothing, Nothing]) -> DelegationList:
    return DelegationList(data=[_shown_delegation(each) for each in await ask.web.desk.delegations()])


def _shown_delegation(each: Delegation) -> DelegationShape:
    return DelegationShape.of(each, begins=as_datetime(each.begins), until=as_datetime(each.until))


async def add_delegation(ask: ApiRequest[Nothing, NewDelegation]) -> ApiAnswer:
    given, actor = ask.body, ask.actor
    principal = given.principal or actor.name
    if principal != actor.name and not actor.may("admin"):
        raise Problem(403, "access_denied", "Only an admin delegates the vote of somebody else.")
    made = await ask.web.desk.delegate(
        principal,
        given.delegate,
        until=given.until.timestamp(),
        begins=None if given.begins is None else given.begins.timestamp(),
        by=actor.name,
        reason=given.reason,
    )
    return ApiAnswer(_shown_delegation(made), headers={"Location": f"/v1/delegations/{made.id}"})


async def end_delegation(ask: ApiRequest[Nothing, Nothing]) -> None:
    wanted = ask.part("delegation_id")
    standing = {each.id: each for each in await ask.web.desk.delegations()}
    if wanted not in standing:
        raise Problem(404, "not_found", f"There is no delegation {wanted[:80]!r}.")
    theirs = {standing[wanted].principal, standing[wanted].delegate}
    if ask.actor.name not in theirs and not ask.actor.may("admin"):
        raise Problem(403, "access_denied", "A delegation is ended by the two whom it is about, or by an admin.")
    await ask.web.desk.end_delegation(wanted, by=ask.actor.name)


# -- rotations --------------------------------------------------------------------------------------------------------


async def list_rotations(ask: ApiRequest[Nothing, Nothing]) -> RotationList:
    settings, now = await ask.web.desk.voting_settings(), ask.web.clock.now()
    return RotationList(data=[shown_rotation(name, each, now) for name, each in sorted(settings.rotations.items())])


def shown_rotation(name: str, rotation: Rotation, now: float, asked: str | None = None) -> RotationShape:
    ahead = shifts(rotation, now, now + SHOWN_DAYS * DAY)
    return RotationShape(
        name=name,
        people=list(rotation.people),
        since=rotation.since,
        zone=rotation.zone,
        days=rotation.days,
        hours=None if rotation.hours is None else list(rotation.hours),
        on_call=on_call(rotation, now),
        shifts=[
            ShiftShape(person=each.person, begins=as_datetime(each.begins), until=as_datetime(each.until))
            for each in ahead
        ],
        asked=asked,
    )


async def put_rotation(ask: ApiRequest[Nothing, NewRotation]) -> RotationShape:
    given, name = ask.body, ask.part("name")
    hours = None if given.hours is None else (given.hours[0], given.hours[1])
    rotation = Rotation(tuple(given.people), given.since, given.zone, given.days, hours)
    desk, by = ask.web.desk, ask.actor.name
    await check_people(desk.store, name, rotation)
    asked = await desk.ask_about_change("oncall.set", rotation_change(name, rotation), by=by, reason=given.reason)
    if asked is None:
        await desk.set_rotation(name, rotation, by=by, reason=given.reason)
    return shown_rotation(name, rotation, ask.web.clock.now(), asked)


async def remove_rotation(ask: ApiRequest[Nothing, Nothing]) -> RotationShape:
    name, desk, by = ask.part("name"), ask.web.desk, ask.actor.name
    rotation = (await desk.voting_settings()).rotations.get(name)
    if rotation is None:
        raise Problem(404, "not_found", f"There is no rotation {name[:80]!r}.")
    asked = await desk.ask_about_change("oncall.remove", {"name": name}, by=by)
    if asked is None:
        await desk.set_rotation(name, None, by=by)
    return shown_rotation(name, rotation, ask.web.clock.now(), asked)


# -- reviews ----------------------------------------------------------------------------------------------------------


async def list_reviews(ask: ApiRequest[Nothing, Nothing]) -> ReviewList:
    return ReviewList(data=[ReviewShape.of(each) for each in await ask.web.desk.reviews_owed()])


async def give_review(ask: ApiRequest[Nothing, NewReview]) -> ReviewShape:
    wanted, actor = ask.part("request_id"), ask.actor
    owed = next((each for each in await ask.web.desk.reviews_owed() if each.request_id == wanted), None)
    if owed is None:
        await request_or_404(ask.web, wanted)
        raise Problem(409, "stale_approval", f"No review of request {wanted} is owed.")
    if not actor.may_decide(owed.agent, owed.tool):
        raise Problem(403, "access_denied", f"{actor.name} may not decide calls of {owed.tool} by {owed.agent}.")
    try:
        given = await ask.web.desk.review(wanted, was_right=ask.body.was_right, by=actor.name, reason=ask.body.reason)
    except NotPending as error:
        raise Problem(409, "stale_approval", error.message) from error
    except AccessDenied as error:
        raise Problem(403, "access_denied", error.message) from error
    return ReviewShape.of(given)


OPERATIONS = (
    Operation("GET", "/v1/approvers", list_rules, "Who has to approve at which tool", "approvers", answer=RuleList),
    Operation(
        "PUT",
        "/v1/approvers",
        put_rule,
        "Say who has to approve at these tools",
        "approvers",
        role="admin",
        body=NewRule,
        answer=RuleList,
        details="In the place of a rule with the same patterns. It holds besides what the tool and the policy say, for "
        "questions from now on, and once more before a call begins. One that nobody could fulfil is refused.",
    ),
    Operation(
        "DELETE",
        "/v1/approvers",
        remove_rule,
        "Remove a rule about approvers",
        "approvers",
        role="admin",
        query=RuleName,
        answer=RuleList,
        problems=(404,),
    ),
    Operation("GET", "/v1/delegations", list_delegations, "Who votes for whom", "approvers", answer=DelegationList),
    Operation(
        "POST",
        "/v1/delegations",
        add_delegation,
        "Let somebody vote for you, for a time",
        "approvers",
        role="reviewer",
        body=NewDelegation,
        answer=DelegationShape,
        status=201,
        problems=(403,),
        details="The vote counts as that of its principal, and the log names both. Who casts votes for others has one "
        "of them counted in one question.",
    ),
    Operation(
        "DELETE",
        "/v1/delegations/{delegation_id}",
        end_delegation,
        "End a delegation",
        "approvers",
        role="reviewer",
        status=204,
        problems=(403, 404),
        details="Votes that were cast under it stand, until they are taken back.",
    ),
    Operation("GET", "/v1/rotations", list_rotations, "Who is on call", "approvers", answer=RotationList),
    Operation(
        "PUT",
        "/v1/rotations/{name}",
        put_rotation,
        "Say who is on call, and when",
        "approvers",
        role="admin",
        body=NewRotation,
        answer=RotationShape,
    ),
    Operation(
        "DELETE",
        "/v1/rotations/{name}",
        remove_rotation,
        "Remove a rotation",
        "approvers",
        role="admin",
        answer=RotationShape,
        problems=(404,),
    ),
    Operation(
        "GET",
        "/v1/reviews",
        list_reviews,
        "Reviews owed after somebody went ahead alone",
        "approvers",
        answer=ReviewList,
    ),
    Operation(
        "POST",
        "/v1/reviews/{request_id}",
        give_review,
        "Review what somebody did alone",
        "approvers",
        role="reviewer",
        body=NewReview,
        answer=ReviewShape,
        problems=(403, 404, 409),
        details="By another person than the one who went ahead. The operators' log has what they found.",
    ),
)

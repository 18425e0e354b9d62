"""The one way to decide over the web: who may is checked, who did is recorded, who won is named."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.requests import Request

from placet.core.ballot import Ballot, voter_of
from placet.core.casting import Known
from placet.core.deciding import facts_to_revoke
from placet.core.four_eyes import guest_of, parties_of
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.declare.decisions import Grant
from placet.desk.access.people import Actor, lower_role, may_end, refuse_if_not_allowed, why_not
from placet.desk.desk import DeskRequest, DeskRun
from placet.desk.voting import ballot_on, outlook, standing_of
from placet.desk.web.context import Web, web_of
from placet.desk.web.passkeys import Answer, question_of_decision, signed_decision
from placet.desk.web.problems import FieldProblem, Problem, Winner, as_problem
from placet.desk.web.second_look import refuse_without_second_look
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import AccessDenied, NotPending, PlacetError, RunFinished, StaleApproval, UserError
from placet.facts.events import DecisionMade, Verdict, VoteCast
from placet.facts.ids import path_of, split_request_id
from placet.facts.requirements import Assurance
from placet.facts.signatures import NO_ASSERTION, SignedDecision
from placet.facts.verdict_words import verdict_behind
from placet.facts.voting_settings import RungKind
from placet.runtime.journal import load_recent
from placet.service.questions import FoundRequest
from placet.service.stuck import is_stuck

logger = logging.getLogger("placet.desk")


SurerWay: TypeAlias = Literal["passkey", "signed"]


class Always(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A standing decision and its bounds."""

    scope: Literal["run", "agent"] = "run"
    """`run`: this run, this agent, this tool. `agent`: also later runs of this agent."""
    arguments: JsonObject | None = None
    """The call must have exactly these values under these names; names that are not mentioned are free."""
    until: datetime | None = None
    uses: int | None = None
    matching: JsonObject | None = None
    """What arguments have to be: `{"cents": {"max": 5000}, "path": {"prefix": "/srv/"}, "currency": {"one_of":
    ["EUR"]}, "order_id": {"pattern": "[A-Z]{2}[0-9]+"}, "command": {"shell": ["git push origin *"]}}`."""
    budget: JsonObject | list[JsonObject] | None = None
    """How much it may let through: `{"sum": "cents", "most": 50000, "by": "customer", "every": "day"}`, `{"uses": 10,
    "within": "24h"}`, or a list of such limits."""
    confirm: str | None = None
    """The tool's name, where it reaches further than what people approved."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person decides about a request."""

    decision: Verdict
    message: str | None = None
    """With reject: what the model reads."""
    arguments: JsonObject | None = None
    """With edit: what is to run."""
    output: Json = msgspec.UNSET
    """With respond: what the model reads in the tool's place: any JSON, null too."""
    reason: str | None = None
    """For the record."""
    always: bool | Always = False
    digest: str | None = None
    """What the request showed: if it has changed since, nothing is decided."""
    on_behalf_of: str | None = None
    """It is the vote of this person, who delegated theirs to you."""
    break_glass: bool = False
    """Go ahead alone, where the requirement allows it: with a reason, and a review is owed then."""
    signature: Answer | None = None
    """The answer of a passkey to `POST /v1/approvals/{id}/challenge`: the decision is signed then."""


async def request_or_404(web: Web, request_id: str) -> DeskRequest:
    """The request with this id. A short form of it finds nothing: what is decided is named in full."""
    return (await _found_or_404(web, request_id)).request


async def _found_or_404(web: Web, request_id: str) -> FoundRequest:
    try:
        return await web.desk.find(request_id)
    except NotPending as error:
        raise Problem(404, "not_found", error.message) from error


async def request_meant(web: Web, typed: str) -> DeskRequest:
    """The same for who only looks: a part of an id will do, if no other waiting request has it."""
    try:
        return await web.desk.find_request(typed)
    except NotPending as error:
        raise Problem(404, "not_found", error.message) from error


async def request_to_decide(web: Web, typed: str, digest: str | None) -> DeskRequest:
    """The request that a decision is about. A short form may have come to mean another call since somebody looked, so
    it counts only together with the digest of what they saw."""
    request = await request_meant(web, typed)
    if digest is None and split_request_id(typed) is None:
        message = f"{typed[:120]!r} is a part of an id: decide with the whole id, {request.id}, or give the digest of"
        raise Problem(422, "user_error", f"{message} what you were shown. Nothing was decided.")
    return request


_BELONGS_TO: dict[str, Verdict] = {"message": "reject", "arguments": "edit", "output": "respond"}


def _refuse_what_does_not_belong(decision: Decision) -> None:
    """A slip must not approve something: what belongs to another decision is refused, not ignored."""
    strange = [
        name for name, verdict in _BELONGS_TO.items() if _is_given(decision, name) and decision.decision != verdict
    ]
    if strange:
        found = [FieldProblem(field=name, message=f"belongs to {_BELONGS_TO[name]}") for name in strange]
        listed = ", ".join(f"{name} (of {_BELONGS_TO[name]})" for name in strange)
        raise Problem(
            422, "user_error", f"{decision.decision} does not take {listed}: nothing was decided.", errors=found
        )


def _is_given(decision: Decision, name: str) -> bool:
    value = getattr(decision, name)
    return value is not msgspec.UNSET if name == "output" else value is not None


async def why_not_decide(web: Web, actor: Actor, request: DeskRequest, verdict: Verdict | None = None) -> str | None:
    """Why this actor may not decide this request, in words; None when they may. Without a verdict: say yes to it."""
    four_eyes = await web.desk.four_eyes()
    run = await _run_of(web, request) if four_eyes else None
    why = why_not(
        actor,
        verdict,
        agent=request.agent,
        tool=request.tool,
        started_by=run.started_by if run is not None else None,
        four_eyes=four_eyes,
        people=await _people(web, actor, run) if four_eyes else {},
        guest=guest_of(run) if run is not None else None,
    )
    if why is not None or request.ballot is None or request.status != "pending":
        return why
    try:
        await _outlook(web, actor, request, verdict or "approve")
    except AccessDenied as error:
        return error.message
    except PlacetError:  # it is over by now, or its log cannot be read here: the decision itself says what is wrong
        return None
    return None


async def _outlook(
    web: Web,
    actor: Actor,
    request: DeskRequest,
    verdict: Verdict,
    on_behalf_of: str | None = None,
    reason: str | None = None,
    *,
    break_glass: bool = False,
    assurance: Assurance | None = None,
) -> int | None:
    """How many approvals would be missing after this actor's vote; None where votes do not decide. AccessDenied where
    it could not count. `assurance`: if it were so sure that it is them."""
    found = await load_recent(web.desk.store, request.run_id)
    call, number = request.call, request.number
    entry = found[2].ledger.entry(call) if found is not None else None
    ballot = ballot_on(entry, number) if entry is not None else None
    if found is None or entry is None or ballot is None or entry.decision is not None:
        return None
    at = ballot.time_after(on_behalf_of or actor.name, web.clock.now())
    said: Verdict = "reject" if verdict == "reject" else "approve"
    sure = assurance or actor.assurance
    vote = VoteCast(
        call,
        number,
        entry.digest,
        said,
        actor.name,
        at,
        reason,
        assurance=sure,
        on_behalf_of=on_behalf_of,
        breaks_glass=break_glass,
        signed=_PRETENDED if sure == "signed" else None,
    )
    return await outlook(web.desk.store, found[2], vote)


_PRETENDED = SignedDecision(NO_ASSERTION, "", "", "approve")
"""To see what a signature would do. It is never written."""


async def surer_way(web: Web, actor: Actor, request: DeskRequest) -> SurerWay | None:
    """What would let this actor decide who may not as they are: a passkey in this session, or a signature of this call.
    None: nothing has to be surer, or that would not help either."""
    if request.ballot is None or request.status != "pending" or actor.via != "session":
        return None
    levels: tuple[Assurance, ...] = (actor.assurance, "passkey", "signed")
    for level in levels:
        try:
            await _outlook(web, actor, request, "approve", assurance=level)
        except AccessDenied:
            continue
        except PlacetError:
            return None
        return None if level == actor.assurance else level if level in ("passkey", "signed") else None
    return None


class Voting(msgspec.Struct, frozen=True, kw_only=True):
    """How a request stands that several people have to approve, for one who looks at it."""

    line: str
    missing: int
    votes: Sequence[VoteCast]
    yours: str | None
    """What a yes of theirs would do; None where it cannot count."""
    has_voted: bool
    ways: Sequence[tuple[str, str]] = ()
    """For whom else they could vote, by a delegation, and what that would do."""
    may_break_glass: bool = False
    """They could go ahead alone, with a reason."""
    is_stuck: bool = False
    """Too few people are left who could approve it."""


async def voting_of(
    web: Web, actor: Actor, request: DeskRequest, *, everybody: Known | None = None, with_ways: bool = False
) -> Voting | None:
    """None where votes do not decide, or have decided. `everybody`: all who could vote; are they enough?"""
    if request.ballot is None or request.status != "pending":
        return None
    try:
        found = await load_recent(web.desk.store, request.run_id)
    except PlacetError:
        return None
    call, number = request.call, request.number
    entry = found[2].ledger.entry(call) if found is not None else None
    ballot = ballot_on(entry, number) if entry is not None else None
    if found is None or entry is None or ballot is None:
        return None
    stands = await standing_of(web.desk.store, found[2], entry, ballot)
    yours: str | None = None
    with contextlib.suppress(PlacetError):
        left = await _outlook(web, actor, request, "approve")
        yours = _what_it_does(left, stands.missing, ballot, actor.name)
    return Voting(
        line=stands.line,
        missing=stands.missing,
        votes=stands.votes,
        yours=yours,
        has_voted=any(vote.by == actor.name for vote in ballot.votes),
        ways=await _other_ways(web, actor, request, stands.missing, ballot) if with_ways else (),
        may_break_glass=with_ways and await _may_break_glass(web, actor, request),
        is_stuck=everybody is not None and is_stuck(found[2], entry, ballot, everybody),
    )


class LadderStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the ladder of a question that waits."""

    kind: RungKind
    at: float
    to: str | None
    was_told: bool


async def ladder_of(web: Web, request: DeskRequest) -> list[LadderStep]:
    """Who is told when this question waits too long, and who was."""
    if request.status != "pending":
        return []
    with contextlib.suppress(PlacetError):
        found = await load_recent(web.desk.store, request.run_id)
        owner = found[2].find(path_of(request.call)) if found is not None else None
        call = owner.calls.get(request.call) if owner is not None else None
        rungs = call.ladder if call is not None else ()
        climbed = call.climbed if call is not None else 0
        return [
            LadderStep(kind=each.kind, at=each.at, to=each.to, was_told=place < climbed)
            for place, each in enumerate(rungs)
        ]
    return []


def _what_it_does(left: int | None, missing: int, ballot: Ballot, voter: str) -> str:
    """What a yes of this voter would do, where so many are missing now, and `left` would be afterwards."""
    if not left:
        return "completes it"
    has_said_yes = any(voter_of(vote) == voter and vote.verdict != "reject" for vote in ballot.newest())
    return "is counted" if has_said_yes and left == missing else f"leaves {left} missing"


async def _other_ways(
    web: Web, actor: Actor, request: DeskRequest, missing: int, ballot: Ballot
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for principal in await web.desk.principals_of(actor.name):
        with contextlib.suppress(PlacetError):
            acting = await _acting(web, actor, principal)
            refuse_if_not_allowed(acting, None, agent=request.agent, tool=request.tool, started_by=None, four_eyes=())
            left = await _outlook(web, actor, request, "approve", principal)
            found.append((principal, _what_it_does(left, missing, ballot, principal)))
    return found


async def _may_break_glass(web: Web, actor: Actor, request: DeskRequest) -> bool:
    """Whether this actor could decide alone, if they said why."""
    if not actor.may_decide(request.agent, request.tool):
        return False
    with contextlib.suppress(PlacetError):
        left = await _outlook(web, actor, request, "approve", reason="…", break_glass=True)
        plain = await _alone(web, actor, request)
        return left == 0 and not plain
    return False


async def _alone(web: Web, actor: Actor, request: DeskRequest) -> bool:
    """Whether a plain yes of this actor decides: then there is nothing to break."""
    with contextlib.suppress(PlacetError):
        return await _outlook(web, actor, request, "approve") == 0
    return False


async def _acting(web: Web, actor: Actor, on_behalf_of: str | None) -> Actor:
    """The actor with the rights of those for whom they vote: a delegate can decide no more than their principal."""
    if on_behalf_of is None:
        return actor
    principal = await web.accounts.user(on_behalf_of)
    if principal is None:
        raise AccessDenied(f"There is no user '{on_behalf_of[:80]}' at this desk: nothing was decided.")
    return msgspec.structs.replace(actor, role=lower_role(actor.role, principal.role), decides=principal.decides)


class Decided(msgspec.Struct, frozen=True):
    """What has become of a request."""

    request: DeskRequest
    stood_already: bool
    """It was a vote, and the same one stood already: nothing has changed."""


async def decide(
    web: Web,
    actor: Actor,
    request_id: str,
    decision: Decision,
    not_before: float | None = None,
    grant: Grant | None = None,
) -> DeskRequest:
    return (await decide_or_vote(web, actor, request_id, decision, not_before, grant)).request


async def decide_or_vote(
    web: Web,
    actor: Actor,
    request_id: str,
    decision: Decision,
    not_before: float | None = None,
    grant: Grant | None = None,
) -> Decided:
    """Decide as this actor. Problem 404, 403, 409 (naming who won) or 422 when it cannot be. `not_before`: when what is
    approved begins at the earliest. `grant`: a standing decision with bounds that no form of the API has."""
    _refuse_what_does_not_belong(decision)
    asked = await _found_or_404(web, request_id)
    request = asked.request
    four_eyes = await web.desk.four_eyes()
    run = asked.place[1] if asked.place is not None else None
    people = await _people(web, actor, run) if four_eyes else {}
    try:
        refuse_if_not_allowed(
            await _acting(web, actor, decision.on_behalf_of),
            decision.decision,
            agent=request.agent,
            tool=request.tool,
            started_by=run.started_by if run is not None else None,
            four_eyes=four_eyes,
            people=people,
            guest=guest_of(run) if run is not None else None,
        )
        always = grant or _grant(decision.always)
        if grant is None and isinstance(decision.always, Always):
            await refuse_without_second_look(
                web, request.agent, request.tool, decision.decision, always, decision.always.confirm, request
            )
        signed = await _signature_of(web, actor, asked, decision, has_grant=grant is not None)
        found = await web.desk.decide(
            asked,
            decision.decision,
            by=actor.name,
            reason=decision.reason,
            message=decision.message,
            arguments=decision.arguments,
            output=decision.output,
            always=always,
            digest=decision.digest,
            via=actor.via,
            assurance=actor.assurance if signed is None else "signed",
            not_before=not_before,
            on_behalf_of=decision.on_behalf_of,
            break_glass=decision.break_glass,
            signed=signed,
        )
    except PlacetError as error:
        web.meter.count_decision(decision.decision, "refused")
        _note("decision_refused", actor, request, decision, error.code)
        raise await _explained(web, request, decision, error) from error
    web.meter.count_decision(decision.decision, "taken")
    if decision.break_glass:
        web.meter.broken_glass += 1
    _note("decision_taken", actor, request, decision)
    is_open = found.id == request.id and found.status == "pending" and found.ballot is not None
    return Decided(found, is_open and list(found.votes) == list(request.votes))


async def _signature_of(
    web: Web, actor: Actor, asked: FoundRequest, decision: Decision, *, has_grant: bool
) -> SignedDecision | None:
    """What the actor signed about exactly this decision; None: they signed nothing. AccessDenied for anything else."""
    if decision.signature is None:
        return None
    if decision.always or has_grant:
        raise UserError("A signature is about one call: it cannot stand for later ones. Sign without «always».")
    said = await said_in(web, asked, decision)
    return await signed_decision(web, actor, said, decision.signature)


async def question_to_sign(request: Request, actor: Actor, request_id: str, decision: Decision) -> dict[str, Any]:
    """What this actor's passkey is asked, so that they sign exactly this decision."""
    _refuse_what_does_not_belong(decision)
    web = web_of(request)
    asked = await _found_or_404(web, request_id)
    if decision.digest is not None and decision.digest != asked.request.digest:
        raise Problem(409, "stale_approval", "This request is about something else than what was shown: look again.")
    try:
        said = await said_in(web, asked, decision)
    except PlacetError as error:
        raise await _explained(web, asked.request, decision, error) from error
    return await question_of_decision(request, actor, said)


async def said_in(web: Web, asked: FoundRequest, decision: Decision) -> SignedDecision:
    """All that a signature of this decision binds; without the signature itself."""
    values: Json = None
    if decision.decision in ("edit", "respond"):
        values = await web.desk.decided_values(asked, decision.decision, decision.arguments, decision.output)
    return SignedDecision(
        NO_ASSERTION,
        asked.request.id,
        decision.digest or asked.request.digest,
        decision.decision,
        values,
        decision.break_glass,
        decision.on_behalf_of,
    )


def _note(action: str, actor: Actor, request: DeskRequest, decision: Decision, code: str | None = None) -> None:
    fields = {"request_id": request.id, "by": actor.name, "via": actor.via, "verdict": decision.decision}
    if decision.on_behalf_of is not None:
        fields["on_behalf_of"] = decision.on_behalf_of
    if decision.break_glass:
        fields["break_glass"] = "yes"
    logger.info("decision", extra={"action": action, **fields, **({} if code is None else {"code": code})})


def _grant(always: bool | Always) -> bool | Grant:
    if isinstance(always, bool):
        return always
    return Grant(
        scope=always.scope,
        arguments=always.arguments,
        until=always.until,
        uses=always.uses,
        matching=always.matching,
        budget=always.budget,
    )


async def _people(web: Web, actor: Actor, run: RunFold | None) -> Mapping[str, Person]:
    """Those whom the four-eyes rule has to know."""
    parties = parties_of(run, ()) if run is not None else set()
    return await web.desk.store.people({*parties, actor.name})


async def _run_of(web: Web, request: DeskRequest) -> RunFold | None:
    """The run as its log says: a list is not enough where a person's right depends on it."""
    try:
        found = await load_recent(web.desk.store, request.run_id)
    except RunFinished:  # it was erased: nobody decides anything there any more
        return None
    return found[2] if found is not None else None


async def _explained(web: Web, request: DeskRequest, decision: Decision, error: PlacetError) -> Problem:
    problem = as_problem(error)
    if problem.status == 422 and decision.arguments is not None:
        found = await web.desk.problems_with(request, decision.arguments)
        problem.errors = [FieldProblem(field=place, message=text) for place, text in found]
    if isinstance(error, StaleApproval | RunFinished | NotPending):
        problem.winner = winner_of(await request_or_404(web, request.id))
    return problem


def winner_of(request: DeskRequest) -> Winner | None:
    """The decision that stands, if one does."""
    verdict = verdict_behind(request.status)
    if verdict is None:
        return None
    at = None if request.decided_at is None else iso(request.decided_at)
    return Winner(decision=verdict, by=request.decided_by, at=at)


async def can_take_back(web: Web, actor: Actor, request: DeskRequest) -> bool:
    """Whether this actor could take the approval of a request back now: its call has not begun, and they may say no."""
    has_vote = request.ballot is not None and any(vote.by == actor.name for vote in request.ballot.votes)
    if request.status not in ("approved", "edited") and not (request.status == "pending" and has_vote):
        return False
    if request.status != "pending" and await why_not_decide(web, actor, request, "reject") is not None:
        return False
    call, number = call_of(request.id)
    try:
        found = await load_recent(web.desk.store, request.run_id)
        return found is not None and bool(facts_to_revoke(found[2], call, number, actor.name, web.clock.now(), None))
    except PlacetError:  # it has begun, is over, was asked about again, or its log cannot be read here
        return False


async def delay_of(web: Web, request: DeskRequest) -> float | None:
    """When an approved call begins at the earliest, if that is still ahead."""
    if request.status not in ("approved", "edited"):
        return None
    try:
        found = await load_recent(web.desk.store, request.run_id)
    except PlacetError:
        return None
    times = [at for _, call, at in found[2].delayed() if call.id == request.call] if found is not None else []
    return next((at for at in times if at > web.clock.now()), None)


async def take_back(web: Web, actor: Actor, request_id: str, reason: str | None = None) -> DeskRequest:
    """Take an approval back as this actor; the new question. A person who may reject a call may take its approval
    back."""
    request = await request_or_404(web, request_id)
    refused = await why_not_decide(web, actor, request, "reject")
    if refused is not None:
        raise Problem(403, "access_denied", refused)
    try:
        asked = await web.desk.revoke(request.id, by=actor.name, reason=reason)
    except PlacetError as error:
        raise as_problem(error) from error
    fields = {"request_id": request.id, "by": actor.name, "via": actor.via}
    logger.info("approval taken back", extra={"action": "approval_taken_back", **fields})
    return asked


def refuse_to_end(actor: Actor, run: DeskRun) -> None:
    """Problem 403 where a user may not end this run: its open calls would end without a decision of those who may."""
    if not may_end(actor, run.agent, run.started_by):
        message = f"{actor.name} may not end this run: it is not theirs, and they may decide no call of {run.agent}."
        raise Problem(403, "access_denied", message)


def call_of(request_id: str) -> tuple[str, int]:
    """The call that a request is about, within its run, and the number of the question."""
    found = split_request_id(request_id)
    return ("", 0) if found is None else found[1:]


async def decision_about(web: Web, request: DeskRequest) -> DecisionMade | None:
    """The decision that a request got, with all that it says; None while it waits, and where its log is gone."""
    if request.status == "pending":
        return None
    call, number = call_of(request.id)
    try:
        found = await load_recent(web.desk.store, request.run_id)
    except PlacetError:  # its log cannot be read here: what the list knows has to do
        return None
    if found is None:
        return None
    ledger = found[2].ledger
    entry = ledger.entry(call)
    latest = entry.decision if entry is not None and entry.request == number else None
    return latest or ledger.past_decision(call, number)


def as_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def iso(seconds: float) -> str:
    return as_datetime(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")

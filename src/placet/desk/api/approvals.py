"""What waits for people, and their decisions, over the API."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import msgspec

from placet.desk.access.people import Actor
from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.shapes import (
    ApprovalDetail,
    ApprovalFilter,
    ApprovalPage,
    ApprovalShape,
    DecidedApproval,
    DecisionShape,
    LadderStepShape,
    ManyDecisions,
    ManyOutcomes,
    Nothing,
    OneOfMany,
    OneOutcome,
    PasskeyQuestion,
    ProblemShape,
    Why,
)
from placet.desk.desk import DeskRequest
from placet.desk.web.asked_under import asked_under
from placet.desk.web.context import Web
from placet.desk.web.deciding import (
    Decision,
    as_datetime,
    decide,
    decide_or_vote,
    decision_about,
    ladder_of,
    question_to_sign,
    request_meant,
    request_or_404,
    request_to_decide,
    take_back,
    voting_of,
    why_not_decide,
)
from placet.desk.web.grant_checks import warnings_on_always
from placet.desk.web.problems import Problem, as_problem
from placet.facts.errors import PlacetError
from placet.facts.ids import split_request_id
from placet.service.stuck import all_who_could


async def list_approvals(ask: ApiRequest[ApprovalFilter, Nothing]) -> ApprovalPage:
    wanted = ask.query
    page = await ask.web.desk.requests(
        status=None if wanted.status == "all" else wanted.status,
        run_id=wanted.run_id,
        agent=wanted.agent,
        tool=wanted.tool,
        cursor=wanted.cursor,
        limit=wanted.limit,
    )
    return ApprovalPage(data=[ApprovalShape.of(request) for request in page.rows], next=page.cursor)


async def show(ask: ApiRequest[Nothing, Nothing]) -> ApprovalDetail:
    request = await request_meant(ask.web, ask.part("request_id"))
    tool = await ask.web.desk.shown_tool(request)
    everybody = await all_who_could(ask.web.desk.store) if request.ballot is not None else None
    voting = await voting_of(ask.web, ask.actor, request, everybody=everybody, with_ways=True)
    return ApprovalDetail.of(
        request,
        parameters=dict(tool.params_json_schema) if tool is not None else None,
        description=tool.description if tool is not None else None,
        you_may_not=await why_not_decide(ask.web, ask.actor, request),
        decision=await _decision(ask.web, request),
        standing=voting.line if voting is not None else None,
        missing=voting.missing if voting is not None else None,
        your_vote=voting.yours if voting is not None else None,
        votes_for=dict(voting.ways) if voting is not None else {},
        may_break_glass=voting is not None and voting.may_break_glass,
        is_stuck=voting is not None and voting.is_stuck,
        ladder=[LadderStepShape.of(each, at=as_datetime(each.at)) for each in await ladder_of(ask.web, request)],
        asked_under=await asked_under(ask.web, request),
    )


async def _decision(web: Web, request: DeskRequest) -> DecisionShape | None:
    made = await decision_about(web, request)
    return None if made is None else DecisionShape.of(made, decision=made.verdict)


async def decide_one(ask: ApiRequest[Nothing, Decision]) -> DecidedApproval:
    request_id, warnings = await _whole_id(ask.web, ask.part("request_id"), ask.body.digest), list[str]()
    if ask.body.always:
        warnings += await warnings_on_always(ask.web, await request_or_404(ask.web, request_id), ask.body)
    if ask.body.decision == "edit":
        warnings += await _warnings_on_edit(ask.web, await request_or_404(ask.web, request_id))
    said = await decide_or_vote(ask.web, ask.actor, request_id, ask.body)
    voting = await voting_of(ask.web, ask.actor, said.request)
    return DecidedApproval.of(
        said.request,
        warnings=warnings,
        missing=voting.missing if voting is not None else None,
        voted_by=ask.actor.name if voting is not None else None,
        stood_already=said.stood_already,
    )


async def _whole_id(web: Web, given: str, digest: str | None) -> str:
    if split_request_id(given) is not None:
        return given  # looked up where it is decided
    return (await request_to_decide(web, given, digest)).id


async def _warnings_on_edit(web: Web, request: DeskRequest) -> list[str]:
    """Where the agent's code is not here, nobody has looked whether the arguments fit the tool."""
    if web.desk.agent_at(request.agent) is not None or await web.desk.shown_tool(request) is not None:
        return []
    message = f"Not checked: the code of agent '{request.agent}' is not here, so the arguments were not checked against"
    return [f"{message} tool '{request.tool}'. Straight on a store, give --agents MODULE:NAME."]


async def challenge(ask: ApiRequest[Nothing, Decision]) -> PasskeyQuestion:
    request_id = await _whole_id(ask.web, ask.part("request_id"), ask.body.digest)
    found = await question_to_sign(ask.request, ask.actor, request_id, ask.body)
    return PasskeyQuestion(nonce=found["nonce"], public_key=found["publicKey"])


async def revoke(ask: ApiRequest[Nothing, Why]) -> ApprovalShape:
    return ApprovalShape.of(await take_back(ask.web, ask.actor, ask.part("request_id"), ask.body.reason))


async def decide_many(ask: ApiRequest[Nothing, ManyDecisions]) -> ManyOutcomes:
    """Those about one run one after the other, those about different runs side by side; told in the order given."""
    given = list(enumerate(ask.body.decisions))
    by_run = sorted(given, key=lambda each: _run_of(each[1]))
    groups = [list(group) for _, group in itertools.groupby(by_run, key=lambda each: _run_of(each[1]))]
    found: dict[int, OneOutcome] = {}

    async def decide_group(group: Sequence[tuple[int, OneOfMany]]) -> None:
        for index, decision in group:
            found[index] = await _outcome(ask.web, ask.actor, decision)

    await asyncio.gather(*(decide_group(group) for group in groups))
    return ManyOutcomes(data=[found[index] for index, _ in given])


def _run_of(decision: OneOfMany) -> str:
    parts = split_request_id(decision.id)
    return decision.id if parts is None else parts[0]


async def _outcome(web: Web, actor: Actor, given: OneOfMany) -> OneOutcome:
    decision = Decision(**{name: getattr(given, name) for name in Decision.__struct_fields__})
    try:
        request = await decide(web, actor, await _whole_id(web, given.id, given.digest), decision)
    except (Problem, PlacetError) as error:
        problem = error if isinstance(error, Problem) else as_problem(error)
        return OneOutcome(id=given.id, status=problem.status, problem=_shape(problem))
    return OneOutcome(id=given.id, status=200, approval=ApprovalShape.of(request))


def _shape(problem: Problem) -> ProblemShape:
    return msgspec.convert(problem.body("/v1/decisions"), ProblemShape, from_attributes=True)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/approvals",
        list_approvals,
        "What waits for a person, oldest first",
        "approvals",
        query=ApprovalFilter,
        answer=ApprovalPage,
        details="Without `status`, what is pending. A page costs the same, also if many requests wait.",
    ),
    Operation(
        "POST",
        "/v1/approvals/{request_id:path}/decisions",
        decide_one,
        "Decide",
        "approvals",
        role="reviewer",
        body=Decision,
        answer=DecidedApproval,
        problems=(404, 409),
        details="The decision is recorded under the user's name. The same decision again is a success; a "
        "contradicting one is a conflict (409) that names the `winner`. With `digest`, only what was shown is decided "
        "about. Edited arguments that do not fit the tool are refused (422), with `errors` by field.",
    ),
    Operation(
        "POST",
        "/v1/approvals/{request_id:path}/challenge",
        challenge,
        "What a passkey is asked for a signed decision",
        "approvals",
        role="reviewer",
        body=Decision,
        answer=PasskeyQuestion,
        problems=(404, 409),
        details="`publicKey` is for the browser's `navigator.credentials.get()`. Send the same decision to `decisions` "
        "within five minutes, with `signature`: the `nonce`, and the credential as `toJSON` writes it. The signature "
        "binds the request, its digest, the verdict, and the edited arguments or the answer.",
    ),
    Operation(
        "POST",
        "/v1/approvals/{request_id:path}/revocation",
        revoke,
        "Take an approval back, until its call begins",
        "approvals",
        role="reviewer",
        body=Why,
        answer=ApprovalShape,
        problems=(404, 409),
        details="The answer is the new question: the call is asked about anew, and no standing decision decides it. "
        "Once the call has begun it is a conflict (409): what has happened has happened.",
    ),
    Operation(
        "GET",
        "/v1/approvals/{request_id:path}",
        show,
        "Show what is asked",
        "approvals",
        answer=ApprovalDetail,
        problems=(404,),
    ),
    Operation(
        "POST",
        "/v1/decisions",
        decide_many,
        "Decide many at once",
        "approvals",
        role="reviewer",
        body=ManyDecisions,
        answer=ManyOutcomes,
        details="Each has its own outcome, as if it had been sent alone.",
    ),
)

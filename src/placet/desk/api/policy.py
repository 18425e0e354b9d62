"""The policy over the API: what is in force and what its rules said, and a new version that people vote on."""

from __future__ import annotations

from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.policy_shapes import NewPolicy, PolicyShape, ProposedPolicy, RuleFiguresShape
from placet.desk.api.shapes import Nothing
from placet.desk.web.problems import FieldProblem, Problem
from placet.facts.errors import PolicyRefused
from placet.policy.loading import parse_policy
from placet.policy.source_map import Problem as Fault
from placet.service.known_groups import groups_without_people, known_groups
from placet.service.managed_policy import PolicyChanges
from placet.service.policies import known_tools
from placet.service.policy_state import policy_state, text_of

FROM_A_FILE = (
    "The policy in force comes from a file: processes that are served with it do not follow what is voted on. Serve "
    "them with --policy managed."
)


async def show(ask: ApiRequest[Nothing, Nothing]) -> PolicyShape:
    store = ask.web.desk.store
    state = await policy_state(store)
    found = state.in_force
    return PolicyShape(
        version=found.version if found is not None else None,
        origin=found.origin if found is not None else None,
        way=found.way if found is not None else None,
        by=found.by if found is not None else None,
        text=await text_of(store, found.version) if found is not None else None,
        refused=[each.message for each in state.refused],
        rules=[RuleFiguresShape.of(each) for each in state.rules],
        proposed=[
            ProposedPolicy(version=each.version, request=each.request, status=each.status, warnings=[])
            for each in await PolicyChanges(store, ask.web.clock).questions()
        ],
    )


async def propose(ask: ApiRequest[Nothing, NewPolicy]) -> ProposedPolicy:
    web, given = ask.web, ask.body
    try:
        policy = parse_policy(given.text, name=given.name, tools=known_tools(web.desk.agents))
    except PolicyRefused as error:
        faults = [each for each in error.problems if isinstance(each, Fault)]
        found = [FieldProblem(field=f"text:{each.line}:{each.column}", message=each.message) for each in faults]
        raise Problem(422, "policy_refused", error.message, errors=found) from error
    asked = await PolicyChanges(web.desk.store, web.clock).propose(policy, by=ask.actor.name, reason=given.reason)
    state = await policy_state(web.desk.store)
    warns = [FROM_A_FILE] if state.in_force is not None and state.in_force.way == "file" else []
    nobody = groups_without_people(policy, await known_groups(web.desk.store))
    warnings = [*policy.warnings, *nobody, *warns]
    return ProposedPolicy(version=asked.version, request=asked.request, status=asked.status, warnings=warnings)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/policy",
        show,
        "The policy in force, and what its rules said",
        "policy",
        answer=PolicyShape,
    ),
    Operation(
        "POST",
        "/v1/policy",
        propose,
        "Propose another version of the policy",
        "policy",
        role="admin",
        body=NewPolicy,
        answer=ProposedPolicy,
        status=202,
        details="People are asked about it as the `[change]` of the version in force says; the user is its author. It "
        "is in force when they approved it, at desks and workers that are served with `--policy managed`. A text that "
        "does not load is refused (422), with each fault's line and column.",
    ),
)

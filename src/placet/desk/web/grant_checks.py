"""What a person should know about a standing decision or a hold before it surprises them: what it contradicts, and
what it would never reach.

What can do nothing at all is refused; what may be meant is done, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from placet.core.approvals import name_of
from placet.core.four_eyes import is_demanded
from placet.core.gate import calls_under
from placet.core.json_schema import TOP, problems_of_property
from placet.declare.agent_graph import AgentGraph
from placet.declare.decisions import DecisionInput, Grant, facts_of_decision
from placet.declare.tool import Tool
from placet.desk.desk import Desk, DeskRequest
from placet.desk.web.context import Web
from placet.desk.web.deciding import Always, Decision, call_of
from placet.desk.web.problems import FieldProblem, Problem
from placet.facts.codec import JsonObject, canonical
from placet.facts.errors import PlacetError
from placet.facts.events import GrantMade, HoldKind
from placet.facts.ids import path_of, request_id
from placet.facts.verdict_words import WORDS
from placet.runtime.journal import load_recent

BY_PATH = "; an agent behind another is named by its path, as requests show it"


# -- standing decisions -----------------------------------------------------------------------------------------------


def refuse_what_decides_nothing(
    desk: Desk, agent: str, tool_name: str, arguments: Mapping[str, object] | None, until: datetime | None, now: float
) -> None:
    """Problem 422 for a standing decision that no call could ever meet."""
    _refuse_unknown(desk, agent, tool_name)
    tool = desk.tool_at(agent, tool_name)
    strange = _unknown_names(tool, arguments or {}) if tool is not None else []
    if strange:
        known = ", ".join(_properties(tool)) or "none"
        message = (
            f"{tool_name} takes no argument {', '.join(map(repr, strange))}: no call would fit. It takes: {known}."
        )
        raise _field_problem("arguments", message)
    if until is not None and until.timestamp() <= now:
        raise _field_problem("until", "The time is over already: such a standing decision would never decide anything.")


def _refuse_unknown(desk: Desk, agent: str, tool_name: str) -> None:
    if not desk.agents:
        raise _field_problem(
            "agent",
            "This desk does not have the agents' code, and a standing decision is bound to the tool as it is: start it "
            "with the agents (straight on a store: --agents MODULE:NAME), or say «always» with a decision.",
        )
    owner = desk.agent_at(agent)
    if owner is None:
        names = ", ".join(each.address for each in desk.agents)
        raise _field_problem("agent", f"This desk has no agent {agent[:80]!r}. It has: {names}{BY_PATH}.")
    if owner.tool_named(tool_name) is None and not owner.mcp_servers:
        names = ", ".join(each.name for each in owner.function_tools) or "none"
        raise _field_problem("tool", f"Agent {agent[:80]!r} has no tool {tool_name[:80]!r}. It has: {names}.")


def _field_problem(field: str, message: str) -> Problem:
    return Problem(422, "user_error", message, errors=[FieldProblem(field=field, message=message)])


def _properties(tool: Tool | None) -> Mapping[str, object]:
    found = tool.params_json_schema.get("properties") if tool is not None else None
    return found if isinstance(found, Mapping) else {}


def _unknown_names(tool: Tool, arguments: Mapping[str, object]) -> list[str]:
    """Names that the tool does not take, where it takes no others than it names."""
    if tool.params_json_schema.get("additionalProperties") is not False:
        return []
    return [name for name in arguments if name not in _properties(tool)]


async def warnings_on_grant(web: Web, made: GrantMade) -> list[str]:
    """What should be known about a standing decision that was made, in words."""
    tool = web.desk.tool_at(made.agent, name_of(made.tool))
    others = [each for each in await web.desk.grants() if each.id != made.id]
    return [
        *(_contradiction(each, made) for each in contradicting(others, made, web.clock.now())),
        *(_never_asked(tool) if tool is not None else ()),
        *(_not_for_own_runs(made) if is_demanded(await web.desk.four_eyes(), made.agent, name_of(made.tool)) else ()),
        *(_ill_fitting(tool, made.arguments or {}) if tool is not None else ()),
    ]


def _never_asked(tool: Tool) -> Iterable[str]:
    if tool.needs_approval is False:
        yield (
            f"Calls of {tool.name} are not asked about, so no standing decision reaches them. "
            f"To keep them from starting: placet grants hold tool {tool.name}."
        )


def _not_for_own_runs(made: GrantMade) -> Iterable[str]:
    if made.verdict == "approve":
        yield f"Four eyes are asked for there: it does not decide calls of runs that {made.by or 'nobody'} started."


def _ill_fitting(tool: Tool, arguments: JsonObject) -> Iterable[str]:
    found = [
        f"/{name}{problem.removeprefix(TOP)}"
        for name, value in arguments.items()
        for problem in problems_of_property(tool.params_json_schema, name, value)
    ]
    if found:
        yield f"Few calls will fit it, if any: {'; '.join(found)}."


def contradicting(grants: Iterable[GrantMade], made: GrantMade, now: float) -> list[GrantMade]:
    """Those that say the opposite of calls that this one reaches too."""
    return [
        each
        for each in grants
        if each.verdict != made.verdict
        and (each.agent, each.tool, each.fingerprint) == (made.agent, made.tool, made.fingerprint)
        and (each.until is None or each.until > now)
        and _may_both_fit(each.arguments, made.arguments)
    ]


def _may_both_fit(one: JsonObject | None, other: JsonObject | None) -> bool:
    """Whether some call has both: no name is to have two values."""
    both = (one or {}).keys() & (other or {}).keys()
    return all(canonical((one or {})[name]) == canonical((other or {})[name]) for name in both)


def _contradiction(other: GrantMade, made: GrantMade | Always) -> str:
    ends = made.until is not None or made.uses is not None
    then = "; when it ends, the older one decides again" if ends else ""
    way_out = f" To end the older one: placet grants revoke {other.id}." if other.scope == "agent" else ""
    where = "" if other.scope == "agent" else " in this run"
    done = WORDS[other.verdict].label
    return (
        f"It contradicts {other.id}, by which {other.by or 'an unnamed person'} has such calls {done}{where}: "
        f"the newer one wins where both reach{then}.{way_out}"
    )


async def warnings_on_always(web: Web, request: DeskRequest, decision: Decision) -> list[str]:
    """The same for a standing decision that is about to be made with a decision about one call."""
    if decision.always is False or decision.decision not in ("approve", "reject"):
        return []
    wanted = decision.always if isinstance(decision.always, Always) else Always()
    found = [
        each
        for each in await grants_about(web, request)
        if each.verdict != decision.decision and _may_both_fit(each.arguments, wanted.arguments)
    ]
    return [_contradiction(each, wanted) for each in found]


async def would_decide(
    web: Web, request: DeskRequest, verdict: Literal["approve", "reject"] = "approve", always: bool | Grant = True
) -> list[str]:
    """The ids of the run's other requests that wait already and that «always», said with a decision about this one,
    would decide at once."""
    found = await load_recent(web.desk.store, request.run_id)
    entry = found[2].ledger.entry(call_of(request.id)[0]) if found is not None else None
    if found is None or entry is None or entry.decision is not None or not always:
        return []
    run, now = found[2], web.clock.now()
    _, (made,) = facts_of_decision(entry, DecisionInput(verdict=verdict, always=always), now)
    asked = [(each, run.ledger.entry(each)) for each in calls_under(run, made, now)]
    return [request_id(request.run_id, call, each.request) for call, each in asked if each is not None]


async def grants_about(web: Web, request: DeskRequest) -> list[GrantMade]:
    """The standing decisions that are about this tool of this agent, in this run or in all, and are not over."""
    found = {each.id: each for each in [*await web.desk.grants(), *await _of_run(web, request)]}
    now = web.clock.now()
    return [
        each
        for each in found.values()
        if each.agent == request.agent
        and name_of(each.tool) == request.tool
        and (each.until is None or each.until > now)
    ]


async def _of_run(web: Web, request: DeskRequest) -> Sequence[GrantMade]:
    try:
        found = await load_recent(web.desk.store, request.run_id)
    except PlacetError:  # its log cannot be read here
        return []
    path = path_of(call_of(request.id)[0])
    return [] if found is None else [each for each in found[2].ledger.grants() if each.path == path]


# -- holds ------------------------------------------------------------------------------------------------------------


async def warnings_on_hold(web: Web, kind: HoldKind, name: str) -> list[str]:
    """That nobody here knows what is held, in words: it may be a slip, or the name of something that comes later."""
    if kind == "run":
        is_known = await web.desk.store.run(name) is not None
        return [] if is_known else [f"There is no run {name[:80]!r} in this store: check the id."]
    is_known = _is_agent(web.desk, name) if kind == "agent" else _is_tool(web.desk, name)
    if is_known or await _was_asked_about(web, kind, name):
        return []
    if not web.desk.agents:
        return [
            f"No request in this store is about the {kind} {name[:80]!r}, and the agents' code is not here: check it."
        ]
    return [f"This desk knows no {kind} {name[:80]!r}, so the hold may cover nothing. {_known(web.desk, kind)}"]


async def _was_asked_about(web: Web, kind: Literal["agent", "tool"], name: str) -> bool:
    agent, tool = (name, None) if kind == "agent" else (None, name)
    page = await web.desk.requests(status=None, agent=agent, tool=tool, limit=1)
    return bool(page.rows)


def _is_agent(desk: Desk, name: str) -> bool:
    return desk.agent_at(name) is not None


def _is_tool(desk: Desk, name: str) -> bool:
    """A tool's name, or an agent's tool: `Support.refund`."""
    agents = [agent for root in desk.agents for agent in AgentGraph(root).agents()]
    if any(agent.tool_named(name) is not None for agent in agents):
        return True
    owner, dot, tool = name.rpartition(".")
    found = desk.agent_at(owner) if dot else None
    return found is not None and found.tool_named(tool) is not None


def _known(desk: Desk, kind: Literal["agent", "tool"]) -> str:
    if kind == "agent":
        names = ", ".join(each.address for each in desk.agents)
        return f"It knows: {names}{BY_PATH}."
    agents = [agent for root in desk.agents for agent in AgentGraph(root).agents()]
    names = ", ".join(sorted({tool.name for agent in agents for tool in agent.function_tools}))
    return f"It knows: {names or 'none'}."

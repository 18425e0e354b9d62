"""The deploy check: can every run that waits continue with today's code? Said before a person clicks approve."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal

import msgspec

from placet.core.casting import Known, requirement_of
from placet.core.gate import is_first_version
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.tool import Tool, if_of_kind
from placet.facts.errors import PlacetError, ToolsetUnavailable, UserError
from placet.facts.ids import request_id
from placet.facts.requirements import needs_text
from placet.ports import DeskStore, RunQuery
from placet.runtime.frame import find_tools, servers_in_use
from placet.runtime.journal import load_recent
from placet.service.stuck import all_who_could, is_stuck


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps a run from going on, or that will make its reviewer look again."""

    run_id: str
    code: Literal[
        "unreadable",
        "agent_gone",
        "tool_gone",
        "server_unavailable",
        "schema_changed",
        "arguments_invalid",
        "too_few_approvers",
    ]
    message: str
    request_id: str | None = None
    stops: bool = True
    """Whether the run cannot go on. A changed schema only asks again."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was looked at."""

    run_id: str
    agent: str
    findings: list[Finding]


async def examine(store: DeskStore, agents: Sequence[Agent[Any]]) -> AsyncIterator[Examined]:
    """Load every run that has not ended against these agents."""
    graphs = {agent.address: AgentGraph(agent) for agent in agents}
    for status in ("waiting", "running", "stopped"):
        cursor: str | None = None
        while True:
            page = await store.runs(RunQuery(status=status, cursor=cursor, limit=200))
            for row in page.rows:
                found = [finding async for finding in _findings(store, graphs, row.id)]
                yield Examined(run_id=row.id, agent=row.agent, findings=found)
            cursor = page.cursor
            if cursor is None:
                break


def lacks_code(graph: AgentGraph, run: RunFold) -> bool:
    """Whether calls that a user's code let begin, or had asked about, need an agent or a tool that is not here.

    A call that no rule has judged does not count: models also name tools that nobody has.
    """
    return any(_member_lacks(graph, member) for member in run.family())


def _member_lacks(graph: AgentGraph, member: RunFold) -> bool:
    try:
        agent = graph.at(member.response_agent)
        graph.at(member.agent)
    except UserError:
        return True
    if vars(agent).get("mcp_servers"):  # what a server offers is known when it is asked
        return False
    return any(
        call.outcome is None
        and call.status is not Status.PROPOSED
        and agent.handoff_named(call.name) is None
        and if_of_kind(agent.tool_named(call.name), call.native_kind) is None
        for call in member.calls.values()
    )


async def _findings(store: DeskStore, graphs: dict[str, AgentGraph], run_id: str) -> AsyncIterator[Finding]:
    try:
        found = await load_recent(store, run_id)
        run = found[2] if found is not None else None
    except PlacetError as error:
        yield Finding(run_id=run_id, code="unreadable", message=str(error))
        return
    if run is None:
        return
    async for finding in _of_votes(store, run_id, run):
        yield finding
    if run.guest is not None:  # a guest executes its calls itself: no code of ours continues with them
        return
    graph = graphs.get(run.starting_agent)
    if graph is None:
        known = ", ".join(graphs) or "none"
        message = f"It is of agent '{run.starting_agent}', and today's code has: {known}."
        yield Finding(run_id=run_id, code="agent_gone", message=message)
        return
    async with servers_in_use(graph):
        for member in run.family():
            async for finding in _of_member(graph, run_id, member):
                yield finding


async def _of_votes(store: DeskStore, run_id: str, run: RunFold) -> AsyncIterator[Finding]:
    """Questions that nobody can approve any more: too few people are left who may."""
    known: Known | None = None
    for _, call in run.waiting():
        entry = run.ledger.entry(call.id)
        if entry is None or entry.open_ballot is None:
            continue
        if known is None:
            known = await all_who_could(store)
        if not is_stuck(run, entry, entry.open_ballot, known):
            continue
        requirement = requirement_of(entry, entry.open_ballot, known.four_eyes)
        message = (
            f"Call {call.id} needs {needs_text(requirement)}, and there are not enough people at this desk who could "
            "approve it: put people into the groups, or reject it."
        )
        asked = request_id(run_id, call.id, call.request)
        yield Finding(run_id=run_id, code="too_few_approvers", message=message, request_id=asked)


async def _of_member(graph: AgentGraph, run_id: str, member: RunFold) -> AsyncIterator[Finding]:
    try:
        agent = graph.at(member.response_agent)
        graph.at(member.agent)
    except UserError as error:
        yield Finding(run_id=run_id, code="agent_gone", message=str(error))
        return
    open_calls = [c for c in member.calls.values() if c.outcome is None and agent.handoff_named(c.name) is None]
    if not open_calls:
        return
    try:
        found = await find_tools(agent, RunContextWrapper(None))
    except ToolsetUnavailable as error:
        yield Finding(run_id=run_id, code="server_unavailable", message=str(error))
        return
    for call in open_calls:
        for finding in _of_call(agent, found, run_id, member, call):
            yield finding


def _tool_of(agent: Agent[Any], found: Sequence[Tool], member: RunFold, call: Call) -> Tool | None:
    entry = member.ledger.entry(call.id)
    asked = next((tool for tool in found if entry is not None and tool.identity == entry.tool), None)
    named = agent.tool_named(call.name) or next((tool for tool in found if tool.name == call.name), None)
    return asked or if_of_kind(named, call.native_kind)


def _of_call(agent: Agent[Any], found: Sequence[Tool], run_id: str, member: RunFold, call: Call) -> Iterator[Finding]:
    asked = request_id(run_id, call.id, call.request) if call.request else None
    tool = agent.tool_of(call) if call.server is not None else _tool_of(agent, found, member, call)
    if tool is None:
        message = f"Call {call.id} needs tool '{call.name}', which agent '{agent.name}' no longer has."
        yield Finding(run_id=run_id, code="tool_gone", message=message, request_id=asked)
        return
    entry = member.ledger.entry(call.id)
    is_old = entry is not None and is_first_version(entry.digest)
    if entry is not None and entry.fingerprint != (tool.first_fingerprint if is_old else tool.fingerprint):
        message = f"Tool '{call.name}' has another schema or version than when call {call.id} was asked about."
        yield Finding(run_id=run_id, code="schema_changed", message=message, request_id=asked, stops=False)
    if not call.request:
        return  # no person was asked about it: if it does not fit, the model reads so, and the run continues
    arguments = call.effective
    problem = tool.problem_with(arguments) if arguments is not None else "they are not one JSON object"
    if problem is not None:
        message = f"The arguments of call {call.id} no longer fit tool '{call.name}': {problem}"
        yield Finding(run_id=run_id, code="arguments_invalid", message=message, request_id=asked)

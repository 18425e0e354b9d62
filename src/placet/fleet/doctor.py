"""The deploy check: can every run that waits go on with today's code? Said before anybody clicks approve."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal

import msgspec

from placet.agent import Agent
from placet.agent_graph import AgentGraph
from placet.codec import parse_arguments
from placet.core.state import Call, RunFold
from placet.errors import PlacetError, UserError
from placet.ids import request_id
from placet.ports import DeskStore, RunQuery
from placet.runtime.journal import load_recent


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps a run from going on, or that will make its reviewer look again."""

    run_id: str
    code: Literal["unreadable", "agent_gone", "tool_gone", "schema_changed", "arguments_invalid"]
    message: str
    request_id: str | None = None
    stops: bool = True
    """Whether the run cannot go on. A changed schema only asks anew."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was looked at."""

    run_id: str
    agent: str
    findings: list[Finding]


async def examine(store: DeskStore, agents: Sequence[Agent[Any]]) -> AsyncIterator[Examined]:
    """Load every run that has not ended against these agents."""
    graphs = {agent.address: AgentGraph(agent) for agent in agents}
    for status in ("waiting", "running"):
        cursor: str | None = None
        while True:
            page = await store.runs(RunQuery(status=status, cursor=cursor, limit=200))
            for row in page.rows:
                found = [finding async for finding in _findings(store, graphs, row.id)]
                yield Examined(run_id=row.id, agent=row.agent, findings=found)
            cursor = page.cursor
            if cursor is None:
                break


async def _findings(store: DeskStore, graphs: dict[str, AgentGraph], run_id: str) -> AsyncIterator[Finding]:
    try:
        found = await load_recent(store, run_id)
        run = found[2] if found is not None else None
    except PlacetError as error:
        yield Finding(run_id=run_id, code="unreadable", message=str(error))
        return
    if run is None:
        return
    graph = graphs.get(run.starting_agent)
    if graph is None:
        known = ", ".join(graphs) or "none"
        message = f"It is of agent '{run.starting_agent}', and today's code has: {known}."
        yield Finding(run_id=run_id, code="agent_gone", message=message)
        return
    for member in run.family():
        for finding in _of_member(graph, run_id, member):
            yield finding


def _of_member(graph: AgentGraph, run_id: str, member: RunFold) -> Iterator[Finding]:
    try:
        agent = graph.at(member.response_agent)
        graph.at(member.agent)
    except UserError as error:
        yield Finding(run_id=run_id, code="agent_gone", message=str(error))
        return
    for call in member.calls.values():
        if call.outcome is None and agent.handoff_named(call.name) is None:
            yield from _of_call(agent, run_id, member, call)


def _of_call(agent: Agent[Any], run_id: str, member: RunFold, call: Call) -> Iterator[Finding]:
    asked = request_id(run_id, call.id, call.request) if call.request else None
    tool = agent.tool_named(call.name)
    if tool is None:
        message = f"Call {call.id} needs tool '{call.name}', which agent '{agent.name}' no longer has."
        yield Finding(run_id=run_id, code="tool_gone", message=message, request_id=asked)
        return
    entry = member.ledger.entry(call.id)
    if entry is not None and entry.fingerprint != tool.fingerprint:
        message = f"Tool '{call.name}' has another schema or version than when call {call.id} was asked about."
        yield Finding(run_id=run_id, code="schema_changed", message=message, request_id=asked, stops=False)
    if not call.request:
        return  # nobody was asked about it: if it does not fit, the model that wrote it is told so, and the run goes on
    arguments = call.edited if call.edited is not None else parse_arguments(call.arguments)
    problem = tool.problem_with(arguments) if arguments is not None else "they are not one JSON object"
    if problem is not None:
        message = f"The arguments of call {call.id} no longer fit tool '{call.name}': {problem}"
        yield Finding(run_id=run_id, code="arguments_invalid", message=message, request_id=asked)

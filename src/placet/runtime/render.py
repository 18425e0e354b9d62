"""From facts to what users see: items with their agents. One walk serves results, streams and histories alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from placet.core.calls import as_items, output_item, plan_calls
from placet.core.log import Log, read_line
from placet.core.state import Call, RunFold
from placet.declare.agent import Agent, AgentTool
from placet.declare.agent_graph import AgentGraph
from placet.declare.guardrail import GuardrailFunctionOutput, GuardrailResult
from placet.declare.tool import Tool, unescaped
from placet.facts.codec import JsonObject
from placet.facts.events import (
    AgentChanged,
    AnyFact,
    CallEnded,
    GuardrailsJudged,
    InChild,
    PlainFact,
    ResponseReceived,
    RunStarted,
)
from placet.facts.ids import ROOT, call_id
from placet.facts.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    ModelResponse,
    RawItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolOrigin,
    ToolOriginType,
    as_run_item,
)
from placet.runtime.journal import GuardrailInfos


class Walk:
    """Walks the facts of one run (or nested run) in order and says which items each of them brought."""

    def __init__(
        self, run_id: str, graph: AgentGraph, path: str = ROOT, values: Mapping[str, object] | None = None
    ) -> None:
        self._values: Mapping[str, object] = values if values is not None else {}
        """What tools returned, where this process saw it."""
        self._run_id = run_id
        self._graph = graph
        self._path = path
        self._address = ""
        self._turn = 0
        self._calls: dict[str, Call] = {}

    @property
    def agent(self) -> Agent[Any]:
        return self._graph.at(self._address) if self._address else self._graph.root

    def go_to(self, run: RunFold) -> None:
        """Stand where this fold stands: what comes next is told from there."""
        self._address, self._turn = run.agent, run.turn
        self._calls = {call.id: replace(call) for call in run.calls.values()}

    def own(self, fact: AnyFact) -> PlainFact | None:
        """The fact, if it is of this run."""
        if isinstance(fact, InChild):
            return fact.fact if fact.path == self._path else None
        return fact if self._path == ROOT else None

    def items(self, fact: PlainFact) -> Iterator[RunItem]:
        match fact:
            case RunStarted() | AgentChanged():
                self._address = fact.agent
            case ResponseReceived():
                self._turn += 1
                self._calls = {}
                planned = plan_calls(self._path, self._turn, fact.output, set())
                for item, (_, call) in zip(fact.output, planned, strict=True):
                    yield self._item(item, call)
            case CallEnded() if (call := self._calls.get(fact.call)) is not None:
                yield self._output(fact, call)
            case _:
                pass

    def _item(self, given: JsonObject, call: Call | None) -> RunItem:
        item = RawItem(given)
        if call is not None:
            self._calls[call.id] = call
            if call.server is not None:
                return MCPApprovalRequestItem(self.agent, item, id=call_id(self._run_id, call.id))
            if self.agent.handoff_named(call.name) is not None:
                return HandoffCallItem(self.agent, item, id=call_id(self._run_id, call.id))
            return ToolCallItem(self.agent, item, id=call_id(self._run_id, call.id), tool_origin=self._origin(call))
        return as_run_item(self.agent, item)

    def _output(self, fact: CallEnded, call: Call) -> RunItem:
        call.output, call.outcome = fact.output, fact.outcome
        raw = RawItem(output_item(call, call.label or call.sent_label))
        if call.server is not None:
            return MCPApprovalResponseItem(self.agent, raw, fact.output, id=call_id(self._run_id, call.id))
        handoff = self.agent.handoff_named(call.name)
        if handoff is not None and fact.outcome == "finished":
            return HandoffOutputItem(self.agent, raw, source_agent=self.agent, target_agent=handoff.agent)
        output = self._values.get(call.id, fact.output)
        own_id = call_id(self._run_id, call.id)
        return ToolCallOutputItem(self.agent, raw, output, id=own_id, tool_origin=self._origin(call))

    def _origin(self, call: Call) -> ToolOrigin | None:
        """Tools of servers are known once they were listed: until then a call of theirs has no origin."""
        tool = self.agent.tool_of(call)
        return origin_of(tool) if tool is not None else None


def origin_of(tool: Tool) -> ToolOrigin:
    if isinstance(tool, AgentTool):
        return ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name=tool.agent.name, agent_tool_name=tool.name)
    kind, _, rest = tool.identity.partition(":")
    if kind == "mcp":
        return ToolOrigin(ToolOriginType.MCP, mcp_server_name=unescaped(rest.partition(":")[0]))
    return ToolOrigin(ToolOriginType.FUNCTION)


def facts_of(log: Log) -> Iterable[AnyFact]:
    for line in log.lines:
        yield from read_line(line).facts


def items_of(log: Log, graph: AgentGraph, path: str, values: Mapping[str, object] | None = None) -> list[RunItem]:
    walk = Walk(log.run_id, graph, path, values)
    return [item for each in facts_of(log) if (fact := walk.own(each)) is not None for item in walk.items(fact)]


def input_of(log: Log, path: str) -> list[JsonObject]:
    return next((as_items(fact.input) for fact in _own_facts(log, path) if isinstance(fact, RunStarted)), [])


def responses_of(log: Log, path: str) -> list[ModelResponse]:
    received = (fact for fact in _own_facts(log, path) if isinstance(fact, ResponseReceived))
    return [
        ModelResponse([RawItem(item) for item in fact.output], fact.usage, fact.response_id, fact.request_id)
        for fact in received
    ]


def guardrail_results_of(log: Log, path: str, kind: str, infos: GuardrailInfos) -> list[GuardrailResult]:
    """What the guardrails said. Those of a tool are heard before a person is asked and again before the call: there the
    last word about a call counts."""
    found: dict[tuple[object, int], GuardrailResult] = {}
    for number, fact in enumerate(_own_facts(log, path)):
        if isinstance(fact, GuardrailsJudged) and fact.kind == kind:
            for place, each in enumerate(fact.results):
                output = GuardrailFunctionOutput(infos.of(path, each, fact.call), each.tripped)
                about = number if fact.call is None else fact.call
                found[about, place] = GuardrailResult(each.name, output, fact.call)
    return list(found.values())


def _own_facts(log: Log, path: str) -> Iterator[PlainFact]:
    for fact in facts_of(log):
        if isinstance(fact, InChild):
            if fact.path == path:
                yield fact.fact
        elif path == ROOT:
            yield fact

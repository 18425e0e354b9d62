"""From facts to what users see: items with their agents. One walk serves results, streams and histories alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from placet.agent import Agent
from placet.codec import JsonObject
from placet.core.fold import output_item
from placet.core.log import Log, read_line
from placet.core.plan import plan_calls
from placet.core.state import Call
from placet.events import AnyFact, CallEnded, InChild, ResponseReceived
from placet.ids import ROOT, call_id
from placet.items import (
    MessageOutputItem,
    ModelResponse,
    OtherItem,
    ReasoningItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
)


class Walk:
    """Walks a run's facts in order and says which items each of them brought."""

    def __init__(self, run_id: str, agent: Agent[Any]) -> None:
        self._run_id = run_id
        self._agent = agent
        self._turn = 0
        self._calls: dict[str, Call] = {}

    def items(self, fact: AnyFact) -> Iterator[RunItem]:
        if isinstance(fact, ResponseReceived):
            self._turn += 1
            self._calls = {}
            planned = plan_calls(ROOT, self._turn, fact.output, set())
            for item, (_, call) in zip(fact.output, planned, strict=True):
                yield self._item(item, call)
        elif isinstance(fact, CallEnded):
            call = self._calls.get(fact.call)
            if call is not None:
                call.output = fact.output
                raw = output_item(call, call.label or call.sent_label)
                yield ToolCallOutputItem(self._agent, raw, fact.output, id=call_id(self._run_id, call.id))

    def _item(self, item: JsonObject, call: Call | None) -> RunItem:
        if call is not None:
            self._calls[call.id] = call
            return ToolCallItem(self._agent, item, id=call_id(self._run_id, call.id))
        match item.get("type"):
            case "message":
                return MessageOutputItem(self._agent, item)
            case "reasoning":
                return ReasoningItem(self._agent, item)
            case _:
                return OtherItem(self._agent, item)


def facts_of(log: Log) -> Iterable[AnyFact]:
    for line in log.lines:
        yield from read_line(line).facts


def items_of(log: Log, agent: Agent[Any]) -> list[RunItem]:
    walk = Walk(log.run_id, agent)
    return [item for fact in facts_of(log) if not isinstance(fact, InChild) for item in walk.items(fact)]


def responses_of(log: Log) -> list[ModelResponse]:
    return [
        ModelResponse(fact.output, fact.usage, fact.response_id)
        for fact in facts_of(log)
        if isinstance(fact, ResponseReceived)
    ]

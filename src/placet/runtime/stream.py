"""What a streamed run tells while it goes: raw events of the model, items as they become facts, and what waits for a
person."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from placet.agent import Agent
from placet.events import AnyFact, CallHeld, CallInDoubt, InChild
from placet.items import MessageOutputItem, ReasoningItem, RunItem, ToolApprovalItem, ToolCallItem, ToolCallOutputItem
from placet.ports import RawEvent
from placet.runtime.render import Walk

MAX_UNREAD = 1024
"""How many events may wait for a slow reader before the run waits for the reader."""


@dataclass(frozen=True, slots=True)
class RawResponsesStreamEvent:
    data: Any  # Any: the provider's own event
    type: Literal["raw_response_event"] = "raw_response_event"


@dataclass(frozen=True, slots=True)
class RunItemStreamEvent:
    name: str
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(frozen=True, slots=True)
class AgentUpdatedStreamEvent:
    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent


def _name(item: RunItem) -> str:
    match item:
        case MessageOutputItem():
            return "message_output_created"
        case ReasoningItem():
            return "reasoning_item_created"
        case ToolCallItem():
            return "tool_called"
        case ToolCallOutputItem():
            return "tool_output"
        case ToolApprovalItem():
            return "tool_approval_requested"
        case _:
            return "item_created"


class Feed:
    """Between the run and the reader of its stream. The reader may be slow: raw events then make the run wait."""

    def __init__(self, run_id: str, agent: Agent[Any], pending: Callable[[str], Iterable[ToolApprovalItem]]) -> None:
        self._walk = Walk(run_id, agent)
        self._pending = pending
        self._events: deque[StreamEvent] = deque([AgentUpdatedStreamEvent(agent)])
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    async def raw(self, event: RawEvent) -> None:
        self._put(RawResponsesStreamEvent(event.data))
        while len(self._events) >= MAX_UNREAD and not self._closed:
            self._room.clear()
            await self._room.wait()

    def catch_up(self, facts: Iterable[AnyFact]) -> None:
        """Learn what happened before this stream began, without telling it again."""
        for fact in facts:
            for _ in self._walk.items(fact):
                pass

    def publish(self, facts: Sequence[AnyFact]) -> None:
        """Tell what has become durable."""
        for fact in facts:
            bare = fact.fact if isinstance(fact, InChild) else fact
            if isinstance(bare, CallHeld | CallInDoubt):
                for item in self._pending(bare.call):
                    self._put(RunItemStreamEvent(_name(item), item))
            elif not isinstance(fact, InChild):
                for found in self._walk.items(fact):
                    self._put(RunItemStreamEvent(_name(found), found))

    def close(self) -> None:
        self._closed = True
        self._changed.set()
        self._room.set()

    def _put(self, event: StreamEvent) -> None:
        self._events.append(event)
        self._changed.set()

    async def events(self) -> AsyncIterator[StreamEvent]:
        while True:
            while self._events:
                event = self._events.popleft()
                if len(self._events) < MAX_UNREAD // 2:
                    self._room.set()
                yield event
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

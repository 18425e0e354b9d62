"""What a streamed run tells while it goes: raw events of the model, items as they become facts, and what waits for a
person."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.facts.events import (
    AgentChanged,
    AnyFact,
    CallHeld,
    CallInDoubt,
    InChild,
    InputAsked,
    ResponseReceived,
    ResponseUnusable,
    RunStarted,
)
from placet.facts.ids import ROOT
from placet.facts.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from placet.ports import RawEvent
from placet.runtime.render import Walk

MAX_UNREAD = 1024
"""How many events may wait for a slow reader before the run waits for the reader."""
MAX_UNREAD_SIZE = 4_000_000
"""How many characters of raw events may: one that holds a picture weighs more than a thousand words."""
RETRIED = "placet.request_retried"
"""The type of the event that tells: what was streamed of this answer is void, and the model is asked again."""


class RawResponsesStreamEvent(msgspec.Struct, frozen=True):
    """Something that the model said, as its provider sent it."""

    data: Any  # Any: the provider's own event
    type: Literal["raw_response_event"] = "raw_response_event"


class RunItemStreamEvent(msgspec.Struct, frozen=True):
    """An item has become a fact of the run, or waits for a person (`tool_approval_requested`)."""

    name: str
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


class AgentUpdatedStreamEvent(msgspec.Struct, frozen=True):
    """An agent is at work now: at the beginning of a stream, and after a handoff."""

    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent


_NAMES: dict[type[RunItem], str] = {
    MessageOutputItem: "message_output_created",
    ReasoningItem: "reasoning_item_created",
    HandoffCallItem: "handoff_requested",
    HandoffOutputItem: "handoff_occured",  # spelled as users of the OpenAI Agents SDK know it
    MCPApprovalRequestItem: "mcp_approval_requested",
    MCPApprovalResponseItem: "mcp_approval_response",
    ToolCallItem: "tool_called",
    ToolCallOutputItem: "tool_output",
    ToolApprovalItem: "tool_approval_requested",
    MCPListToolsItem: "mcp_list_tools",
    ToolSearchCallItem: "tool_search_called",
    ToolSearchOutputItem: "tool_search_output_created",
}


def _name(item: RunItem) -> str:
    return _NAMES.get(type(item), "item_created")


def _size_of(data: object) -> int:
    """About how much a raw event weighs: the texts in it. Exactness would cost more than it is worth."""
    fields = data if isinstance(data, dict) else getattr(data, "__dict__", None)
    size = 0
    if fields:
        for each in fields.values():
            if type(each) is str:
                size += len(each)
    return size


class StreamQueue:
    """Between the run and the reader of its stream. The reader may be slow: raw events then make the run wait.

    Each event of a model passes here, so there is one rule: what can be done once for all that is unread (waking the
    reader, making room, forgetting what it weighed) is not done for each event.
    """

    def __init__(
        self,
        run_id: str,
        graph: AgentGraph,
        pending: Callable[[str], ToolApprovalItem | None],
        path: str = ROOT,
        values: Mapping[str, object] | None = None,
    ) -> None:
        self._walk = Walk(run_id, graph, path, values)
        self._path = path
        self._pending = pending
        self._events: deque[StreamEvent] = deque()
        """Those that nobody has read yet."""
        self._size = 0
        """How many characters of raw events came since the last time that all was read."""
        self._has_begun_answer = False
        self._is_awaited = False
        """A reader waits for the next event."""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False
        self._is_abandoned = False

    def raw(self, event: RawEvent) -> bool:
        """Tell a raw event. False: too much is unread, and the reader of the provider must wait for room."""
        self._has_begun_answer = True
        self._size += _size_of(event.data)
        self._put(RawResponsesStreamEvent(event.data))
        return len(self._events) < MAX_UNREAD and self._size < MAX_UNREAD_SIZE  # not `_is_full`, without a call

    def _is_full(self) -> bool:
        return len(self._events) >= MAX_UNREAD or self._size >= MAX_UNREAD_SIZE

    async def wait_for_room(self) -> None:
        """Until the reader has caught up. Only raw events wait, facts never do."""
        while self._is_full() and not self._closed:
            self._room.clear()
            await self._room.wait()

    def ask_again(self) -> None:
        """The answer that was being told is lost, and the model is asked again."""
        if self._has_begun_answer:
            self.raw(RawEvent({"type": RETRIED}))
            self._has_begun_answer = False

    def catch_up(self, run: RunFold) -> None:
        """Begin where the run stands, without telling again what happened before this stream."""
        if run.started:
            self._walk.go_to(run)
            self._put(AgentUpdatedStreamEvent(self._walk.agent))

    def publish(self, _at: float, facts: Sequence[AnyFact]) -> None:
        """Tell what has become durable: the run's own items, and what waits in it at any depth."""
        for each in facts:
            bare = each.fact if isinstance(each, InChild) else each
            if isinstance(bare, CallHeld | CallInDoubt | InputAsked):
                is_inside = not self._path or bare.call.startswith(self._path + "/")
                item = self._pending(bare.call) if is_inside else None
                if item is not None:
                    self._put(RunItemStreamEvent(_name(item), item))
                continue
            fact = self._walk.own(each)
            if fact is not None:
                if isinstance(fact, ResponseReceived | ResponseUnusable):
                    self._has_begun_answer = False
                for found in self._walk.items(fact):
                    self._put(RunItemStreamEvent(_name(found), found))
                if isinstance(fact, RunStarted | AgentChanged):
                    self._put(AgentUpdatedStreamEvent(self._walk.agent))

    def drop(self) -> None:
        """Nobody wants to hear more, not even of what is unread: the state has it."""
        self.abandon()
        self.close()

    def close(self) -> None:
        self._closed = True
        self._changed.set()
        self._room.set()

    def abandon(self) -> None:
        """Nobody will ever read: the run goes on without waiting for a reader."""
        self._is_abandoned = True
        self._events.clear()
        self._size = 0
        self._room.set()

    def _put(self, event: StreamEvent) -> None:
        if self._is_abandoned:
            self._size = 0
            return
        self._events.append(event)
        if self._is_awaited:
            self._is_awaited = False
            self._changed.set()

    async def wait_for_more(self) -> bool:
        """True as soon as something is unread, False when nothing ever will be."""
        while not self._events:
            self._size = 0
            self._room.set()
            if self._closed:
                return False
            self._changed.clear()
            self._is_awaited = True
            await self._changed.wait()
        return True

    def take(self) -> Iterator[StreamEvent]:
        """What is unread, oldest first, until there is nothing."""
        while self._events:
            yield self._events.popleft()

    async def events(self) -> AsyncIterator[StreamEvent]:
        while await self.wait_for_more():
            for event in self.take():
                yield event

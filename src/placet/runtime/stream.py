"""What a streamed run tells while it goes: raw events of the model, items as they become facts, and what waits for a
person."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from placet.agent import Agent
from placet.agent_graph import AgentGraph
from placet.core.state import RunFold
from placet.events import (
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
from placet.ids import ROOT
from placet.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
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


def _name(item: RunItem) -> str:
    match item:
        case MessageOutputItem():
            return "message_output_created"
        case ReasoningItem():
            return "reasoning_item_created"
        case HandoffCallItem():
            return "handoff_requested"
        case HandoffOutputItem():
            return "handoff_occured"  # spelled as users of the OpenAI Agents SDK know it
        case MCPApprovalRequestItem():
            return "mcp_approval_requested"
        case MCPApprovalResponseItem():
            return "mcp_approval_response"
        case ToolCallItem():
            return "tool_called"
        case ToolCallOutputItem():
            return "tool_output"
        case ToolApprovalItem():
            return "tool_approval_requested"
        case _:
            return "item_created"


def _size_of(data: object) -> int:
    """About how much a raw event weighs: the texts in it. Exactness would cost more than it is worth."""
    fields = data if isinstance(data, dict) else getattr(data, "__dict__", None)
    size = 0
    for each in fields.values() if fields else ():
        if isinstance(each, str):
            size += len(each)
    return size


class Feed:
    """Between the run and the reader of its stream. The reader may be slow: raw events then make the run wait."""

    def __init__(
        self,
        run_id: str,
        graph: AgentGraph,
        pending: Callable[[str], ToolApprovalItem | None],
        path: str = ROOT,
    ) -> None:
        self._walk = Walk(run_id, graph, path)
        self._path = path
        self._pending = pending
        self._events: deque[StreamEvent] = deque()
        self._sizes: deque[int] = deque()
        """Of the raw events that wait, in characters."""
        self._size = 0
        """Of all of them together."""
        self._has_begun_answer = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    async def raw(self, event: RawEvent) -> None:
        """Tell a raw event. If too much waits unread, so does whoever reads from the provider; facts never wait."""
        self._has_begun_answer = True
        self._put_raw(event.data)
        while self._is_full() and not self._closed:
            self._room.clear()
            await self._room.wait()

    def _is_full(self) -> bool:
        return len(self._events) >= MAX_UNREAD or self._size >= MAX_UNREAD_SIZE

    def _put_raw(self, data: Any) -> None:
        size = _size_of(data)
        self._size += size
        self._sizes.append(size)
        self._put(RawResponsesStreamEvent(data))

    def ask_again(self) -> None:
        """The answer that was being told is lost, and the model is asked again."""
        if self._has_begun_answer:
            self._has_begun_answer = False
            self._put_raw({"type": RETRIED})

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
                if isinstance(event, RawResponsesStreamEvent):
                    self._size -= self._sizes.popleft()
                if len(self._events) < MAX_UNREAD // 2 and self._size < MAX_UNREAD_SIZE // 2:
                    self._room.set()
                yield event
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

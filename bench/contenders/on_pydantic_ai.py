"""pydantic-ai, by its public API, not instrumented: a run that waits is its messages and its deferred tool requests,
carried as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai import (
    Agent,
    AgentRunResult,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelResponse,
    TextPart,
    Tool,
    ToolCallPart,
    UsageLimits,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse

from bench.work import FREE, GATED, Effects, Item, Script

IMPORT = "pydantic_ai"
NO_LIMITS = UsageLimits(request_limit=None)


def versions() -> Mapping[str, str]:
    return {"pydantic-ai": version("pydantic-ai-slim")}


class _Scripted(Model):
    """Its answers are the library's own messages, made beforehand."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._answers = iter([ModelResponse([_part(item) for item in answer]) for answer in script])

    model_name = "scripted"
    system = "scripted"

    async def request(self, *_request: Any) -> ModelResponse:
        return next(self._answers)

    @asynccontextmanager
    async def request_stream(
        self, _messages: Any, _settings: Any, parameters: ModelRequestParameters, _context: Any = None
    ) -> AsyncIterator[StreamedResponse]:
        (part,) = next(self._answers).parts
        assert isinstance(part, TextPart)
        yield _Words(parameters, part.content.split(" "))


@dataclass
class _Words(StreamedResponse):
    """One text delta for every word, put together by the library as for any provider."""

    words: list[str]
    timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    model_name = "scripted"
    provider_name = None
    provider_url = None

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        for word in self.words:
            for event in self._parts_manager.handle_text_delta(vendor_part_id="content", content=word):
                yield event


def _part(item: Item) -> TextPart | ToolCallPart:
    if item["type"] == "function_call":
        return ToolCallPart(item["name"], item["arguments"], item["call_id"])
    return TextPart(item["content"][0]["text"])


def agent(script: Script, effects: Effects) -> Agent[None, Any]:
    return Agent(
        _Scripted(script),
        name="Bench",
        instructions="Do as you are told.",
        tools=_tools(effects),
        output_type=[str, DeferredToolRequests],
    )


_made: list[tuple[Effects, list[Any]]] = []


def _tools(effects: Effects) -> list[Any]:
    """Tools are declared once, as in any program, and shared by the agents of a work."""
    if not _made or _made[-1][0] is not effects:

        async def look_up(order: str) -> str:
            effects.count += 1
            return f"done {order}"

        async def refund(order: str) -> str:
            effects.count += 1
            return f"done {order}"

        _made[:] = [(effects, [Tool(look_up, name=FREE), Tool(refund, name=GATED, requires_approval=True)])]
    return _made[-1][1]


async def run(agent: Agent[None, Any], text: str) -> AgentRunResult[Any]:
    return await agent.run(text, usage_limits=NO_LIMITS)


def output(handle: AgentRunResult[Any]) -> str | None:
    return handle.output if isinstance(handle.output, str) else None


def waiting(handle: AgentRunResult[Any]) -> int:
    return len(handle.output.approvals) if isinstance(handle.output, DeferredToolRequests) else 0


# What another process needs to decide and go on, configured as the library's own adapter of messages is.
PAUSED = TypeAdapter(
    tuple[list[ModelMessage], DeferredToolRequests],
    config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"),
)


@dataclass
class Paused:
    messages: list[ModelMessage]
    requests: DeferredToolRequests
    results: DeferredToolResults | None = None


def store(handle: AgentRunResult[Any]) -> str:
    return PAUSED.dump_json((handle.all_messages(), handle.output)).decode()


async def load(_agent: Agent[None, Any], text: str) -> Paused:
    return Paused(*PAUSED.validate_json(text))


def approve_all(state: Paused) -> None:
    state.results = state.requests.build_results(approve_all=True)


async def resume(agent: Agent[None, Any], state: Paused) -> AgentRunResult[Any]:
    return await agent.run(message_history=state.messages, deferred_tool_results=state.results, usage_limits=NO_LIMITS)


async def stream(agent: Agent[None, Any], text: str) -> int:
    arrived = 0
    async with agent.run_stream(text) as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            arrived += 1
    return arrived

"""Placet, by its public API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import placet
from bench.work import FREE, GATED, Effects, Script, ServedDesk
from placet import (
    Agent,
    MemoryStore,
    ModelRequest,
    ModelResponse,
    RawEvent,
    RawResponsesStreamEvent,
    RunContextWrapper,
    Runner,
    RunResult,
    RunState,
    ToolApprovalItem,
    Usage,
    function_tool,
    set_default_store,
)

IMPORT = "placet"


def versions() -> Mapping[str, str]:
    return {"placet": placet.__version__}


class _Scripted:
    """The smallest model that can be: the scripted one of placet.testing also remembers every request."""

    leaves_input_alone = True

    def __init__(self, script: Script) -> None:
        self._answers = iter(script)
        self._count = 0

    async def get_response(self, _request: ModelRequest) -> ModelResponse:
        self._count += 1
        return ModelResponse(list(next(self._answers)), Usage(requests=1), f"resp_{self._count}")

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[RawEvent | ModelResponse]:
        response = await self.get_response(request)
        for item in response.output:
            for part in item.get("content", ()):
                for word in part["text"].split(" "):
                    yield RawEvent({"type": "response.output_text.delta", "delta": word})
        yield response


def agent(script: Script, effects: Effects) -> Agent[Any]:
    return Agent("Bench", "Do as you are told.", tools=_tools(effects), model=_Scripted(script))


_made: list[tuple[Effects, list[Any]]] = []


def _tools(effects: Effects) -> list[Any]:
    """Tools are declared once, as in any program, and shared by the agents of a work."""
    if not _made or _made[-1][0] is not effects:

        @function_tool(name_override=FREE)
        async def look_up(order: str) -> str:
            effects.count += 1
            return f"done {order}"

        @function_tool(name_override=GATED, needs_approval=True)
        async def refund(order: str) -> str:
            effects.count += 1
            return f"done {order}"

        _made[:] = [(effects, [look_up, refund])]
    return _made[-1][1]


async def run(agent: Agent[Any], text: str) -> RunResult:
    return await Runner.run(agent, text, max_turns=None)


def output(handle: RunResult) -> str | None:
    found: str | None = handle.final_output
    return found


def waiting(handle: RunResult) -> int:
    return len(handle.interruptions)


def store(handle: RunResult) -> str:
    return handle.to_state().to_string()


async def load(agent: Agent[Any], text: str) -> RunState[Any]:
    return await RunState.from_string(agent, text)


def approve_all(state: RunState[Any]) -> None:
    for item in state.get_interruptions():
        state.approve(item)


async def resume(agent: Agent[Any], state: RunState[Any]) -> RunResult:
    return await Runner.run(agent, state)


def elsewhere() -> None:
    set_default_store(MemoryStore())


async def stream(agent: Agent[Any], text: str) -> int:
    arrived = 0
    async for event in Runner.run_streamed(agent, text).stream_events():
        if isinstance(event, RawResponsesStreamEvent):
            arrived += 1
    return arrived


def decided(count: int) -> RunContextWrapper[None]:
    wrapper = RunContextWrapper(None)
    speaker: Agent[None] = Agent("Bench")
    for number in range(count):
        item = {"type": "function_call", "name": GATED, "arguments": "{}", "call_id": f"c{number}"}
        wrapper.approve_tool(ToolApprovalItem(speaker, item))
    return wrapper


def is_approved(ledger: RunContextWrapper[None], label: str) -> bool | None:
    return ledger.is_tool_approved(GATED, label)


def serve_desk(pending: int) -> AbstractAsyncContextManager[ServedDesk]:
    from bench.contenders import placet_desk  # imported where it is used: the other works do not pay for it

    return placet_desk.serve_desk(pending)

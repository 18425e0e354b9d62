"""openai-agents, by its public API, tracing off: a run that waits is a `RunState`, carried as its text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RawResponsesStreamEvent,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunState,
    ToolApprovalItem,
    Usage,
    function_tool,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from bench.work import FREE, GATED, Effects, Item, Script

IMPORT = "agents"
TOO_LARGE = {"status": 100_000}  # recording a decision looks through those before it: so many take many minutes
CONFIG = RunConfig(tracing_disabled=True)


def versions() -> Mapping[str, str]:
    return {"openai-agents": version("openai-agents")}


class _Scripted(Model):
    """Its answers are the client library's objects, made beforehand: what is measured is the runtime."""

    def __init__(self, script: Script) -> None:
        self._answers = iter([[_output_item(item) for item in answer] for answer in script])
        self._words = [_delta(word) for word in _texts(script[0])]
        self._count = 0

    async def get_response(self, *_request: Any, **_more: Any) -> ModelResponse:
        self._count += 1
        return ModelResponse(next(self._answers), Usage(requests=1), f"resp_{self._count}")

    async def stream_response(self, *_request: Any, **_more: Any) -> AsyncIterator[Any]:
        for event in self._words:
            yield event
        yield ResponseCompletedEvent(
            response=_response(next(self._answers)), sequence_number=len(self._words), type="response.completed"
        )


def _output_item(item: Item) -> Any:
    if item["type"] == "function_call":
        return ResponseFunctionToolCall(**item)
    content: list[Any] = [ResponseOutputText(annotations=[], **part) for part in item["content"]]
    return ResponseOutputMessage(id="msg_1", content=content, role="assistant", status="completed", type="message")


def _texts(answer: Sequence[Item]) -> list[str]:
    return [word for item in answer for part in item.get("content", ()) for word in part["text"].split(" ")]


def _delta(word: str) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(
        content_index=0,
        delta=word,
        item_id="msg_1",
        logprobs=[],
        output_index=0,
        sequence_number=0,
        type="response.output_text.delta",
    )


def _response(output: list[Any]) -> Response:
    return Response(
        id="resp_1",
        created_at=0,
        model="scripted",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )


def agent(script: Script, effects: Effects) -> Agent[Any]:
    return Agent("Bench", instructions="Do as you are told.", tools=_tools(effects), model=_Scripted(script))


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
    return await Runner.run(agent, text, max_turns=None, run_config=CONFIG)


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
    return await Runner.run(agent, state, run_config=CONFIG)


async def stream(agent: Agent[Any], text: str) -> int:
    arrived = 0
    async for event in Runner.run_streamed(agent, text, run_config=CONFIG).stream_events():
        if isinstance(event, RawResponsesStreamEvent) and isinstance(event.data, ResponseTextDeltaEvent):
            arrived += 1
    return arrived


def decided(count: int) -> RunContextWrapper[None]:
    wrapper = RunContextWrapper(None)
    speaker: Agent[None] = Agent("Bench")
    for number in range(count):
        item = ResponseFunctionToolCall(arguments="{}", call_id=f"c{number}", name=GATED, type="function_call")
        wrapper.approve_tool(ToolApprovalItem(agent=speaker, raw_item=item))
    return wrapper


def is_approved(ledger: RunContextWrapper[None], label: str) -> bool | None:
    return ledger.is_tool_approved(GATED, label)

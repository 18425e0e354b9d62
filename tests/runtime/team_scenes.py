"""What the tests of this folder share: a team whose models follow a plan, tools that leave traces, small drives.

A `Planned` model answers by what it was asked: the same request gets the same answer, in any order and any process. So
nested runs may be driven side by side, and rebuilt agents need no script that was half used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from placet import Agent, FunctionTool, ModelRequest, ModelResponse, Runner, RunResult, RunState, Usage, function_tool
from placet.ports import StreamPart
from placet.testing import ScriptedModel, assistant_message, function_call

Item = dict[str, Any]
SECONDS = 90.0
"""How long a test waits for something that happens at once, before it gives up."""
REJECTED = "Tool execution was not approved."
ONE = Usage(requests=1, input_tokens=10, output_tokens=1, total_tokens=11)


class Planned:
    """A model that finds its answer in a plan, by the first text of the conversation and by how many answers it gave
    there. A plan's answers are lists of items; what comes after the last of them is a message."""

    def __init__(self, plan: Mapping[str, Sequence[Sequence[Item]]], usage: Usage = ONE) -> None:
        self._plan = plan
        self._usage = usage
        self.asked: list[tuple[str, int]] = []
        """Which conversation was asked about, and for the how-manieth time."""
        self.requests: list[ModelRequest] = []

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        topic = str(request.input[0].get("content"))
        turn = sum(_begins_answer(request.input, index) for index in range(len(request.input)))
        self.asked.append((topic, turn))
        self.requests.append(request)
        steps = self._plan.get(topic, ())
        output = list(steps[turn]) if turn < len(steps) else [assistant_message(f"{topic}: done")]
        return ModelResponse(output, self._usage, f"resp_{topic}_{turn}")

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


def _begins_answer(items: Sequence[Item], index: int) -> bool:
    """Whether an answer of the model begins here: after something that is not the model's."""
    is_own = items[index].get("type") == "function_call" or items[index].get("role") == "assistant"
    before = items[index - 1] if index else {}
    was_own = before.get("type") == "function_call" or before.get("role") == "assistant"
    return is_own and not was_own


class Traces:
    """Tools that note each run of their bodies."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tool(self, name: str = "pay", **options: Any) -> FunctionTool:
        @function_tool(name_override=name, **options)
        async def body(n: int = 0) -> str:
            self.ran.append(f"{name} {n}")
            return f"{name} {n} done"

        return body

    def gated(self, name: str = "pay", **options: Any) -> FunctionTool:
        return self.tool(name, **{"needs_approval": True, **options})


def call(name: str, n: int | None = None, label: str | None = None) -> Item:
    return function_call(name, {} if n is None else {"n": n}, call_id=label)


def ask(name: str, text: str, label: str | None = None) -> Item:
    """A call of an agent tool."""
    return function_call(name, {"input": text}, call_id=label)


def done(text: str = "done") -> list[Item]:
    return [assistant_message(text)]


def scripted(name: str, steps: Sequence[Any], *tools: FunctionTool, **options: Any) -> Agent[Any]:
    return Agent(name, tools=list(tools), model=ScriptedModel(steps), **options)


def model_of(agent: Agent[Any]) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def sent(agent: Agent[Any], request: int = -1) -> list[Item]:
    """What a request carried."""
    return model_of(agent).calls[request].input


def outputs(items: Sequence[Item]) -> list[tuple[str, Any]]:
    return [(item["call_id"], item["output"]) for item in items if item.get("type") == "function_call_output"]


def labels(items: Sequence[Item], kind: str) -> list[str]:
    return [item["call_id"] for item in items if item.get("type") == kind]


def assert_paired(items: Sequence[Item]) -> None:
    """Every call has one output behind it, and every output a call before it."""
    seen: set[str] = set()
    answered: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            assert item["call_id"] not in seen, f"two calls are named {item['call_id']}"
            seen.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in seen - answered, f"an output without its call: {item['call_id']}"
            answered.add(item["call_id"])
    assert seen == answered, f"calls without outputs: {seen - answered}"


async def go(agent: Agent[Any], given: Any, *, streamed: bool = False, **options: Any) -> RunResult:
    """Run to the next pause or to the end, streamed or not."""
    if not streamed:
        return await asyncio.wait_for(Runner.run(agent, given, **options), SECONDS)
    result = Runner.run_streamed(agent, given, **options)
    async with asyncio.timeout(SECONDS):
        async for _ in result.stream_events():
            pass
    return result


async def reloaded(agent: Agent[Any], state: RunState[Any] | RunResult) -> RunState[Any]:
    """The state as another process has it: through a string."""
    held = state.to_state() if isinstance(state, RunResult) else state
    return await RunState.from_string(agent, held.to_string())


async def approve_all(agent: Agent[Any], paused: RunResult, **options: Any) -> RunResult:
    """Until nothing waits any more: through a string, everything approved, and on."""
    for _ in range(20):
        if not paused.interruptions:
            return paused
        state = await reloaded(agent, paused)
        for item in state.get_interruptions():
            state.approve(item)
        paused = await go(agent, state, **options)
    raise AssertionError("the run does not come to its end")


def facts(held: RunState[Any] | RunResult) -> list[list[Any]]:
    """The facts of a run's log, each as the list that stands there."""
    state = held.to_state() if isinstance(held, RunResult) else held
    return [fact for line in state.to_json()["log"] for fact in line[1]]


def facts_in(held: RunState[Any] | RunResult, path: str) -> list[list[Any]]:
    """The facts of one nested run."""
    return [fact[2] for fact in facts(held) if fact[0] == "in" and fact[1] == path]

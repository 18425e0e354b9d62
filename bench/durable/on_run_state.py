"""openai-agents: a run that waits is its `RunState` as JSON in a column, in a queue of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.durable import own_queue
from bench.durable.own_queue import Job, Outcome, Queue
from bench.durable.script import DONE, FREE, GATED, effect, linger, next_call

CONFIG = RunConfig(tracing_disabled=True)
prepare = own_queue.prepare


class Scripted(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_rest: Any, **_more: Any) -> ModelResponse:
        items = [{"content": input}] if isinstance(input, str) else input
        done = sum(item.get("type") == "function_call_output" for item in items)
        asked = next_call(str(items[0]["content"]), done)
        if asked is None:
            text = ResponseOutputText(annotations=[], text=DONE, type="output_text")
            output: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            arguments = f'{{"order": "{asked.order}"}}'
            output = ResponseFunctionToolCall(
                name=asked.tool, arguments=arguments, call_id=f"c{done}", type="function_call"
            )
        return ModelResponse([output], Usage(requests=1), f"resp_{done}")

    def stream_response(self, *_request: Any, **_more: Any) -> Any:
        raise NotImplementedError


@function_tool(name_override=FREE)
async def look_up(order: str) -> str:
    return await _act(order)


@function_tool(name_override=GATED, needs_approval=True)
async def refund(order: str) -> str:
    return await _act(order)


async def _act(order: str) -> str:
    done = effect(order)
    if linger():
        await asyncio.sleep(linger())
    return done


AGENT: Agent[Any] = Agent("Bench", tools=[look_up, refund], model=Scripted())


async def visit(job: Job) -> Outcome:
    if job.state is None:
        result = await Runner.run(AGENT, job.run, max_turns=None, run_config=CONFIG)
    else:
        state: RunState[Any] = await RunState.from_string(AGENT, job.state)
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(AGENT, state, max_turns=None, run_config=CONFIG)
    if not result.interruptions:
        assert result.final_output == DONE, job.run
        return Outcome(None, None, result.final_output)
    (asked,) = result.interruptions
    return Outcome(str(asked.arguments).split('"')[3], result.to_state().to_string(), None)


async def alone(database: str, runs: Sequence[str]) -> None:
    queue = await own_queue.opened(database)
    for run in runs:
        await queue.start(run)
        job = await queue.take()
        assert job is not None
        await queue.put(job, await visit(job))
    await queue.close()


async def front(database: str) -> Queue:
    return await own_queue.opened(database)


async def work(database: str, concurrency: int, ready: asyncio.Event) -> None:
    queue = await own_queue.opened(database, listens=True)
    ready.set()
    await own_queue.serve(queue, visit, concurrency)

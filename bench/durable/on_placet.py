"""Placet: `placet worker` on PostgreSQL, a desk that drives on SQLite; a desk that only decides is the front."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from bench.durable.script import DONE, FREE, GATED, calls_of, effect, linger, next_call
from placet import Agent, ModelResponse, Runner, Usage, function_tool, open_store
from placet.desk import Desk
from placet.fleet.schema import migrate
from placet.fleet.worker import Worker
from placet.ports import ModelRequest, StreamPart
from placet.stores.postgres import PostgresStore
from placet.testing import assistant_message, function_call


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


class Scripted:
    leaves_input_alone = True

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        run = str(request.input[0]["content"])
        done = sum(item.get("type") == "function_call_output" for item in request.input)
        asked = next_call(run, done)
        output = (
            assistant_message(DONE)
            if asked is None
            else function_call(asked.tool, {"order": asked.order}, call_id=f"c{done}")
        )
        return ModelResponse([output], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


AGENT: Agent[Any] = Agent("Bench", tools=[look_up, refund], model=Scripted())


async def prepare(database: str) -> None:
    async with open_store(database) as store:
        if isinstance(store, PostgresStore):
            await migrate(store)


async def alone(database: str, runs: Sequence[str]) -> None:
    async with open_store(database) as store:
        for run in runs:
            result = await Runner.run(AGENT, run, store=store, max_turns=calls_of(run) + 2)
            assert result.final_output == DONE, run


class Front:
    def __init__(self, database: str) -> None:
        self.store = open_store(database)
        self.desk = Desk(self.store, agents=[AGENT], run=False)

    async def start(self, run: str) -> None:
        await self.desk.start("Bench", run, max_turns=calls_of(run) + 2)

    async def waiting(self) -> Mapping[str, str]:
        return {_order(each.arguments): f"{each.kind} {each.id}" for each in await self.desk.pending()}

    async def decide(self, asked: str) -> None:
        kind, _, request = asked.partition(" ")
        if kind == "in_doubt":  # after a kill: the witness saw that it happened
            await self.desk.decide(request, "respond", output="done", by="bench")
        else:
            await self.desk.decide(request, "approve", by="bench")

    async def ended(self) -> int:
        return (await self.store.numbers()).ended

    async def close(self) -> None:
        await self.store.close()


def _order(arguments: Any) -> str:
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    return str(given["order"])


async def front(database: str) -> Front:
    return Front(database)


async def work(database: str, concurrency: int, ready: asyncio.Event) -> None:
    async with open_store(database) as store:
        if isinstance(store, PostgresStore):
            worker = Worker(store, [AGENT], concurrency=concurrency, grace=1)
            working = asyncio.create_task(worker.run())
            await worker.engine.is_ready.wait()
            ready.set()
            await working
        else:
            async with Desk(store, agents=[AGENT], max_concurrent=concurrency):
                ready.set()
                await asyncio.Event().wait()

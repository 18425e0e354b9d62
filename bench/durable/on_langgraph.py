"""LangGraph with its saver for the database, a checkpoint after each step, in a queue of one's own."""

from __future__ import annotations

import asyncio
import operator
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"  # read when the packages below are loaded

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from bench.durable import own_queue
from bench.durable.own_queue import Job, Outcome, Queue, is_postgres, path_of
from bench.durable.script import DONE, FREE, GATED, effect, linger, next_call


class State(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


async def ask(state: State) -> dict[str, Any]:
    done = sum(isinstance(each, ToolMessage) for each in state["messages"])
    asked = next_call(str(state["messages"][0].content), done)
    if asked is None:
        return {"messages": [AIMessage(DONE)]}
    return {
        "messages": [AIMessage("", tool_calls=[{"name": asked.tool, "args": {"order": asked.order}, "id": f"c{done}"}])]
    }


async def look_up(state: State) -> dict[str, Any]:
    return {"messages": await _outputs(state)}


async def refund(state: State) -> dict[str, Any]:
    interrupt(state["messages"][-1].tool_calls[0]["args"]["order"])  # type: ignore[union-attr]
    return {"messages": await _outputs(state)}


async def _outputs(state: State) -> list[ToolMessage]:
    found = []
    for call in state["messages"][-1].tool_calls:  # type: ignore[union-attr]
        text = effect(call["args"]["order"])
        if linger():
            await asyncio.sleep(linger())
        found.append(ToolMessage(text, tool_call_id=call["id"]))
    return found


def _next(state: State) -> str:
    calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return str(calls[0]["name"]) if calls else END


def graph(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("model", ask)
    builder.add_node(FREE, look_up)
    builder.add_node(GATED, refund)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", _next, [FREE, GATED, END])
    builder.add_edge(FREE, "model")
    builder.add_edge(GATED, "model")
    return builder.compile(checkpointer=saver)


@asynccontextmanager
async def saver_of(database: str) -> AsyncIterator[Any]:
    if is_postgres(database):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(database, min_size=1, max_size=10, open=False, kwargs=options) as pool:
            yield AsyncPostgresSaver(pool)  # type: ignore[arg-type]
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(path_of(database) + "-graph") as saver:
            await saver.conn.execute("PRAGMA synchronous = FULL")
            yield saver


async def prepare(database: str) -> None:
    await own_queue.prepare(database)
    async with saver_of(database) as saver:
        await saver.setup()


def _visit(compiled: Any) -> own_queue.Visit:
    async def visit(job: Job) -> Outcome:
        """A run whose worker died goes on from its last checkpoint."""
        thread = {"configurable": {"thread_id": job.run}, "recursion_limit": 1000}
        is_known = job.is_decided or (await compiled.aget_state(thread)).next
        start: Any = {"messages": [HumanMessage(job.run)]}
        given = Command(resume=True) if job.is_decided else None if is_known else start
        result = await compiled.ainvoke(given, thread)
        waiting = result.get("__interrupt__")
        if waiting:
            return Outcome(str(waiting[0].value), None, None)
        text = str(result["messages"][-1].content)
        assert text == DONE, job.run
        return Outcome(None, None, text)

    return visit


async def alone(database: str, runs: Sequence[str]) -> None:
    async with saver_of(database) as saver:
        compiled = graph(saver)
        for run in runs:
            thread = {"configurable": {"thread_id": run}, "recursion_limit": 1000}
            result = await compiled.ainvoke({"messages": [HumanMessage(run)]}, thread)
            assert result["messages"][-1].content == DONE, run


async def front(database: str) -> Queue:
    return await own_queue.opened(database)


async def work(database: str, concurrency: int, ready: asyncio.Event) -> None:
    queue = await own_queue.opened(database, listens=True)
    async with saver_of(database) as saver:
        ready.set()
        await own_queue.serve(queue, _visit(graph(saver)), concurrency)

"""langgraph, by its public API, tracing off: a graph written by hand with a node for the model, one for the tools that
run at once and one that interrupts for the others; a run that waits is its checkpoint, carried by the library's
own serializer."""

from __future__ import annotations

import asyncio
import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count, groupby
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"  # read when the packages below are loaded

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Durability, GraphOutput, interrupt

from bench.work import FREE, GATED, Effects, Item, Script

IMPORT = "langgraph.graph, langgraph.checkpoint.memory, langgraph.types"

durability: Durability | None = None
"""The library's own choice: a checkpoint after every step. on_langgraph_exit makes another one."""

NO = "A person said no."
KIND = "msgpack"
"""What the serializer calls its format."""

_threads = count()


def versions() -> Mapping[str, str]:
    return {"langgraph": version("langgraph"), "langgraph-checkpoint": version("langgraph-checkpoint")}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


@dataclass
class GraphAgent:
    graph: Any
    saver: InMemorySaver


@dataclass
class Paused:
    thread: dict[str, Any]
    waiting: list[str]
    decisions: dict[str, bool] = field(default_factory=dict)


@dataclass
class Handle:
    agent: GraphAgent
    thread: dict[str, Any]
    result: GraphOutput[Any]


def agent(script: Script, effects: Effects) -> GraphAgent:
    """The model's answers are the library's own messages, made beforehand."""
    answers = iter([_message(answer) for answer in script])
    tools = _tools(effects)

    async def ask(_state: State) -> dict[str, Any]:
        answer = next(answers)
        if not answer.tool_calls:
            write = get_stream_writer()
            for word in answer.text.split(" "):
                write(word)
        return {"messages": [answer]}

    async def look_up(state: State) -> dict[str, Any]:
        return {"messages": await _outputs(tools, _calls(state, FREE))}

    async def refund(state: State) -> dict[str, Any]:
        waiting = _calls(state, GATED)
        decisions = interrupt(waiting)
        refused = [ToolMessage(NO, tool_call_id=call["id"]) for call in waiting if not decisions[call["id"]]]
        return {"messages": refused + await _outputs(tools, [call for call in waiting if decisions[call["id"]]])}

    builder = StateGraph(State)
    builder.add_node("model", ask)
    builder.add_node(FREE, look_up)
    builder.add_node(GATED, refund)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", _next, [FREE, GATED, END])
    builder.add_edge(FREE, "model")
    builder.add_edge(GATED, "model")
    saver = InMemorySaver()
    return GraphAgent(builder.compile(checkpointer=saver), saver)


def _next(state: State) -> list[str]:
    return sorted({call["name"] for call in state["messages"][-1].tool_calls}) or [END]


def _message(answer: Sequence[Item]) -> AIMessage:
    calls = [
        {"name": item["name"], "args": json.loads(item["arguments"]), "id": item["call_id"]}
        for item in answer
        if item["type"] == "function_call"
    ]
    text = "".join(part["text"] for item in answer for part in item.get("content", ()))
    return AIMessage(text, tool_calls=calls)


def _calls(state: State, name: str) -> list[ToolCall]:
    message = next(each for each in reversed(state["messages"]) if isinstance(each, AIMessage))
    return [call for call in message.tool_calls if call["name"] == name]


async def _outputs(tools: Mapping[str, Any], calls: Sequence[ToolCall]) -> list[ToolMessage]:
    return await asyncio.gather(*(tools[call["name"]].ainvoke(call) for call in calls))


_made: list[tuple[Effects, dict[str, Any]]] = []


def _tools(effects: Effects) -> dict[str, Any]:
    """Tools are declared once, as in any program, and shared by the agents of a work."""
    if not _made or _made[-1][0] is not effects:

        @tool(FREE)
        async def look_up(order: str) -> str:
            """Look an order up."""
            effects.count += 1
            return f"done {order}"

        @tool(GATED)
        async def refund(order: str) -> str:
            """Refund an order."""
            effects.count += 1
            return f"done {order}"

        _made[:] = [(effects, {FREE: look_up, GATED: refund})]
    return _made[-1][1]


def _new_thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": f"t{next(_threads)}", "checkpoint_ns": ""}, "recursion_limit": 1_000_000}


async def run(agent: GraphAgent, text: str) -> Handle:
    return await _go_on(agent, {"messages": [HumanMessage(text)]}, _new_thread())


async def _go_on(agent: GraphAgent, given: Any, thread: dict[str, Any]) -> Handle:
    return Handle(agent, thread, await agent.graph.ainvoke(given, thread, durability=durability, version="v2"))


def output(handle: Handle) -> str | None:
    return None if handle.result.interrupts else handle.result.value["messages"][-1].text


def waiting(handle: Handle) -> int:
    return sum(len(each.value) for each in handle.result.interrupts)


def store(handle: Handle) -> bytes:
    saver = handle.agent.saver
    found = saver.get_tuple(handle.thread)
    assert found is not None
    waiting = [call["id"] for each in handle.result.interrupts for call in each.value]
    kind, data = saver.serde.dumps_typed((found.checkpoint, found.metadata, found.pending_writes, waiting))
    assert kind == KIND
    return data


async def load(agent: GraphAgent, data: bytes) -> Paused:
    """Into a thread that nobody knows yet, as in another process."""
    checkpoint, metadata, writes, waiting = agent.saver.serde.loads_typed((KIND, data))
    thread = _new_thread()
    saved = agent.saver.put(thread, checkpoint, metadata, checkpoint["channel_versions"])
    for task, of_task in groupby(writes, key=operator.itemgetter(0)):
        agent.saver.put_writes(saved, [(channel, value) for _, channel, value in of_task], task)
    return Paused(thread, waiting)


def approve_all(state: Paused) -> None:
    state.decisions = dict.fromkeys(state.waiting, True)


async def resume(agent: GraphAgent, state: Paused) -> Handle:
    return await _go_on(agent, Command(resume=state.decisions), state.thread)


async def stream(agent: GraphAgent, text: str) -> int:
    arrived = 0
    given = {"messages": [HumanMessage(text)]}
    async for _ in agent.graph.astream(given, _new_thread(), stream_mode="custom", durability=durability):
        arrived += 1
    return arrived

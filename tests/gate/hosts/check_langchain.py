"""The gate with the real LangChain and LangGraph, their model scripted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt

from placet import UserError
from placet.gate import Gate, GateTimeout
from placet.gate.langchain import GateMiddleware
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import (
    Bank,
    Calls,
    HostScenarios,
    Scene,
    WaitingScenarios,
    plain_gate,
    scene_in,
    together,
)


class Scripted(BaseChatModel):
    """Makes its calls at once; after their outputs it says goodbye."""

    calls: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_more: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_more: Any, **_given: Any) -> ChatResult:
        calls = [{"name": "refund", "args": dict(given), "id": id_} for id_, given in self.calls]
        is_first = not isinstance(messages[-1], ToolMessage)
        answer = AIMessage("", tool_calls=calls) if is_first else AIMessage("bye")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def agent_of(bank: Bank, calls: Calls, gate: Any, saver: Any = None, **options: Any) -> Any:
    async def refund(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    def refund_plainly(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    tool = StructuredTool.from_function(refund_plainly, coroutine=refund, name="refund")
    return create_agent(
        Scripted(calls=list(calls)),
        tools=[tool],
        middleware=[GateMiddleware(gate, **options)],
        checkpointer=saver or InMemorySaver(),
    )


GO = {"messages": [("user", "go")]}


def config_of(session: str) -> Any:
    return {"configurable": {"thread_id": session}}


def outputs(result: Any) -> dict[str, str]:
    return {each.tool_call_id: each.content for each in result["messages"] if isinstance(each, ToolMessage)}


class TestInline(WaitingScenarios):
    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        return outputs(await agent_of(bank, calls, gate, **options).ainvoke(GO, config_of(session)))

    async def test_a_model_that_repeats_an_id_in_one_conversation_makes_another_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            agent = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate)
            for _ in range(2):
                await together(scene.decide("approve"), agent.ainvoke(GO, config_of("chat")))

            assert scene.bank.payments() == ["7 100", "7 100"]


class TestPaused(HostScenarios):
    """The graph is interrupted, kept in a file, and another process resumes it."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        options["pauses"] = True
        config = config_of(session)
        saver = InMemorySaver()
        result = await agent_of(bank, calls, gate, saver, **options).ainvoke(GO, config)
        while waiting := result.get("__interrupt__"):
            middleware = GateMiddleware(gate, **options)
            later = agent_of(bank, calls, gate, saver, **options)
            result = await later.ainvoke(await middleware.settle(waiting), config)
        return outputs(result)

    async def test_what_the_graph_is_resumed_with_opens_nothing(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene, AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
            agent = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate, saver, pauses=True)
            first = await agent.ainvoke(GO, config_of("chat"))
            with pytest.raises(GateTimeout):
                await GateMiddleware(scene.gate).settle(first["__interrupt__"], timeout=0.0)
            again = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config_of("chat"))

            assert again["__interrupt__"]
            assert len(await scene.asked()) == 1
            assert scene.bank.payments() == []

            await scene.decide("approve")
            last = await agent.ainvoke(
                await GateMiddleware(scene.gate).settle(again["__interrupt__"]), config_of("chat")
            )

            assert outputs(last) == {"c1": "paid 100 for 7"}
            assert scene.bank.payments() == ["7 100"]


class TestPlain(HostScenarios):
    """`invoke`, with a SyncGate, in a thread of its own."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        def run() -> dict[str, str]:
            with plain_gate(gate, bank) as plain:
                return outputs(agent_of(bank, calls, plain, **options).invoke(GO, config_of(session)))

        return await asyncio.to_thread(run)


async def test_a_tool_that_pauses_the_graph_itself_is_asked_about_and_the_graph_gets_its_signal(tmp_path: Path) -> None:
    async def refund(order: str) -> str:
        """Pay money back."""
        return str(interrupt("how much?"))

    async with scene_in(tmp_path) as scene:
        agent = create_agent(
            Scripted(calls=[("c1", {"order": "7"})]),
            tools=[StructuredTool.from_function(coroutine=refund, name="refund", description="Pay.")],
            middleware=[GateMiddleware(scene.gate)],
            checkpointer=InMemorySaver(),
        )
        _, result = await together(scene.decide("approve"), agent.ainvoke(GO, config_of("chat")))
        assert [each.value for each in result["__interrupt__"]] == ["how much?"]
        (asked,), result = await together(
            scene.decide("approve"), agent.ainvoke(Command(resume="a lot"), config_of("chat"))
        )

        assert asked.kind == "in_doubt"
        assert outputs(result) == {"c1": "a lot"}


async def test_tools_that_the_provider_executes_are_refused_by_name(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        for passes in ((), ("web_search",)):
            agent = create_agent(
                Scripted(calls=[]),
                tools=[{"type": "web_search"}],
                middleware=[GateMiddleware(scene.gate, passes=passes)],
            )
            if passes:
                await agent.ainvoke(GO)
            else:
                with pytest.raises(UserError, match="'web_search'"):
                    await agent.ainvoke(GO)


async def test_without_a_thread_or_with_the_other_kind_of_gate_nothing_runs(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        calls = [("c1", {"order": "7"})]
        for run in (_without_thread, _plainly):
            with pytest.raises(UserError):
                await run(scene, calls)

        assert scene.bank.payments() == []


async def _without_thread(scene: Scene, calls: Calls) -> None:
    agent = agent_of(scene.bank, calls, scene.gate)
    agent.checkpointer = None
    await agent.ainvoke(GO)


async def _plainly(scene: Scene, calls: Calls) -> None:
    await asyncio.to_thread(agent_of(scene.bank, calls, scene.gate).invoke, GO, config_of("chat"))


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-langchain.md", "python on-host") == 2

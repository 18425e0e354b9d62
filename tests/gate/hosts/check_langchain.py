"""The gate with the real LangChain and LangGraph, their model scripted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, Interrupt, interrupt

from placet import UserError
from placet.gate import Gate, GateTimeout, SyncGate
from placet.gate.langchain import GateMiddleware
from placet.gate.langchain_review import ReviewBridge
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import (
    Bank,
    Calls,
    HostScenarios,
    Scene,
    WaitingScenarios,
    ended,
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


# -- the bridge for LangChain's own middleware -------------------------------------------------------------------------


def reviewed(bank: Bank, calls: Calls, mode: Any, *, allowed: Any = None) -> Any:
    on = True if allowed is None else {"allowed_decisions": allowed}
    return create_agent(
        Scripted(calls=list(calls)),
        tools=[refund_tool(bank)],
        middleware=[HumanInTheLoopMiddleware({"refund": on}, interrupt_mode=mode)],
        checkpointer=InMemorySaver(),
    )


def refund_tool(bank: Bank) -> StructuredTool:
    async def refund(order: str, cents: int = 100) -> str:
        return bank.refund(order, cents)

    return StructuredTool.from_function(coroutine=refund, name="refund", description="Pay money back.")


@contextlib.asynccontextmanager
async def bridge_in(folder: Path) -> AsyncIterator[tuple[Scene, ReviewBridge]]:
    async with scene_in(folder) as scene, Gate(scene.url, guest="bot", source="host", reports=False) as gate:
        yield scene, ReviewBridge(gate, tools=[refund_tool(scene.bank)])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_the_middleware_of_langchain_gets_the_four_decisions_of_the_desk(tmp_path: Path, mode: str) -> None:
    async with bridge_in(tmp_path) as (scene, bridge):
        agent = reviewed(scene.bank, [(f"c{n}", {"order": str(n)}) for n in range(1, 5)], mode)
        paused = await agent.ainvoke(GO, config_of("chat"))

        async def decide() -> None:
            first, second, third, fourth = await scene.asked(4)
            await scene.desk.decide(fourth.id, "respond", output="later", by="ops")
            await scene.desk.decide(second.id, "reject", message="Not this one.", by="ops")
            await scene.desk.decide(third.id, "edit", arguments={"order": "3", "cents": 1}, by="ops")
            await scene.desk.decide(first.id, "approve", by="ops")

        _, resume = await together(decide(), bridge.settle(paused["__interrupt__"], session="chat"))
        read = outputs(await agent.ainvoke(resume, config_of("chat")))

        assert scene.bank.payments() == ["1 100", "3 1"]
        assert (read["c1"], read["c4"]) == ("paid 100 for 1", "later")
        assert "Not this one." in read["c2"]
        assert "paid 1 for 3" in read["c3"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_the_bridge_claims_nothing_while_something_waits_and_no_call_twice(tmp_path: Path, mode: str) -> None:
    async with bridge_in(tmp_path) as (scene, bridge):
        agent = reviewed(scene.bank, [("c1", {"order": "1"}), ("c2", {"order": "2"})], mode)
        paused = await agent.ainvoke(GO, config_of("chat"))
        with pytest.raises(GateTimeout):
            await bridge.settle(paused["__interrupt__"], session="chat", timeout=0.0)
        first, second = await scene.asked(2)
        await scene.desk.decide(first.id, "approve", by="ops")
        with pytest.raises(GateTimeout):
            await bridge.settle(paused["__interrupt__"], session="chat", timeout=0.0)
        await scene.desk.decide(second.id, "approve", by="ops")
        once = await bridge.settle(paused["__interrupt__"], session="chat")
        again = await bridge.settle(paused["__interrupt__"], session="chat")

        assert _types(once) == ["approve", "approve"]
        assert _types(again) == ["reject", "reject"]
        assert {outcome for outcome, _ in await ended(scene)} == {"released"}


async def test_a_decision_that_the_middleware_would_not_take_is_a_no(tmp_path: Path) -> None:
    async with bridge_in(tmp_path) as (scene, bridge):
        for mode in ("batched", "per_call"):
            agent = reviewed(scene.bank, [("c1", {"order": mode})], mode, allowed=["approve", "reject"])
            paused = await agent.ainvoke(GO, config_of(mode))
            edit = scene.decide("edit", arguments={"order": "8", "cents": 1})
            _, resume = await together(edit, bridge.settle(paused["__interrupt__"], session=mode))
            read = outputs(await agent.ainvoke(resume, config_of(mode)))

            assert "«edit» is not among" in read["c1"]
        deaf = reviewed(scene.bank, [("c1", {"order": "7"})], "batched", allowed=["approve"])
        paused = await deaf.ainvoke(GO, config_of("deaf"))
        with pytest.raises(UserError, match="reject"):
            await bridge.settle(paused["__interrupt__"], session="deaf")

        assert scene.bank.payments() == []
        assert await scene.desk.pending() == []


async def test_the_bridge_leaves_interrupts_of_others_alone_and_wants_a_gate_that_does_not_report(
    tmp_path: Path,
) -> None:
    async with bridge_in(tmp_path) as (scene, bridge):
        other = await bridge.settle([Interrupt("how much?", id="i1")], session="chat")
        with pytest.raises(UserError, match="reports=False"):
            ReviewBridge(scene.gate)

        assert other.resume == {}


async def test_the_bridge_serves_plain_programs_too(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:

        def run() -> dict[str, str]:
            with SyncGate(scene.url, guest="bot", source="host", reports=False) as plain:
                agent = create_agent(
                    Scripted(calls=[("c1", {"order": "7"})]),
                    tools=[StructuredTool.from_function(plain_refund, name="refund", description="Pay.")],
                    middleware=[HumanInTheLoopMiddleware({"refund": True})],
                    checkpointer=InMemorySaver(),
                )
                paused = agent.invoke(GO, config_of("chat"))
                resume = ReviewBridge(plain).settle_plainly(paused["__interrupt__"], session="chat")
                return outputs(agent.invoke(resume, config_of("chat")))

        def plain_refund(order: str) -> str:
            return scene.bank.refund(order, 5)

        _, read = await together(scene.decide("approve"), asyncio.to_thread(run))

        assert read == {"c1": "paid 5 for 7"}


def _types(command: Command[Any]) -> list[str]:
    told = command.resume.values()  # type: ignore[union-attr]
    flat = [one for each in told for one in each.get("decisions", [each])]
    return [one["type"] for one in flat]


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-langchain.md", "python on-host") == 3

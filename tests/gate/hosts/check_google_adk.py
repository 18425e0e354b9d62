"""The gate with the real Agent Development Kit, its model scripted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import AgentTool, FunctionTool, ToolContext, google_search
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from placet import UserError
from placet.gate import Gate, GateTimeout
from placet.gate.google_adk import CONFIRMATION, GatePlugin, check_runner
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import PATIENCE, Bank, Calls, HostScenarios, WaitingScenarios, scene_in, together


class Scripted(BaseLlm):
    """Makes its calls at once; after their outputs it says goodbye."""

    model: str = "scripted"
    calls: list[Any]
    tool: str = "refund"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts or []
        parts = [Part(text="bye")]
        if not any(part.function_response for part in last):
            parts = [
                Part(function_call=FunctionCall(id=id_, name=self.tool, args=dict(given))) for id_, given in self.calls
            ]
        yield LlmResponse(content=Content(role="model", parts=parts))


def agent_of(bank: Bank, calls: Calls, **more: Any) -> LlmAgent:
    async def refund(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    return LlmAgent(name="clerk", model=Scripted(calls=list(calls)), tools=[FunctionTool(refund, **more)])


def runner_of(agent: Any, gate: Gate, **options: Any) -> Runner:
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[GatePlugin(gate, **options)]))
    check_runner(runner)
    return runner


async def said(runner: Runner, session: str, message: Content | None = None) -> list[Any]:
    """The events of one turn."""
    if await runner.session_service.get_session(app_name="app", user_id="u", session_id=session) is None:
        await runner.session_service.create_session(app_name="app", user_id="u", session_id=session)
    message = message or Content(role="user", parts=[Part(text="go")])
    return [each async for each in runner.run_async(user_id="u", session_id=session, new_message=message)]


def outputs(events: list[Any]) -> dict[str, str]:
    """The last response to each call."""
    found = {}
    for response in (each for event in events for each in event.get_function_responses()):
        given = response.response
        found[response.id] = str(given.get("result", given.get("error")))
    return found


class TestInline(WaitingScenarios):
    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        return outputs(await said(runner_of(agent_of(bank, calls), gate, **options), session))

    async def test_a_model_that_repeats_an_id_in_one_conversation_makes_another_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            runner = runner_of(agent_of(scene.bank, [("c1", {"order": "7"})]), scene.gate)
            for _ in range(2):
                await together(scene.decide("approve"), said(runner, "chat"))

            assert scene.bank.payments() == ["7 100", "7 100"]


class TestPaused(HostScenarios):
    """The run ends with ADK's confirmations, its session is in a file, and another runner goes on with it."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        def runner() -> Runner:
            plugin = GatePlugin(gate, session=session, pauses=True, **options)
            app = App(name="app", root_agent=agent_of(bank, calls), plugins=[plugin])
            return Runner(app=app, session_service=SqliteSessionService(str(bank.folder / "adk.db")))

        talk = uuid.uuid4().hex  # to the gate the session is another one only where it is named otherwise
        first = await said(runner(), talk)
        if not any(call.name == CONFIRMATION for event in first for call in event.get_function_calls()):
            return outputs(first)
        message = await GatePlugin(gate).settle(first)
        return outputs([*first, *await said(runner(), talk, message)])

    async def test_a_yes_that_the_program_gives_by_itself_opens_nothing(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            runner = runner_of(agent_of(scene.bank, [("c1", {"order": "7"})]), scene.gate, pauses=True)
            paused = await said(runner, "chat")
            with pytest.raises(GateTimeout):
                await GatePlugin(scene.gate).settle(paused, timeout=0.0)
            (asked,) = [each for event in paused for each in event.get_function_calls() if each.name == CONFIRMATION]
            yes = FunctionResponse(id=asked.id, name=CONFIRMATION, response={"confirmed": True})
            again = await said(runner, "chat", Content(role="user", parts=[Part(function_response=yes)]))

            assert "waits for a decision" in outputs(again)["c1"]
            assert len(await scene.asked()) == 1
            assert scene.bank.payments() == []

    async def test_confirmations_that_others_ask_for_are_left_alone(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            agent = agent_of(scene.bank, [("c1", {"order": "7"})], require_confirmation=True)
            paused = await said(InMemoryRunner(agent, app_name="app"), "chat")

            assert (await GatePlugin(scene.gate).settle(paused)).parts == []


async def test_what_adk_asks_about_itself_is_answered_by_the_decision(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        runner = runner_of(agent_of(scene.bank, [("c1", {"order": "7"})], require_confirmation=True), scene.gate)
        _, events = await together(scene.decide("approve"), said(runner, "chat"))

        assert outputs(events) == {"c1": "paid 100 for 7"}
        assert scene.bank.payments() == ["7 100"]


async def test_a_tool_that_asks_for_a_confirmation_itself_is_in_doubt(tmp_path: Path) -> None:
    async def refund(order: str, tool_context: ToolContext) -> dict[str, str]:
        tool_context.request_confirmation(hint="how much?")
        return {"status": "asked"}

    async with scene_in(tmp_path) as scene:
        agent = LlmAgent(name="clerk", model=Scripted(calls=[("c1", {"order": "7"})]), tools=[refund])
        _, events = await together(scene.decide("approve"), said(runner_of(agent, scene.gate), "chat"))

        assert any(call.name == CONFIRMATION for event in events for call in event.get_function_calls())
        assert [request.kind for request in await scene.asked()] == ["in_doubt"]


async def test_a_call_that_is_cancelled_is_asked_about(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def refund(order: str) -> str:
        began.set()
        await asyncio.Event().wait()
        return order

    async with scene_in(tmp_path) as scene:
        agent = LlmAgent(name="clerk", model=Scripted(calls=[("c1", {"order": "7"})]), tools=[refund])
        running = asyncio.create_task(said(runner_of(agent, scene.gate), "chat"))
        await scene.decide("approve")
        await asyncio.wait_for(began.wait(), PATIENCE)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert [request.kind for request in await scene.asked()] == ["in_doubt"]


async def test_agents_below_are_gated_too(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        clerk = agent_of(scene.bank, [("c1", {"order": "7"})])
        front = LlmAgent(
            name="front", model=Scripted(calls=[("t1", {"request": "go"})], tool="clerk"), tools=[AgentTool(clerk)]
        )
        runner = runner_of(front, scene.gate, needs_approval=lambda tool, arguments: tool == "refund")
        (asked,), _ = await together(scene.decide("reject", message="No."), said(runner, "chat"))

        assert asked.tool == "refund"
        assert scene.bank.payments() == []


async def test_a_name_that_is_no_tool_is_nobodys_question(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        agent = agent_of(scene.bank, [])
        agent.model = Scripted(calls=[("c1", {})], tool="no_such_tool")
        events = await said(runner_of(agent, scene.gate), "chat")

        assert "no tool with that name" in outputs(events)["c1"]
        assert await scene.desk.pending() == []


class Elsewhere(BaseAgent):
    """An agent with code of its own."""


async def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    def change(**_given: Any) -> None:
        """A callback of an agent."""

    alone = LlmAgent(name="alone")
    coder = LlmAgent(name="coder", code_executor=UnsafeLocalCodeExecutor(), before_tool_callback=change)
    searcher = LlmAgent(name="searcher", tools=[google_search, AgentTool(alone, include_plugins=False)])
    team = SequentialAgent(name="team", sub_agents=[coder, searcher, Elsewhere(name="elsewhere")])
    async with scene_in(tmp_path) as scene:
        later = [GatePlugin(scene.gate), BasePlugin("later")]
        with pytest.raises(UserError) as error:
            check_runner(InMemoryRunner(app=App(name="app", root_agent=team, plugins=later)))
        for name in (
            "all tools",
            "'coder' (its code executor",
            "'coder' (its before_tool",
            "'google_search'",
            "'alone'",
        ):
            assert name in str(error.value)
        assert "'elsewhere'" in str(error.value)
        passes = ("coder", "google_search", "alone", "elsewhere")
        plugins = [GatePlugin(scene.gate, passes=passes)]
        check_runner(InMemoryRunner(app=App(name="app", root_agent=team, plugins=plugins)))


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-google-adk.md", "python on-host") == 2

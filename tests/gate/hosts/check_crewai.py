"""The gate with the real CrewAI, its model scripted."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.hooks import clear_all_tool_call_hooks
from crewai.hooks.dispatch import InterceptionPoint, register, unregister
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool

from placet import UserError
from placet.gate import Gate, SyncGate
from placet.gate.crewai import GateHooks, check_crew
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import Bank, Calls, Scene, WaitingScenarios, plain_gate, scene_in, together


class Scripted(BaseLLM):
    """Makes its calls at once; after their outputs it says goodbye. `read` has what it was told, by call id."""

    calls: list[Any]
    read: dict[str, str]
    tool: str = "refund"

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, *_args: Any, **_more: Any) -> Any:
        told = {each["tool_call_id"]: str(each["content"]) for each in messages if each["role"] == "tool"}
        self.read.update(told)
        if told:
            return "bye"
        return [
            {"id": id_, "function": {"name": self.tool, "arguments": json.dumps(dict(given))}}
            for id_, given in self.calls
        ]


class InText(Scripted):
    """A model that writes its calls as text."""

    def supports_function_calling(self) -> bool:
        return False

    def call(self, messages: Any, *_args: Any, **_more: Any) -> Any:
        (_, given), *_ = self.calls
        told = [str(each["content"]) for each in messages if "was not run" in each["content"]]
        if told:
            self.read["c1"] = told[-1]
            return "Thought: I now know the final answer\nFinal Answer: bye"
        return f"Thought: pay\nAction: {self.tool}\nAction Input: {json.dumps(given)}\nObservation:"


class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay money back."
    bank: Any

    def _run(self, order: str, cents: int = 100) -> str:
        paid: str = self.bank.refund(order, cents)
        return paid


def crew_of(bank: Bank, model: BaseLLM, **more: Any) -> Crew:
    clerk = Agent(role="clerk", goal="pay", backstory="none", llm=model, tools=[Refund(bank=bank)], **more)
    task = Task(description="go", expected_output="bye", agent=clerk)
    return Crew(agents=[clerk], tasks=[task])


async def run(gate: Gate, bank: Bank, model: Scripted, session: str, **options: Any) -> dict[str, str]:
    def kick_off() -> dict[str, str]:
        with plain_gate(gate, bank) as plain:
            crew = crew_of(bank, model)
            with GateHooks(plain, crew, session=session, **options):
                crew.kickoff()
        return model.read

    return await asyncio.to_thread(kick_off)


def model_of(calls: Calls, kind: type[Scripted] = Scripted) -> Scripted:
    return kind(model="scripted", calls=[list(each) for each in calls], read={})


class TestInline(WaitingScenarios):
    FAILED = "the bank is closed"

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        return await run(gate, bank, model_of(calls), session, **options)

    async def test_an_equal_call_later_in_the_conversation_is_another_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:

            def kick_off() -> None:
                with plain_gate(scene.gate, scene.bank) as plain, GateHooks(plain, session="chat"):
                    for _ in range(2):
                        crew_of(scene.bank, model_of([("c1", {"order": "7"})])).kickoff()

            async def decide() -> None:
                for _ in range(2):
                    await scene.decide("approve")

            await together(decide(), asyncio.to_thread(kick_off))

            assert scene.bank.payments() == ["7 100", "7 100"]


async def test_an_error_of_the_gate_itself_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CrewAI swallows what a hook raises, and runs the call: so it must be CrewAI's own abort."""

    def broken(*_args: Any) -> None:
        raise ZeroDivisionError

    async with scene_in(tmp_path) as scene:
        monkeypatch.setattr(GateHooks, "_identity", broken)
        read = await run(scene.gate, scene.bank, model_of([("c1", {"order": "7"})]), "chat")

        assert "was not run" in read["c1"]
        assert scene.bank.payments() == []


async def test_a_model_that_writes_its_calls_as_text_executes_nothing(tmp_path: Path) -> None:
    """CrewAI would run a tool that raises a second time, under one yes."""
    async with scene_in(tmp_path) as scene:
        read = await run(
            scene.gate, scene.bank, model_of([("c1", {"order": "fails"})], InText), "chat", needs_approval=False
        )

        assert "the model writes its calls as text" in read["c1"]
        assert scene.bank.payments() == []
        assert await scene.desk.pending() == []


async def test_behind_a_hook_that_could_change_the_call_nothing_runs(tmp_path: Path) -> None:
    def later(context: Any) -> None:
        context.tool_input["cents"] = 1_000_000

    async with scene_in(tmp_path) as scene:
        model = model_of([("c1", {"order": "7"})])

        def kick_off() -> None:
            with plain_gate(scene.gate, scene.bank) as plain, GateHooks(plain, session="chat"):
                register(InterceptionPoint.PRE_TOOL_CALL, later)
                try:
                    crew_of(scene.bank, model).kickoff()
                finally:
                    unregister(InterceptionPoint.PRE_TOOL_CALL, later)

        await asyncio.to_thread(kick_off)

        assert "a hook that stands after the gate" in model.read["c1"]
        assert scene.bank.payments() == []


async def test_calls_of_other_crews_and_of_other_threads_are_gated_too(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        model = model_of([("c1", {"order": "7"})])

        def kick_off() -> None:
            with plain_gate(scene.gate, scene.bank) as plain, GateHooks(plain):
                thread = threading.Thread(target=crew_of(scene.bank, model).kickoff)
                thread.start()
                thread.join()

        await together(scene.decide("reject", message="No."), asyncio.to_thread(kick_off))

        assert "No." in model.read["c1"]
        assert scene.bank.payments() == []


async def test_kickoff_async_waits_in_a_thread_of_its_own(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        model = model_of([("c1", {"order": "7"})])
        with plain_gate(scene.gate, scene.bank) as plain, GateHooks(plain, session="chat"):
            await together(scene.decide("approve"), crew_of(scene.bank, model).kickoff_async())

        assert scene.bank.payments() == ["7 100"]


class Elsewhere(BaseAgent):
    """An agent that another framework runs."""

    def execute_task(self, *_args: Any, **_more: Any) -> str:
        return ""

    async def aexecute_task(self, *_args: Any, **_more: Any) -> str:
        return ""

    def create_agent_executor(self, tools: Any = None) -> None:
        """None is needed."""

    def get_delegation_tools(self, agents: Any) -> list[Any]:
        return []

    def get_platform_tools(self, apps: Any) -> list[Any]:
        return []

    def get_mcp_tools(self, mcps: Any) -> list[Any]:
        return []


async def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    class Searching(Scripted):
        builtin_tools: tuple[str, ...] = ("web_search",)

    async with scene_in(tmp_path) as scene:
        plain = plain_gate(scene.gate, scene.bank)
        cached = crew_of(scene.bank, model_of([]))
        cached.cache = True
        elsewhere = Elsewhere(role="elsewhere", goal="none", backstory="none")
        for crew, name in (
            (crew_of(scene.bank, model_of([], Searching)), r"'clerk' \(the provider executes web_search\)"),
            (crew_of(scene.bank, model_of([]), cache=True), r"'clerk' \(its cache"),
            (cached, r"'clerk' \(its cache"),
            (Crew(agents=[elsewhere], tasks=[]), r"'elsewhere' \(a Elsewhere"),
        ):
            with pytest.raises(UserError, match=name):
                GateHooks(plain, crew)
            check_crew(crew, passes=("clerk", "elsewhere"))


async def test_a_second_gate_in_the_process_and_another_kind_of_gate_are_refused(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        with pytest.raises(UserError, match="SyncGate"):
            GateHooks(scene.gate)  # type: ignore[arg-type]
        with plain_gate(scene.gate, scene.bank) as plain, GateHooks(plain):  # noqa: SIM117
            with pytest.raises(UserError, match="already"):
                GateHooks(SyncGate(scene.url, guest="bot")).__enter__()


async def test_a_hook_that_somebody_took_out_is_told_of(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        with plain_gate(scene.gate, scene.bank) as plain:
            with pytest.raises(UserError, match="taken out"), GateHooks(plain):
                clear_all_tool_call_hooks()
            with GateHooks(plain):
                """It can be entered again."""


async def test_a_tool_that_passes_by_name_is_not_asked_about(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        read = await run(scene.gate, scene.bank, model_of([("c1", {"order": "7"})]), "chat", passes=("refund",))

        assert read == {"c1": "paid 100 for 7"}
        assert await _asked_ever(scene) == 0


async def _asked_ever(scene: Scene) -> int:
    return len((await scene.desk.runs()).rows)


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-crewai.md", "python on-host") == 1

"""The gate with the real Pydantic AI, its model scripted."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.tools import ToolApproved, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

from placet import UserError
from placet.gate import Gate, GateTimeout
from placet.gate.pydantic_ai import GatedToolset, check_agent
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import LEASE, Bank, Calls, HostScenarios, WaitingScenarios, scene_in, together


def model_of(calls: Calls, tool: str = "refund") -> FunctionModel:
    """Makes its calls at once; after their outputs it says goodbye."""

    def answer(messages: list[ModelMessage], _info: Any) -> ModelResponse:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        if any(isinstance(part, ToolReturnPart | RetryPromptPart) for part in last.parts):
            return ModelResponse([TextPart("bye")])
        return ModelResponse([ToolCallPart(tool, dict(given), tool_call_id=id_) for id_, given in calls])

    return FunctionModel(answer)


def agent_of(bank: Bank, calls: Calls, gate: Gate, **options: Any) -> tuple[Agent[Any, Any], GatedToolset]:
    async def refund(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    toolset = GatedToolset(FunctionToolset([refund]), gate, **options)
    agent = Agent(model_of(calls), toolsets=[toolset], output_type=[str, DeferredToolRequests])
    check_agent(agent)
    return agent, toolset


def outputs(result: Any) -> dict[str, str]:
    parts = [part for message in result.all_messages() for part in message.parts]
    return {
        part.tool_call_id: part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        for part in parts
        if isinstance(part, ToolReturnPart | RetryPromptPart)
    }


class TestInline(WaitingScenarios):
    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        agent, _ = agent_of(bank, calls, gate, **options)
        return outputs(await agent.run("go", conversation_id=session))

    async def test_a_model_that_repeats_an_id_in_one_conversation_makes_another_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            agent, _ = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate)
            history: list[ModelMessage] = []
            for _ in range(2):
                _, result = await together(scene.decide("approve"), agent.run("go", message_history=history))
                history = result.all_messages()

            assert scene.bank.payments() == ["7 100", "7 100"]


class TestPaused(HostScenarios):
    """The run ends with deferred calls; its messages are kept as JSON, and another process goes on with them."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        agent, _ = agent_of(bank, calls, gate, pauses=True, **options)
        result = await agent.run("go", conversation_id=session)
        if not isinstance(result.output, DeferredToolRequests):
            return outputs(result)
        kept = result.all_messages_json()

        later, toolset = agent_of(bank, calls, gate, pauses=True, **options)
        decided = await toolset.results(result.output)
        history = ModelMessagesTypeAdapter.validate_json(kept)
        return outputs(await later.run(message_history=history, deferred_tool_results=decided, conversation_id=session))

    async def test_a_yes_that_the_program_gives_by_itself_opens_nothing(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            agent, toolset = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate, pauses=True)
            paused = await agent.run("go")
            with pytest.raises(GateTimeout):
                await toolset.results(paused.output, timeout=0.0)
            own = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"order": "9", "cents": 1})})
            asked, result = await together(
                scene.decide("reject", 2, message="No."),
                agent.run(message_history=paused.all_messages(), deferred_tool_results=own),
            )

            assert {request.arguments["order"] for request in asked} == {"7", "9"}  # other arguments: another call
            assert outputs(result)["c1"] == "No."
            assert scene.bank.payments() == []

    async def test_calls_that_others_deferred_are_not_decided_about(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            _, toolset = agent_of(scene.bank, [], scene.gate, pauses=True)
            requests = DeferredToolRequests(approvals=[ToolCallPart("refund", {}, tool_call_id="c1")])
            with pytest.raises(UserError, match="'c1' was not deferred by the gate"):
                await toolset.results(requests)


async def test_values_of_the_tool_are_made_from_what_was_decided(tmp_path: Path) -> None:
    got: list[object] = []

    async def book(day: datetime.date) -> str:
        got.append(day)
        return day.isoformat()

    async with scene_in(tmp_path) as scene:
        toolset = GatedToolset(FunctionToolset([book]), scene.gate)
        agent = Agent(model_of([("c1", {"day": "2026-01-02"})], "book"), toolsets=[toolset])
        (asked,), result = await together(scene.decide("edit", arguments={"day": "2026-01-03"}), agent.run("go"))

        assert asked.arguments == {"day": "2026-01-02"}
        assert got == [datetime.date(2026, 1, 3)]
        assert outputs(result) == {"c1": "2026-01-03"}


async def test_a_tool_that_defers_itself_is_asked_about_and_the_run_gets_its_signal(tmp_path: Path) -> None:
    async def refund(order: str) -> str:
        raise ApprovalRequired

    async with scene_in(tmp_path) as scene:
        toolset = GatedToolset(FunctionToolset([refund]), scene.gate)
        calls = [("c1", {"order": "7"})]
        agent = Agent(model_of(calls), toolsets=[toolset], output_type=[str, DeferredToolRequests])
        _, result = await together(scene.decide("approve"), agent.run("go"))

        assert [part.tool_call_id for part in result.output.approvals] == ["c1"]
        assert [request.kind for request in await scene.asked()] == ["in_doubt"]


async def test_agents_inside_gated_tools_are_asked_about_by_themselves_also_with_equal_call_ids(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        inner, _ = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate)

        async def delegate(whom: str) -> str:
            return str((await inner.run(f"go, {whom}")).output)

        toolset = GatedToolset(FunctionToolset([delegate]), scene.gate, lease=LEASE)
        outer = Agent(model_of([("o1", {"whom": "a"}), ("o2", {"whom": "b"})], "delegate"), toolsets=[toolset])

        async def decide() -> list[Any]:
            first = await scene.decide("approve", 2)
            second = await scene.asked(2)  # meanwhile the leases of the outer calls are renewed
            await scene.desk.decide(second[0].id, "approve", by="ops")
            await scene.desk.decide(second[1].id, "reject", message="Once is enough.", by="ops")
            return [each.tool for each in (*first, *second)]

        asked, result = await together(decide(), outer.run("go"))

        assert asked == ["delegate", "delegate", "refund", "refund"]
        assert outputs(result) == {"o1": "bye", "o2": "bye"}
        assert scene.bank.payments() == ["7 100"]


async def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    def look(order: str) -> str:
        return order

    async with scene_in(tmp_path) as scene:
        external = ExternalToolset([ToolDefinition(name="page_someone")])
        gated = GatedToolset(external, scene.gate)
        agent = Agent(
            model_of([]), tools=[look], toolsets=[gated, external], capabilities=[NativeTool(WebSearchTool())]
        )
        with pytest.raises(UserError) as error:
            check_agent(agent)
        for name in ("'look'", external.label, "web_search"):
            assert name in str(error.value)
        with pytest.raises(UserError, match="'page_someone'"):
            await Agent(model_of([]), toolsets=[gated]).run("go")


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-pydantic-ai.md", "python on-host") == 2

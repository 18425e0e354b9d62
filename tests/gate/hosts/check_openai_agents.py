"""The gate with the real openai-agents, its model scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    Usage,
    WebSearchTool,
    function_tool,
    handoff,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from placet import UserError
from placet.gate import Gate, GateTimeout, GateUnavailable
from placet.gate.openai_agents import GatedAgents
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import Bank, Calls, HostScenarios, WaitingScenarios, scene_in, together

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Makes its calls at once; after their outputs it says goodbye."""

    def __init__(self, calls: Calls, tool: str = "refund") -> None:
        self._calls = [
            ResponseFunctionToolCall(arguments=json.dumps(arguments), call_id=id_, name=tool, type="function_call")
            for id_, arguments in calls
        ]

    async def get_response(self, *_request: Any, **more: Any) -> ModelResponse:
        has_outputs = any(item.get("type") == "function_call_output" for item in more["input"])
        return ModelResponse([_goodbye()] if has_outputs else [*self._calls], Usage(), None)

    def stream_response(self, *_request: Any, **_more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _goodbye() -> ResponseOutputMessage:
    text = ResponseOutputText(annotations=[], text="bye", type="output_text")
    return ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")


def agent_of(bank: Bank, calls: Calls) -> Agent[Any]:
    @function_tool(strict_mode=False)
    async def refund(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    return Agent("Clerk", tools=[refund], model=Scripted(calls))


def outputs(result: Any) -> dict[str, str]:
    items: Sequence[Any] = result.to_input_list()
    return {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}


class TestInline(WaitingScenarios):
    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        agent = GatedAgents(gate, session=session, **options).agent(agent_of(bank, calls))
        return outputs(await Runner.run(agent, "go", run_config=QUIET))


class TestPaused(HostScenarios):
    """The run ends with interruptions, is kept as text, and another process goes on with it."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        gated = GatedAgents(gate, session=session, pauses=True, **options)
        result = await Runner.run(gated.agent(agent_of(bank, calls)), "go", run_config=QUIET)
        assert len(result.interruptions) == len(calls)
        text = result.to_state().to_string()

        later = GatedAgents(gate, session=session, pauses=True, **options)
        agent = later.agent(agent_of(bank, calls))
        state = await later.settle(await RunState.from_string(agent, text))
        return outputs(await Runner.run(agent, state, run_config=QUIET))

    async def test_nothing_is_told_to_the_state_before_all_is_decided_or_with_the_desk_away(
        self, tmp_path: Path
    ) -> None:
        async with scene_in(tmp_path) as scene:
            gated = GatedAgents(scene.gate, session="chat", pauses=True)
            agent = gated.agent(agent_of(scene.bank, [("c1", {"order": "1"}), ("c2", {"order": "2"})]))
            state = (await Runner.run(agent, "go", run_config=QUIET)).to_state()

            with pytest.raises(GateTimeout):
                await gated.settle(state, timeout=0.0)
            async with Gate("http://127.0.0.1:9", token="placet_none", patience=0.2) as away:
                other = GatedAgents(away, session="chat", pauses=True)
                agent_away = other.agent(agent_of(scene.bank, []))
                with pytest.raises(GateUnavailable):
                    await other.settle(await RunState.from_string(agent_away, state.to_string()))
            again = await Runner.run(agent, state, run_config=QUIET)

            assert len(again.interruptions) == 2
            assert len(await scene.asked(2)) == 2
            assert scene.bank.payments() == []

    async def test_a_yes_that_the_program_gives_by_itself_opens_nothing(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            gated = GatedAgents(scene.gate, session="chat", pauses=True)
            agent = gated.agent(agent_of(scene.bank, [("c1", {"order": "7"})]))
            state = (await Runner.run(agent, "go", run_config=QUIET)).to_state()
            for item in state.get_interruptions():
                state.approve(item, always_approve=True)
            _, result = await together(
                scene.decide("reject", message="No."), Runner.run(agent, state, run_config=QUIET)
            )

            assert outputs(result)["c1"] == "No."
            assert scene.bank.payments() == []

    async def test_tools_of_others_are_not_decided_about(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            plain = agent_of(scene.bank, [("c1", {"order": "7"})])
            plain.tools[0].needs_approval = True  # type: ignore[union-attr]
            state = (await Runner.run(plain, "go", run_config=QUIET)).to_state()
            with pytest.raises(UserError, match="'refund' of agent 'Clerk' is no tool of this gate"):
                await GatedAgents(scene.gate, session="chat").settle(state)

            assert await scene.desk.pending() == []


def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    nested = Agent("Nested")
    agent = Agent(
        "Clerk",
        tools=[WebSearchTool(), nested.as_tool("ask_nested", "Asks.")],
        handoffs=[handoff(Agent("Boss")), Agent("Peer", tools=[WebSearchTool()])],
    )
    gate = Gate("http://127.0.0.1:9", token="placet_none")
    with pytest.raises(UserError) as error:
        GatedAgents(gate, session="chat").agent(agent)
    for name in ("'web_search'", "'ask_nested'", "'transfer_to_boss'"):
        assert name in str(error.value)
    passing = GatedAgents(gate, session="chat", passes=("web_search", "ask_nested", "Boss")).agent(agent)

    assert [tool.name for tool in passing.tools] == ["web_search", "ask_nested"]


async def test_tools_of_agents_that_are_handed_over_to_are_gated(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        clerk = agent_of(scene.bank, [("c1", {"order": "7"})])
        front = Agent("Front", handoffs=[clerk], model=Scripted([("h1", {})], "transfer_to_clerk"))
        clerk.handoffs = [front]
        gated = GatedAgents(scene.gate, session="chat").agent(front)
        clerk_too = gated.handoffs[0]
        assert isinstance(clerk_too, Agent)
        _, result = await together(scene.decide("reject", message="No."), _from(clerk_too))

        assert outputs(result)["c1"] == "No."
        assert clerk_too.handoffs == [gated]


async def _from(agent: Agent[Any]) -> Any:
    return await Runner.run(agent, "go", run_config=QUIET)


def test_a_tool_whose_time_would_run_while_somebody_thinks_is_refused() -> None:
    @function_tool(timeout=5.0)
    async def refund(order: str) -> str:
        """Pay money back."""
        return order

    gate = Gate("http://127.0.0.1:9", token="placet_none")
    with pytest.raises(UserError, match="'refund' has timeout_seconds"):
        GatedAgents(gate, session="chat").tool(refund)


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-openai-agents.md", "python on-host") == 2

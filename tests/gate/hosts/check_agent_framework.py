"""The gate with the real Microsoft Agent Framework, its model scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    MiddlewareFailure,
)

from placet import UserError
from placet.gate import Gate
from placet.gate.agent_framework import GateMiddleware, check_agent
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import Bank, Calls, WaitingScenarios, scene_in, together


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Makes its calls at once; after their outputs it says goodbye."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_more: Any) -> ChatResponse:
        if any(each.type == "function_result" for each in messages[-1].contents):
            return ChatResponse(messages=[Message("assistant", ["bye"])])
        contents = [
            Content.from_function_call(call_id=id_, name="refund", arguments=dict(given)) for id_, given in self.calls
        ]
        return ChatResponse(messages=[Message("assistant", contents)])


def agent_of(bank: Bank, calls: Calls, gate: Gate, **options: Any) -> Agent:
    async def refund(order: str, cents: int = 100) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    agent = Agent(Scripted(calls), tools=[refund], middleware=[GateMiddleware(gate, **options)])
    check_agent(agent)
    return agent


def outputs(result: Any) -> dict[str, str]:
    contents = [content for message in result.messages for content in message.contents]
    return {each.call_id: str(each.result) for each in contents if each.type == "function_result"}


class TestInline(WaitingScenarios):
    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        agent = agent_of(bank, calls, gate, **options)
        return outputs(await agent.run("go", session=AgentSession(session_id=session)))

    async def test_a_model_that_repeats_an_id_in_one_conversation_makes_another_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            agent = agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate)
            session = AgentSession(session_id="chat")
            for _ in range(2):
                await together(scene.decide("approve"), agent.run("go", session=session))

            assert scene.bank.payments() == ["7 100", "7 100"]


async def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        page = FunctionTool(name="page_someone", description="", func=None, input_model={"type": "object"})
        tools = [{"type": "web_search"}, page]
        for passes in ((), ("web_search", "page_someone")):
            agent = Agent(Scripted([]), tools=tools, middleware=[GateMiddleware(scene.gate, passes=passes)])
            if passes:
                check_agent(agent)
            else:
                with pytest.raises(UserError, match=r"'web_search'.*'page_someone'"):
                    check_agent(agent)
        with pytest.raises(UserError, match="no GateMiddleware"):
            check_agent(Agent(Scripted([])))


async def test_without_a_session_the_run_ends_and_nothing_runs(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        with pytest.raises(MiddlewareFailure, match="session"):
            await agent_of(scene.bank, [("c1", {"order": "7"})], scene.gate).run("go")

        assert scene.bank.payments() == []


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-agent-framework.md", "python on-host") == 1

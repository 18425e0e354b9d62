"""Runs that the SDK paused are decided and finished here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet import (
    Agent,
    HostedMCPTool,
    MemoryStore,
    RunContextWrapper,
    Runner,
    RunState,
    StateRefused,
    UserError,
    function_tool,
)
from placet.agents.testing import ScriptedModel, assistant_message
from placet.runtime.defaults import set_default_store

BANK = {"type": "mcp", "server_label": "bank", "server_url": "https://x.invalid", "require_approval": "always"}
DONE = [assistant_message("done")]


@pytest.fixture(scope="module")
def states(on_the_sdk, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("states")
    on_the_sdk(Path(__file__).parent / "write_states.py", str(folder))
    return {path.stem: path.read_text() for path in folder.glob("*.json")}


@pytest.fixture(autouse=True)
def fresh_store():
    """The states of this page share the ids of their responses, and to one store they would be one run."""
    set_default_store(MemoryStore())


class Shop:
    """Today's declaration of the agents that the SDK ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.model = ScriptedModel([DONE, DONE])

        @function_tool(needs_approval=True)
        def refund(order_id: str, cents: int) -> str:
            """Pay back."""
            self.ran.append((order_id, cents))
            return f"refunded {order_id} {cents}"

        @function_tool
        def look(order_id: str) -> str:
            """Look."""
            self.ran.append("look")
            return f"looked {order_id}"

        billing = Agent("Billing", tools=[refund], model=self.model)
        tools = [refund, look, billing.as_tool("ask_billing", "Ask"), HostedMCPTool(BANK)]
        self.agent = Agent("Support", tools=tools, handoffs=[billing], model=self.model)

    def outputs(self) -> list[Any]:
        assert self.model.last_call is not None
        return [item["output"] for item in self.model.last_call.input if item.get("type") == "function_call_output"]


@pytest.mark.promise("P14")
@pytest.mark.parametrize(
    ("name", "waiting", "ran", "outputs"),
    [
        ("plain", ["r1"], [("7", 1)], ["refunded 7 1", "looked 7"]),
        ("second_turn", ["r1", "r2"], [("7", 1), ("8", 2)], ["looked 7", "refunded 7 1", "refunded 8 2"]),
        ("handed_over", ["r1"], [("7", 1)], ['{"assistant": "Billing"}', "refunded 7 1"]),
        ("nested", ["r1"], [("7", 1)], ["done"]),
        ("chained", ["r1"], [("7", 1)], ["refunded 7 1"]),
        ("conversation", ["r1"], [("7", 1)], ["refunded 7 1"]),
        ("session", ["r1"], [("7", 1)], ["refunded 7 1"]),
    ],
)
async def test_a_run_that_the_sdk_paused_goes_on_here(states, name, waiting, ran, outputs):
    shop = Shop()
    state = await RunState.from_string(shop.agent, states[name])
    for item in state.get_interruptions():
        state.approve(item, by="ana")
    found = [item.call_id for item in state.get_interruptions()]
    state = await RunState.from_string(shop.agent, state.to_string())
    result = await Runner.run(shop.agent, state)

    assert found == waiting
    assert result.final_output == "done"
    assert shop.ran == ran
    assert shop.outputs() == outputs


@pytest.mark.parametrize(
    ("name", "ran", "outputs"),
    [
        ("approved", [("7", 1)], ["refunded 7 1", "looked 7"]),
        ("always", [("7", 1)], ["refunded 7 1", "looked 7"]),
        ("rejected", [], ["no way", "looked 7"]),
        ("nested_approved", [("7", 1)], ["done"]),
    ],
)
async def test_what_was_decided_before_counts(states, name, ran, outputs):
    shop = Shop()
    result = await Runner.run(shop.agent, await RunState.from_string(shop.agent, states[name]))

    assert result.final_output == "done"
    assert (shop.ran, shop.outputs()) == (ran, outputs)


async def test_the_server_goes_on_from_where_it_was(states):
    for name, where in (("chained", ("resp_1", None)), ("conversation", (None, "conv_1"))):
        shop = Shop()
        state = await RunState.from_json(shop.agent, json.loads(states[name]))
        state.approve(state.get_interruptions()[0])
        await Runner.run(shop.agent, state)

        assert shop.model.last_call is not None
        assert (shop.model.last_call.previous_response_id, shop.model.last_call.conversation_id) == where
        assert [item["type"] for item in shop.model.last_call.input] == ["function_call_output"]


async def test_a_providers_question_is_answered(states):
    shop = Shop()
    state = await RunState.from_string(shop.agent, states["hosted_mcp"])
    (item,) = state.get_interruptions()
    state.approve(item)
    await Runner.run(shop.agent, state)

    assert (item.kind, item.server_label) == ("mcp_approval", "bank")
    assert shop.model.last_call is not None
    assert shop.model.last_call.input[-1]["approve"] is True


async def test_a_run_that_has_ended_gives_its_result(states):
    shop = Shop()
    result = await Runner.run(shop.agent, await RunState.from_string(shop.agent, states["ended"]))

    assert result.final_output == "done"
    assert shop.model.calls == ()


async def test_the_context_comes_along_unless_another_is_given(states):
    shop = Shop()
    state = await RunState.from_string(shop.agent, states["plain"])
    other = await RunState.from_string(shop.agent, states["plain"], context_override=RunContextWrapper("mine"))

    assert state.context is not None
    assert state.context.context == {"tenant": "t1"}
    assert other.context is not None
    assert other.context.context == "mine"


async def test_a_call_that_was_begun_and_has_no_output_is_in_doubt(states):
    shop = Shop()
    data = json.loads(states["plain"])
    data["context"]["tool_invocations"]["r1"]["executed"] = True
    state = await RunState.from_json(shop.agent, data)

    assert [item.kind for item in state.get_interruptions()] == ["in_doubt"]
    assert (await Runner.run(shop.agent, state)).interruptions
    assert shop.ran == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"$schemaVersion": "1.22"}, r"schema 1\.22 .*1\.0 to 1\.21"),
        ({"$schemaVersion": "2.0"}, r"schema 2\.0"),
        ({"$schemaVersion": "new"}, "no version"),
        ({"pending_session_write": {"items": []}}, "pending session write"),
        ({"current_agent": {"name": "Somebody"}}, "agent 'Somebody', which is not there"),
        ({"generated_items": [], "model_responses": []}, "no answer of a model"),
        ({"original_input": 5}, "original_input"),
    ],
)
async def test_what_cannot_be_known_is_refused_by_name(states, change, why):
    data = {**json.loads(states["plain"]), **change}

    with pytest.raises(StateRefused, match=why):
        await RunState.from_json(Shop().agent, data)


async def test_a_tool_that_is_gone_is_named(states):
    with pytest.raises(UserError, match="tool 'refund', which agent 'Support' no longer has"):
        await RunState.from_string(Agent("Support", model=ScriptedModel()), states["plain"])

"""Paused states of openai-agents move in: those that today's SDK writes in an environment of its own, and those that
its versions 0.8.0 and 0.14.0 wrote, each loaded, decided and gone on with here."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import dev
import placet.agents
from placet import Agent, HostedMCPTool, MemoryStore, Runner, RunResult, RunState, function_tool, handoff
from placet.agents.extensions.handoff_filters import remove_all_tools
from placet.facts.errors import RunConflict, StateRefused, UserError
from placet.mcp import MCPServerStdio
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call

HERE = Path(__file__).parent
PLACE, LOCK = dev.DEV / "bench" / "openai-agents", dev.PEERS / "openai-agents.lock"
SHOP = HERE.parent / "mcp" / "shop.py"
OLD = ("0.8.0", "0.14.0")
DONE = [assistant_message("Done.")]


@pytest.fixture(scope="session")
def todays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the SDK of the lock file writes, made now."""
    dev.set_up_apart(PLACE, LOCK, "openai-agents")
    command = [str(PLACE / "bin" / "python"), str(HERE / "write_sdk_states.py"), str(SHOP)]
    found = subprocess.run(  # noqa: S603  # the SDK's own Python
        command, capture_output=True, text=True, check=True, timeout=240, cwd=tmp_path_factory.mktemp("sdk")
    )
    return dict(json.loads(found.stdout))


def kept(version: str) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress((HERE / f"sdk-states-{version}.json.gz").read_bytes())))


@pytest.fixture(params=["todays", *OLD])
def written(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "todays":
        return dict(request.getfixturevalue("todays"))
    return kept(request.param)


# -- the same program here ---------------------------------------------------------------------------------------------


class Shop:
    """The program that wrote the states, on Placet. Its tools write down what they do."""

    def __init__(self, *answers: Sequence[Any]) -> None:
        self.model = ScriptedModel(list(answers) or [DONE])
        self.effects: list[str] = []

        @function_tool(needs_approval=True)
        def refund(order: int, note: str = "none") -> str:
            """Pay an order back."""
            self.effects.append(f"refund {order} {note}")
            return f"refunded {order}"

        @function_tool
        def look_up(order: int) -> str:
            """Look an order up."""
            self.effects.append(f"look up {order}")
            return f"order {order} is open"

        @function_tool(needs_approval=True)
        def close(order: int) -> str:
            """Close an order."""
            self.effects.append(f"close {order}")
            return f"closed {order}"

        @function_tool(needs_approval=True)
        def wire(order: int) -> str:
            """Wire money."""
            self.effects.append(f"wire {order}")
            return f"wired {order}"

        self.refund, self.look_up, self.close, self.wire = refund, look_up, close, wire

    def desk(self, **more: Any) -> Agent[Any]:
        return Agent(name="Desk", model=self.model, tools=[self.refund, self.look_up, self.close, self.wire], **more)

    def nesting(self) -> Agent[Any]:
        inner = Agent(name="Inner", model=ScriptedModel([[assistant_message("8 is paid.")]]), tools=[self.refund])
        ask = inner.as_tool("ask_inner", "Ask the other agent")
        middle = Agent(name="Middle", model=ScriptedModel([[assistant_message("It says so.")]]), tools=[ask])
        tools = [ask, middle.as_tool("ask_middle", "Ask the one between"), self.refund, self.look_up]
        return Agent(name="Outer", model=self.model, tools=tools)

    def handing(self, **more: Any) -> Agent[Any]:
        billing = Agent(name="Billing", model=self.model, tools=[self.refund, self.look_up])
        return Agent(
            name="Desk", model=self.model, tools=[self.look_up, self.refund], handoffs=[handoff(billing, **more)]
        )

    def asked(self) -> list[dict[str, Any]]:
        """What the model was given when the run went on."""
        return list(self.model.calls[-1].input)


def load(written: dict[str, Any], shape: str, agent: Agent[Any]) -> RunState[Any]:
    return asyncio.run(RunState.from_string(agent, written[shape]["text"]))


def go_on(agent: Agent[Any], state: RunState[Any], **more: Any) -> RunResult:
    return asyncio.run(Runner.run(agent, state, store=MemoryStore(), **more))


def shown(state: RunState[Any]) -> list[list[str]]:
    return [[item.name or "", item.agent.name] for item in state.get_interruptions()]


def approve_all(state: RunState[Any]) -> None:
    for item in state.get_interruptions():
        state.approve(item)


def outputs(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The outputs by label, each of them there once and behind its call."""
    found: dict[str, Any] = {}
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    for item in items:
        if item.get("type") == "function_call_output":
            assert item["call_id"] not in found
            found[item["call_id"]] = item["output"]
    assert sorted(calls) == sorted(found)
    return found


# -- every shape -------------------------------------------------------------------------------------------------------


PLAIN = ["plain", "guarded", "structured", "with_a_context", "with_a_list_as_input", "with_a_session"]
HANDED = ["handed_over", "handed_over_and_filtered", "handed_over_and_nested_history"]
NESTED = ["nested", "nested_and_own", "nested_and_approved", "nested_twice"]
SERVED = ["chained", "chained_by_itself", "in_a_conversation"]


def agent_of(shop: Shop, shape: str) -> Agent[Any]:
    if shape in NESTED:
        return shop.nesting()
    if shape in HANDED or shape == "handoff_that_waits":
        return shop.handing()
    if shape.startswith("hosted"):
        config = {"type": "mcp", "server_label": "web", "server_url": "https://x.test", "require_approval": "always"}
        return Agent(name="Desk", model=shop.model, tools=[HostedMCPTool(tool_config=config)])
    return shop.desk()


def test_todays_sdk_writes_every_shape_but_the_one_that_it_refuses(todays):
    assert [shape for shape, found in todays.items() if "error" in found] == ["repeated_label"]
    assert json.loads(todays["plain"]["text"])["$schemaVersion"] == "1.21"


@pytest.mark.parametrize("version", OLD)
def test_the_old_states_are_of_old_schemas(version):
    assert json.loads(kept(version)["plain"]["text"])["$schemaVersion"] == {"0.8.0": "1.0", "0.14.0": "1.9"}[version]


def test_every_state_shows_the_interruptions_that_the_sdk_shows(written):
    for shape, found in written.items():
        if "error" in found or shape == "mcp":
            continue
        state = load(written, shape, agent_of(Shop(), shape))

        if shape in NESTED and json.loads(found["text"])["$schemaVersion"] == "1.0":
            continue  # it does not hold the runs behind tools: see below
        assert sorted(shown(state)) == sorted(found["waiting"]), shape


@pytest.mark.parametrize("shape", PLAIN)
def test_a_paused_call_is_approved_and_the_run_goes_on(written, shape):
    shop = Shop()
    agent = shop.desk()
    state = load(written, shape, agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.final_output == "Done."
    assert shop.effects == ["refund 7 none"]
    assert outputs(shop.asked()) == {"c1": "refunded 7"}
    assert result.context_wrapper.usage.requests == 2
    assert result.context_wrapper.usage.input_tokens == 10


def test_the_history_before_the_pause_is_what_the_sdk_would_send(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "with_a_session", agent)

    approve_all(state)
    go_on(agent, state)

    roles = [item.get("role") or item["type"] for item in shop.asked()]
    assert roles == ["user", "assistant", "user", "function_call", "function_call_output"]


def test_turns_that_are_over_are_turns_of_the_run(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "after_turns", agent)

    approve_all(state)
    result = go_on(agent, state)

    assert shop.effects == ["refund 7 none"]
    assert outputs(shop.asked()) == {"c1": "order 1 is open", "c2": "order 2 is open", "c9": "refunded 7"}
    assert [response.response_id for response in result.raw_responses][:3] == ["resp_1", "resp_2", "resp_3"]
    assert [item.type for item in result.new_items][:2] == ["tool_call_item", "tool_call_output_item"]


@pytest.mark.parametrize("version", OLD)
def test_a_label_that_came_twice_is_made_unique(version):
    shop = Shop()
    agent = shop.desk()
    state = load(kept(version), "repeated_label", agent)

    approve_all(state)
    go_on(agent, state)

    assert sorted(outputs(shop.asked()).values()) == ["order 1 is open", "order 2 is open", "refunded 7"]


def test_siblings_that_ran_do_not_run_again(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "several", agent)

    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second, rejection_message="Too much.")
    go_on(agent, state)

    assert shop.effects == ["refund 1 none"]
    assert outputs(shop.asked()) == {"c1": "refunded 1", "c2": "order 2 is open", "c3": "Too much."}


def test_decisions_move_in_without_a_name_and_the_last_word_counts(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "some_decided", agent)
    wrapper = state.context
    assert wrapper is not None
    assert [wrapper.is_tool_approved("refund", label) for label in ("c1", "c3", "c4")] == [True, False, None]

    _, second, third = state.get_interruptions()
    state.approve(second, by="ana")
    state.reject(third)
    result = go_on(agent, state)

    assert shop.effects == ["refund 1 none", "refund 3 none"]
    assert outputs(shop.asked())["c4"] == "Tool execution was not approved."
    assert result.context_wrapper.is_tool_approved("refund", "c1") is True


def test_what_was_decided_and_carried_out_stays_so(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "some_carried_out", agent)
    assert [item.call_id for item in state.get_interruptions()] == ["c4"]

    approve_all(state)
    result = go_on(agent, state)

    assert shop.effects == ["refund 4 none"]
    rejected = "Tool execution was not approved."
    found = outputs(shop.asked())
    assert found == {"c1": "refunded 1", "c2": "order 2 is open", "c3": rejected, "c4": "refunded 4"}
    wrapper = result.context_wrapper
    assert [wrapper.is_tool_approved("refund", label) for label in ("c1", "c3")] == [True, False]


def test_a_rejection_keeps_its_message(todays):
    shop = Shop()
    agent = shop.desk()

    go_on(agent, load(todays, "rejected_with_a_message", agent))

    assert shop.effects == []
    assert outputs(shop.asked()) == {"c1": "Not today."}


@pytest.mark.parametrize(("shape", "effects"), [("always_approved", ["7", "9"]), ("always_rejected", [])])
def test_always_holds_for_what_waits_and_for_what_comes(written, shape, effects):
    shop = Shop([function_call("refund", {"order": 9}, call_id="c2")], DONE)
    agent = shop.desk()

    result = go_on(agent, load(written, shape, agent))

    assert result.final_output == "Done."
    assert shop.effects == [f"refund {order} none" for order in effects]


def test_always_from_an_earlier_turn_still_holds(written):
    shop = Shop([function_call("refund", {"order": 9}, call_id="c3")], DONE)
    agent = shop.desk()
    state = load(written, "always_from_an_earlier_turn", agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.final_output == "Done."
    assert shop.effects == ["close 1", "refund 9 none"]


# -- runs behind tools, handoffs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "effects", "expected"),
    [
        ("nested", ["refund 8 none"], {"c1": "8 is paid.", "c2": "order 2 is open"}),
        ("nested_and_own", ["refund 2 none", "refund 8 none"], {"c1": "8 is paid.", "c2": "refunded 2"}),
        ("nested_twice", ["refund 8 none"], {"c1": "It says so."}),
    ],
)
@pytest.mark.parametrize("source", ["todays", "0.14.0"])
def test_a_call_inside_an_agent_behind_a_tool_waits_there(request, source, shape, effects, expected):
    written = request.getfixturevalue("todays") if source == "todays" else kept(source)
    shop = Shop()
    agent = shop.nesting()
    state = load(written, shape, agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.final_output == "Done."
    assert sorted(shop.effects) == effects
    assert outputs(shop.asked()) == expected


@pytest.mark.parametrize("source", ["todays", "0.14.0"])
def test_a_decision_inside_moves_in_too(request, source):
    written = request.getfixturevalue("todays") if source == "todays" else kept(source)
    shop = Shop()
    agent = shop.nesting()

    result = go_on(agent, load(written, "nested_and_approved", agent))

    assert result.final_output == "Done."
    assert shop.effects == ["refund 8 none"]


def test_a_run_behind_a_tool_that_the_first_schema_lost_is_in_doubt():
    shop = Shop()
    agent = shop.nesting()
    state = load(kept("0.8.0"), "nested", agent)

    (item,) = state.get_interruptions()
    state.respond(item, "Somebody looked: it was paid.")
    result = go_on(agent, state)

    assert (item.kind, item.name) == ("in_doubt", "ask_inner")
    assert "does not hold the run behind it" in (item.why or "")
    assert result.final_output == "Done."
    assert shop.effects == []
    assert outputs(shop.asked()) == {"c1": "Somebody looked: it was paid.", "c2": "order 2 is open"}


def test_the_agent_that_took_over_goes_on(written):
    shop = Shop()
    agent = shop.handing()
    state = load(written, "handed_over", agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.last_agent.name == "Billing"
    assert shop.effects == ["refund 7 none"]
    found = outputs(shop.asked())
    assert found == {"c1": "order 7 is open", "c2": '{"assistant": "Billing"}', "b1": "refunded 7"}


def test_what_a_handoffs_filter_took_out_stays_out(written):
    shop = Shop()
    agent = shop.handing(input_filter=remove_all_tools)
    state = load(written, "handed_over_and_filtered", agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.last_agent.name == "Billing"
    assert outputs(shop.asked()) == {"b1": "refunded 7"}


def test_a_history_that_was_told_as_a_story_stays_one(written):
    shop = Shop()
    agent = shop.handing()
    state = load(written, "handed_over_and_nested_history", agent)
    told = json.loads(written["handed_over_and_nested_history"]["text"])["original_input"]

    approve_all(state)
    go_on(agent, state)

    assert shop.asked()[: len(told)] == told
    assert outputs(shop.asked())["b1"] == "refunded 7"


def test_a_handoff_takes_place_when_its_sibling_is_decided(written):
    shop = Shop()
    agent = shop.handing()
    state = load(written, "handoff_that_waits", agent)

    approve_all(state)
    result = go_on(agent, state)

    assert result.last_agent.name == "Billing"
    assert shop.effects == ["refund 7 none"]
    assert sorted(outputs(shop.asked())) == ["c1", "c2"]


def test_a_run_that_began_with_an_agent_further_down_is_found_there(todays):
    shop = Shop()
    front = Agent(name="Front", model=shop.model, handoffs=[shop.desk()])

    state = load(todays, "plain", front)
    approve_all(state)
    result = go_on(front, state)

    assert result.last_agent.name == "Desk"
    assert shop.effects == ["refund 7 none"]


# -- servers -----------------------------------------------------------------------------------------------------------


def test_a_call_of_an_mcp_server_waits_for_that_server(todays, tmp_path):
    effects = tmp_path / "effects"
    program = {
        "command": sys.executable,
        "args": [str(SHOP), "stdio"],
        "env": {**os.environ, "SHOP_EFFECTS": str(effects)},
    }
    model = ScriptedModel([DONE])

    async def story() -> tuple[list[str | None], RunResult]:
        async with MCPServerStdio(program, name="shop", require_approval="always") as server:
            agent = Agent(name="Desk", model=model, mcp_servers=[server])
            state = await RunState.from_string(agent, todays["mcp"]["text"])
            names = [item.name for item in state.get_interruptions()]
            approve_all(state)
            return names, await Runner.run(agent, state, store=MemoryStore())

    names, result = asyncio.run(story())

    assert names == ["refund"]
    assert result.final_output == "Done."
    assert effects.read_text().splitlines() == ["refund o7 5"]


@pytest.mark.parametrize(("shape", "approve"), [("hosted_mcp", True), ("hosted_mcp_rejected", False)])
def test_the_provider_is_told_whether_it_may_call(written, shape, approve):
    shop = Shop()
    agent = agent_of(shop, shape)
    state = load(written, shape, agent)

    if approve:
        approve_all(state)
    go_on(agent, state)

    answers = [item for item in shop.asked() if item.get("type") == "mcp_approval_response"]
    assert [(item["approval_request_id"], item["approve"]) for item in answers] == [("mcpr_1", approve)]


@pytest.mark.parametrize("shape", SERVED)
def test_a_server_that_keeps_the_history_gets_each_output_once(written, shape):
    shop = Shop()
    agent = shop.desk()
    state = load(written, shape, agent)

    approve_all(state)
    go_on(agent, state)

    (request,) = shop.model.calls
    sent = [(item["call_id"], item["output"]) for item in request.input]
    assert sent == [("c2", "order 2 is open"), ("c3", "refunded 7")]
    expected = (None, "conv_1") if shape == "in_a_conversation" else ("resp_2", None)
    assert (request.previous_response_id, request.conversation_id) == expected


# -- what else a state holds -------------------------------------------------------------------------------------------


def test_input_guardrails_are_not_asked_again(written):
    shop = Shop()
    asked: list[str] = []

    @placet.agents.input_guardrail
    def polite(_ctx: Any, _agent: Any, given: Any) -> placet.agents.GuardrailFunctionOutput:
        asked.append(given)
        return placet.agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    agent = shop.desk(input_guardrails=[polite])
    state = load(written, "guarded", agent)
    approve_all(state)
    go_on(agent, state)

    assert asked == []
    assert shop.effects == ["refund 7 none"]


class Outcome(BaseModel):
    done: bool


def test_the_final_output_has_the_agents_type(written):
    shop = Shop([assistant_message('{"done": true}')])
    agent = shop.desk(output_type=Outcome)
    state = load(written, "structured", agent)

    approve_all(state)

    assert go_on(agent, state).final_output == Outcome(done=True)


def test_the_context_moves_in(written):
    state = load(written, "with_a_context", Shop().desk())

    assert state.context is not None
    assert state.context.context == {"user": "ana"}


def test_a_message_that_was_added_is_read_behind_the_outputs(todays):
    shop = Shop()
    agent = shop.desk()
    state = load(todays, "with_pending_input", agent)

    approve_all(state)
    go_on(agent, state)

    assert shop.asked()[-1]["content"] == "And hurry."


def test_a_run_that_has_not_begun_begins(written):
    shop = Shop()
    agent = shop.desk()

    result = go_on(agent, load(written, "not_begun", agent))

    assert result.final_output == "Done."
    assert [item["content"] for item in shop.asked()] == ["Refund order 7"]


def test_a_run_that_has_ended_gives_its_result_and_asks_no_model(written):
    shop = Shop()
    agent = shop.desk()

    result = go_on(agent, load(written, "ended", agent))

    assert result.final_output == "Nothing to do."
    assert shop.model.calls == []


@pytest.mark.promise("P14")
def test_a_call_that_was_begun_and_has_no_output_is_in_doubt(todays):
    shop = Shop()
    agent = shop.desk()
    state = load(todays, "executed_without_an_output", agent)

    paused = go_on(agent, state)
    (item,) = state.get_interruptions()
    state.approve(item)
    result = go_on(agent, state)

    assert [each.kind for each in paused.interruptions] == ["in_doubt"]
    assert item.name == "wire"
    assert result.final_output == "Done."
    assert shop.effects == ["wire 7"]


def test_a_state_that_moved_in_is_a_state_of_ours(written):
    shop = Shop()
    agent = shop.desk()
    state = load(written, "some_decided", agent)

    again = asyncio.run(RunState.from_string(agent, state.to_string(key=b"k" * 32), key=b"k" * 32))

    assert shown(again) == shown(state)
    assert again.run_id == state.run_id
    state.merge(again)


def test_the_front_door_reads_it_too(todays):
    data = json.loads(todays["plain"]["text"])
    shop = Shop()

    state = asyncio.run(placet.agents.RunState.from_json(shop.desk(), data))

    assert shown(state) == [["refund", "Desk"]]


# -- never twice, never unknown ----------------------------------------------------------------------------------------


def test_the_same_text_is_the_same_run_and_ends_once_on_a_store(todays):
    shop, store = Shop(), MemoryStore()
    agent = shop.desk()
    first, second = (load(todays, "plain", agent) for _ in range(2))
    (item,) = first.get_interruptions()

    second.approve(item)
    asyncio.run(Runner.run(agent, second, store=store))
    first.approve(item)
    again = asyncio.run(Runner.run(agent, first, store=store))

    assert again.final_output == "Done."
    assert shop.effects == ["refund 7 none"]


def test_the_same_text_does_not_begin_again_while_its_run_waits(todays):
    shop, store = Shop(), MemoryStore()
    agent = shop.desk()
    first = load(todays, "several", agent)
    second = asyncio.run(RunState.from_string(agent, todays["several"]["text"], clock=ManualClock()))

    first.approve(first.get_interruptions()[0])
    asyncio.run(Runner.run(agent, first, store=store))
    approve_all(second)
    with pytest.raises(RunConflict):
        asyncio.run(Runner.run(agent, second, store=store))

    assert shop.effects == ["refund 1 none"]


def changed(todays: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**json.loads(todays["plain"]["text"]), **changes})


@pytest.mark.promise("P14")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"$schemaVersion": "1.22"}, r"schema 1\.22 of openai-agents.*1\.0 to 1\.21"),
        ({"$schemaVersion": "2.0"}, r"schema 2\.0 of openai-agents"),
        ({"$schemaVersion": "one"}, "'one'"),
        ({"$schemaVersion": 1}, "schema 1, which is no version"),
        ({"pending_session_write": {"session_id": "s1", "items": []}}, "pending_session_write, session 's1'"),
        ({"terminal_unrecoverable": True}, "terminal_unrecoverable"),
        ({"sandbox": {}}, "sandbox"),
        ({"current_agent": {"name": "Elsewhere"}}, "agent 'Elsewhere', which is not there"),
        ({"model_responses": 3}, "model_responses"),
        ({"context": None}, "context"),
        ({"generated_items": [], "model_responses": []}, "no answer of a model"),
        ({"original_input": 5}, "original_input"),
    ],
)
def test_what_cannot_be_known_is_refused_by_name(todays, changes, words):
    with pytest.raises(StateRefused, match=words):
        asyncio.run(RunState.from_string(Shop().desk(), changed(todays, **changes)))


def test_a_call_of_a_tool_that_nobody_here_has_is_answered_so(todays):
    data = json.loads(todays["plain"]["text"])
    data["model_responses"][0]["output"].append(
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "x", "name": "edit", "input": "free text"}
    )
    shop = Shop()
    state = asyncio.run(RunState.from_json(shop.desk(), data))
    state.approve(state.get_interruptions()[0])
    asyncio.run(Runner.run(shop.desk(), state))

    assert shop.asked()[-1] == {
        "type": "custom_tool_call_output",
        "call_id": "x",
        "output": "Tool 'edit' not found.",
    }
    assert shop.effects == ["refund 7 none"]


def test_an_output_that_is_missing_from_an_earlier_turn_is_refused_by_name(todays):
    data = json.loads(todays["after_turns"]["text"])
    for name in ("generated_items", "session_items"):
        data[name] = [item for item in data[name] if item["raw_item"].get("output") != "order 1 is open"]

    with pytest.raises(StateRefused, match="'c1' of 'look_up'"):
        asyncio.run(RunState.from_json(Shop().desk(), data))


def test_a_tool_that_is_gone_is_named(todays):
    agent = Agent(name="Desk", model=ScriptedModel([]))

    with pytest.raises(UserError, match="tool 'refund'"):
        load(todays, "plain", agent)


def test_a_key_is_refused_since_nobody_sealed_the_state(todays):
    with pytest.raises(UserError, match="not sealed"):
        asyncio.run(RunState.from_string(Shop().desk(), todays["plain"]["text"], key=b"k" * 32))


def test_its_text_is_no_message(todays):
    with pytest.raises(UserError, match="from_string"):
        asyncio.run(Runner.run(Shop().desk(), todays["plain"]["text"]))

"""What user code is handed is theirs to change: the run, its log and its session stay as they are."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    InMemorySession,
    InputGuardrailTripwireTriggered,
    MemoryStore,
    ModelInputData,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ToolContext,
    ToolGuardrailFunctionOutput,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)
from placet.declare.agent import ToolsToFinalOutputResult
from placet.testing import ScriptedModel, assistant_message, function_call

DONE = [assistant_message("done")]
LOOK = function_call("look", {"at": "it"}, call_id="c1")


@function_tool
async def look(at: str) -> str:
    return "seen"


def spoil(items: list[Any]) -> None:
    for item in items:
        for name in list(item):
            item[name] = "SPOILED"
        item["added"] = "SPOILED"


async def assert_unspoiled(agent: Agent[Any], given: Any = "hi", **options: Any) -> Any:
    session, store = InMemorySession("s"), MemoryStore()
    result = await Runner.run(agent, given, session=session, store=store, **options)
    stored = await store.load(result.run_id)

    assert stored is not None
    assert stored.log is not None
    assert "SPOILED" not in json.dumps(result.to_input_list())
    assert "SPOILED" not in json.dumps(await session.get_items())
    assert "SPOILED" not in result.to_state().to_string()
    assert "SPOILED" not in str(result.to_state()._run.history)
    return result


async def test_a_filter_that_edits_in_place_changes_what_is_sent_and_nothing_else():
    def redact(data):
        for item in data.model_data.input:
            if item.get("role") == "user":
                item["content"] = "SPOILED"
        return ModelInputData(data.model_data.input, data.model_data.instructions)

    agent = Agent(name="A", tools=[look], model=ScriptedModel([[LOOK], DONE]))

    await assert_unspoiled(agent, run_config=RunConfig(call_model_input_filter=redact))

    assert "SPOILED" in json.dumps(agent.model.calls[1].input)


class Spoiling(RunHooks[Any]):
    async def on_llm_start(self, context, agent, system_prompt, input_items):
        spoil(input_items)

    async def on_tool_start(self, context, agent, tool):
        spoil([context.tool_call])

    async def on_tool_end(self, context, agent, tool, result):
        if isinstance(result, list):
            spoil(result)


class SpoilingAgentHooks(AgentHooks[Any]):
    async def on_llm_start(self, context, agent, system_prompt, input_items):
        spoil(input_items)


@pytest.mark.parametrize("where", ["run", "agent"])
async def test_hooks_that_change_what_they_are_told_change_nothing(where):
    @function_tool
    async def show(at: str) -> Any:
        return [{"type": "input_text", "text": "seen"}]

    calls = [function_call("show", {"at": "it"}, call_id="c1")]
    hooks = SpoilingAgentHooks() if where == "agent" else None
    agent = Agent(name="A", tools=[show], model=ScriptedModel([calls, DONE]), hooks=hooks)

    await assert_unspoiled(agent, hooks=Spoiling() if where == "run" else None)

    assert "SPOILED" not in json.dumps(agent.model.calls[1].input)


async def test_a_tool_that_writes_to_its_call_changes_nothing():
    @function_tool
    async def write(ctx: ToolContext[Any], at: str) -> str:
        spoil([ctx.tool_call])
        return "written"

    calls = [function_call("write", {"at": "it"}, call_id="c1")]

    await assert_unspoiled(Agent(name="A", tools=[write], model=ScriptedModel([calls, DONE])))


async def test_a_guardrail_that_changes_the_input_changes_nothing():
    @input_guardrail(run_in_parallel=False)
    async def rule(ctx, agent, given):
        spoil(given)
        return GuardrailFunctionOutput()

    given = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]

    await assert_unspoiled(Agent(name="A", input_guardrails=[rule], model=ScriptedModel([DONE])), given)


async def test_a_tool_use_behavior_that_changes_outputs_changes_nothing():
    @function_tool
    async def show(at: str) -> Any:
        return [{"type": "input_text", "text": "seen"}]

    def behave(ctx, results):
        spoil(results[0].output)
        return ToolsToFinalOutputResult(is_final_output=False)

    calls = [function_call("show", {"at": "it"}, call_id="c1")]

    await assert_unspoiled(Agent(name="A", tools=[show], model=ScriptedModel([calls, DONE]), tool_use_behavior=behave))


async def test_a_handoff_filter_that_edits_in_place_and_fails_has_changed_nothing():
    def failing(data):
        spoil([*data.input_history, *(item.raw_item for item in (*data.pre_handoff_items, *data.new_items))])
        raise ConnectionError("no")

    billing = Agent(name="Billing", model=ScriptedModel([DONE]))
    goes = [function_call("transfer_to_billing", {}, call_id="h1")]
    agent = Agent(name="A", handoffs=[handoff(billing, input_filter=failing)], model=ScriptedModel([goes]))

    with pytest.raises(ConnectionError) as failed:
        await Runner.run(agent, "hi")

    assert "SPOILED" not in str(failed.value.state._run.history)


async def test_a_session_that_changes_what_it_is_given_changes_nothing_of_the_run():
    class Stripping(InMemorySession):
        async def add_items(self, items):
            await super().add_items(items)
            spoil(list(items))

    agent = Agent(name="A", tools=[look], model=ScriptedModel([[LOOK], DONE]))

    result = await Runner.run(agent, "hi", session=Stripping("s"))

    assert "SPOILED" not in json.dumps([result.to_input_list(), agent.model.calls[1].input])


async def test_what_waits_is_shown_as_a_copy():
    gated = function_tool(needs_approval=True, name_override="pay")(_gated)
    calls = [function_call("pay", {"at": "it"}, call_id="c1")]
    paused = await Runner.run(Agent(name="A", tools=[gated], model=ScriptedModel([calls])), "hi")

    spoil([paused.interruptions[0].raw_item])

    assert "SPOILED" not in str([call.item for call in paused._run.calls.values()])


async def _gated(at: str) -> str:
    return "seen"


async def test_hooks_that_hear_nothing_of_requests_cost_no_copy():
    from placet.declare.lifecycle import AsRunHooks, has_hook_for

    assert not has_hook_for(RunHooks(), "on_llm_start")
    assert not has_hook_for(AsRunHooks(AgentHooks()), "on_llm_start")
    assert has_hook_for(Spoiling(), "on_llm_start")
    assert has_hook_for(AsRunHooks(SpoilingAgentHooks()), "on_llm_start")


# -- a paused result as the input of another run -----------------------------------------------------------------------


@pytest.mark.promise("P3")
async def test_the_input_list_of_a_paused_result_leaves_the_open_turn_out():
    gated = function_tool(needs_approval=True, name_override="pay")(_gated)
    steps = [
        [LOOK],
        [function_call("look", {"at": "b"}, call_id="c2"), function_call("pay", {"at": "x"}, call_id="c3")],
    ]
    agent = Agent(name="A", tools=[look, gated], model=ScriptedModel(steps))
    paused = await Runner.run(agent, "hi")
    next_one = Agent(name="A", tools=[look], model=ScriptedModel([DONE]))

    items = paused.to_input_list()
    await Runner.run(next_one, [*items, {"role": "user", "content": "and?"}])

    assert len(paused.interruptions) == 1
    assert [item.get("call_id") for item in items] == [None, "c1", "c1"]
    assert next_one.model.calls[0].input == [*items, {"role": "user", "content": "and?"}]


# -- what guardrails say -----------------------------------------------------------------------------------------------


class Verdict(pydantic.BaseModel):
    words: list[str]
    score: float


@dataclasses.dataclass
class Opinion:
    words: list[str]


INFOS = [Verdict(words=["a"], score=0.5), Opinion(["b"]), {"deep": Verdict(words=[], score=1.0)}]
PLAIN = [{"words": ["a"], "score": 0.5}, {"words": ["b"]}, {"deep": {"words": [], "score": 1.0}}]


CASES = list(zip(INFOS, PLAIN, strict=True))


@pytest.mark.parametrize(("info", "plain"), CASES, ids=["pydantic", "dataclass", "nested"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_guardrail_says_is_an_object_in_the_result_and_json_in_the_log(info, plain, streamed):
    @input_guardrail
    async def first(ctx, agent, given):
        return GuardrailFunctionOutput(info, False)

    @output_guardrail
    async def last(ctx, agent, output):
        return GuardrailFunctionOutput(info, False)

    @tool_input_guardrail
    def about_a_tool(data):
        return ToolGuardrailFunctionOutput.allow(output_info=info)

    tool = dataclasses.replace(look, tool_input_guardrails=[about_a_tool])
    model = ScriptedModel([[LOOK], DONE])
    agent = Agent(name="A", tools=[tool], model=model, input_guardrails=[first], output_guardrails=[last])
    if streamed:
        result: Any = Runner.run_streamed(agent, "hi")
        _ = [event async for event in result.stream_events()]
    else:
        result = await Runner.run(agent, "hi")
    state = await RunState.from_string(agent, result.to_state().to_string())
    again = await Runner.run(agent, state)

    for found in (result.input_guardrail_results, result.output_guardrail_results, result.tool_input_guardrail_results):
        assert [each.output.output_info for each in found] == [info]
        assert type(found[0].output.output_info) is type(info)
    assert again.input_guardrail_results[0].output.output_info == plain


async def test_a_tripwire_carries_the_object():
    @input_guardrail
    async def first(ctx, agent, given):
        return GuardrailFunctionOutput(INFOS[0], True)

    @output_guardrail
    async def last(ctx, agent, output):
        return GuardrailFunctionOutput(INFOS[1], True)

    with pytest.raises(InputGuardrailTripwireTriggered) as before:
        await Runner.run(Agent(name="A", model=ScriptedModel([DONE]), input_guardrails=[first]), "hi")
    with pytest.raises(OutputGuardrailTripwireTriggered) as after:
        await Runner.run(Agent(name="A", model=ScriptedModel([DONE]), output_guardrails=[last]), "hi")

    assert before.value.guardrail_result.output.output_info is INFOS[0]
    assert after.value.guardrail_result.output.output_info is INFOS[1]

"""How turns and runs end, what hooks are told, and the settings of a run."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from placet import (
    AgentHooks,
    InMemorySession,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelInputData,
    ModelRefusalError,
    ModelSettings,
    RunConfig,
    RunErrorHandlerResult,
    RunFinished,
    RunHooks,
    ToolRaised,
    ToolsToFinalOutputResult,
    UserError,
)
from placet.testing import ScriptedModel, function_call
from tests.runtime.team_scenes import (
    REJECTED,
    Traces,
    approve_all,
    assert_paired,
    call,
    done,
    go,
    labels,
    model_of,
    outputs,
    reloaded,
    scripted,
    sent,
)


class Answer(BaseModel):
    number: int


# -- tool_use_behavior -------------------------------------------------------------------------------------------------


async def test_by_default_the_model_reads_the_outputs():
    agent = scripted("A", [[call("pay", 1)], done()], Traces().tool())

    assert (await go(agent, "hi")).final_output == "done"


async def test_stop_on_first_tool_ends_with_the_first_output_in_the_models_order_when_all_have_ended():
    traces = Traces()
    agent = scripted(
        "A",
        [[call("pay", 1), call("look", 2)]],
        traces.gated(),
        traces.tool("look"),
        tool_use_behavior="stop_on_first_tool",
    )
    paused = await go(agent, "hi")

    result = await approve_all(agent, paused)

    assert traces.ran == ["look 2", "pay 1"]
    assert paused.final_output is None
    assert result.final_output == "pay 1 done"
    assert_paired(result.to_input_list())


async def test_the_text_of_a_rejected_call_is_never_the_final_output():
    traces = Traces()
    agent = scripted("A", [[call("pay", 1)], done("told so")], traces.gated(), tool_use_behavior="stop_on_first_tool")
    state = (await go(agent, "hi")).to_state()
    state.reject(state.get_interruptions()[0])

    result = await go(agent, state)

    assert result.final_output == "told so"
    assert outputs(sent(agent))[0][1] == REJECTED


async def test_a_reviewers_answer_may_be_the_final_output():
    agent = scripted("A", [[call("pay", 1)]], Traces().gated(), tool_use_behavior="stop_on_first_tool")
    state = (await go(agent, "hi")).to_state()
    state.respond(state.get_interruptions()[0], "by hand")

    assert (await go(agent, state)).final_output == "by hand"


async def test_stop_at_names_ends_with_those_tools_only():
    traces = Traces()
    agent = scripted(
        "A",
        [[call("look", 1)], [call("look", 2), call("pay", 3)]],
        traces.tool(),
        traces.tool("look"),
        tool_use_behavior={"stop_at_tool_names": ["pay"]},
    )

    result = await go(agent, "hi")

    assert result.final_output == "pay 3 done"
    assert len(model_of(agent).calls) == 2


async def test_a_function_is_asked_once_a_turn_over_all_outputs_in_the_models_order():
    traces, seen = Traces(), []

    async def judge(_ctx, results):
        seen.append([(each.tool_name, each.output, each.was_run) for each in results])
        return ToolsToFinalOutputResult(len(seen) == 2, {"paid": True})

    agent = scripted(
        "A",
        [[call("pay", 1), call("look", 2)], [call("look", 3)]],
        traces.gated(),
        traces.tool("look"),
        tool_use_behavior=judge,
    )
    state = (await go(agent, "hi")).to_state()
    state.reject(state.get_interruptions()[0])

    result = await go(agent, state)

    assert seen == [[("pay", REJECTED, False), ("look", "look 2 done", True)], [("look", "look 3 done", True)]]
    assert result.final_output == {"paid": True}


async def test_a_function_that_says_something_else_is_named_and_can_be_mended():
    traces = Traces()
    agent = scripted("A", [[call("pay", 1)], done()], traces.tool(), tool_use_behavior=lambda _ctx, _results: True)
    with pytest.raises(UserError, match="ToolsToFinalOutputResult") as named:
        await go(agent, "hi")
    agent.tool_use_behavior = "run_llm_again"

    result = await go(agent, named.value.state)

    assert result.final_output == "done"
    assert traces.ran == ["pay 1"]


@pytest.mark.parametrize("behavior", ["stop", {"names": []}, None, 7])
def test_an_unknown_behavior_is_refused_where_it_is_written(behavior):
    with pytest.raises(UserError, match="tool_use_behavior"):
        scripted("A", [], tool_use_behavior=behavior)


# -- output_type -------------------------------------------------------------------------------------------------------


async def test_the_final_output_is_of_the_output_type_also_after_a_pause_and_the_model_is_told_its_schema():
    agent = scripted("A", [[call("pay", 1)], done('{"number": 7}')], Traces().gated(), output_type=Answer)

    result = await approve_all(agent, await go(agent, "hi"))

    assert result.final_output == Answer(number=7)
    assert result.final_output_as(Answer, raise_if_incorrect_type=True).number == 7
    assert model_of(agent).calls[0].request.output_schema["properties"]["number"]["type"] == "integer"


async def test_an_answer_that_is_not_of_the_output_type_ends_the_drive_and_the_model_can_be_asked_again():
    agent = scripted("A", [done("seven"), done('{"number": 7}')], output_type=Answer)
    with pytest.raises(ModelBehaviorError, match="output_type") as failed:
        await go(agent, "hi")

    result = await go(agent, failed.value.state)

    assert result.final_output == Answer(number=7)


async def test_a_tools_text_that_became_the_final_output_is_what_it_is():
    agent = scripted(
        "A", [[call("pay", 1)]], Traces().tool(), output_type=Answer, tool_use_behavior="stop_on_first_tool"
    )

    assert (await go(agent, "hi")).final_output == "pay 1 done"


async def test_after_a_handoff_the_output_type_is_that_of_the_last_agent():
    b = scripted("B", [done('{"number": 7}')], output_type=Answer)
    a = scripted("A", [[call("transfer_to_b")]], handoffs=[b])

    assert (await go(a, "hi")).final_output == Answer(number=7)


# -- hooks -------------------------------------------------------------------------------------------------------------


class Told(RunHooks):
    def __init__(self, failing=None):
        self.log = []
        self._failing = failing

    def _note(self, what):
        self.log.append(what)
        if what == self._failing:
            self._failing = None
            raise OSError(f"the hook at '{what}' failed")

    async def on_agent_start(self, _ctx, _agent):
        self._note("start")

    async def on_agent_end(self, _ctx, _agent, output):
        self._note(f"end {output}")

    async def on_llm_start(self, _ctx, _agent, prompt, items):
        self._note(f"ask {prompt} {len(items)}")

    async def on_llm_end(self, _ctx, _agent, response):
        self._note(f"answer {response.response_id}")

    async def on_tool_start(self, ctx, _agent, tool):
        self._note(f"tool {tool.name} {ctx.tool_call_id}")

    async def on_tool_end(self, _ctx, _agent, tool, result):
        self._note(f"has {tool.name} {result}")


ORDER = [
    "start",
    "ask Help. 1",
    "answer resp_1",
    "tool pay c1",
    "has pay pay 1 done",
    "ask Help. 3",
    "answer resp_2",
    "end done",
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("gated", [False, True])
async def test_hooks_are_told_in_order_and_once_with_a_pause_or_without(gated, streamed):
    told = Told()
    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().tool(needs_approval=gated), instructions="Help.")

    await approve_all(agent, await go(agent, "hi", hooks=told, streamed=streamed), hooks=told, streamed=streamed)

    assert told.log == ORDER


@pytest.mark.parametrize("failing", ORDER)
async def test_a_hook_that_fails_once_ends_the_drive_and_the_effect_happens_once(failing):
    traces, told = Traces(), Told(failing)
    agent = scripted("A", [[call("pay", 1, "c1")], done(), done()], traces.tool(), instructions="Help.")
    with pytest.raises((OSError, ToolRaised), match="failed") as failed:
        await go(agent, "hi", hooks=told)

    result = await go(agent, failed.value.state, hooks=told)

    is_around_a_tool = failing in ("tool pay c1", "has pay pay 1 done")
    assert isinstance(failed.value.__cause__ if is_around_a_tool else failed.value, OSError)

    assert result.final_output == "done"
    assert traces.ran == ([] if failing == "tool pay c1" else ["pay 1"])
    assert_paired(result.to_input_list())


async def test_an_agents_hooks_are_told_while_it_is_at_work():
    def hooks(name):
        class Own(AgentHooks):
            async def on_start(self, _ctx, _agent):
                log.append(f"{name} starts")

            async def on_end(self, _ctx, _agent, _output):
                log.append(f"{name} ends")

            async def on_handoff(self, _ctx, agent, source):
                log.append(f"{name} is told: {source.name} to {agent.name}")

            async def on_llm_end(self, _ctx, _agent, _response):
                log.append(f"{name} answers")

            async def on_tool_end(self, _ctx, _agent, tool, _result):
                log.append(f"{name} has {tool.name}")

        return Own()

    log = []
    b = scripted("B", [done()], hooks=hooks("B"))
    a = scripted("A", [[call("pay", 1), call("transfer_to_b")]], Traces().tool(), handoffs=[b], hooks=hooks("A"))

    await go(a, "hi")

    assert log == ["A starts", "A answers", "A has pay", "A is told: A to B", "B starts", "B answers", "B ends"]


# -- instructions, is_enabled ------------------------------------------------------------------------------------------


async def test_instructions_may_be_a_function_that_is_asked_for_each_request():
    async def instruct(ctx, agent):
        ctx.context["asked"] += 1
        return f"{agent.name} {ctx.context['asked']}"

    agent = scripted("A", [[call("pay", 1)], done()], Traces().tool(), instructions=instruct)

    await go(agent, "hi", context={"asked": 0})

    assert [each.request.system_instructions for each in model_of(agent).calls] == ["A 1", "A 2"]


@pytest.mark.parametrize("rule", [False, lambda _ctx, _agent: False, lambda _ctx, _agent: None])
async def test_a_disabled_tool_is_not_offered_and_does_not_run(rule):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.tool(is_enabled=rule))

    await go(agent, "hi")

    assert model_of(agent).calls[0].request.tools == []
    assert outputs(sent(agent)) == [("c1", "Tool 'pay' not found.")]
    assert traces.ran == []


async def test_a_disabled_agent_tool_is_not_offered():
    kid = scripted("Kid", [])
    boss = scripted("Boss", [done()], kid.as_tool(is_enabled=lambda ctx, _agent: ctx.context["open"]))

    await go(boss, "hi", context={"open": False})

    assert model_of(boss).calls[0].request.tools == []


# -- RunConfig ---------------------------------------------------------------------------------------------------------


async def test_a_model_of_the_configuration_takes_the_place_of_every_agents():
    kid, override = (
        scripted("Kid", []),
        ScriptedModel([[function_call("kid", {"input": "x"})], done("kid"), done("boss")]),
    )
    boss = scripted("Boss", [], kid.as_tool())

    result = await go(boss, "hi", run_config=RunConfig(model=override))

    assert result.final_output == "boss"
    assert (model_of(boss).calls, model_of(kid).calls) == ([], [])


async def test_model_settings_of_the_configuration_are_laid_over_the_agents():
    agent = scripted("A", [done()], model_settings=ModelSettings(temperature=0.1, max_tokens=5))

    await go(agent, "hi", run_config=RunConfig(model_settings=ModelSettings(temperature=0.9)))
    used = model_of(agent).calls[0].request.model_settings

    assert (used.temperature, used.max_tokens) == (0.9, 5)


async def test_an_input_filter_changes_one_request_and_not_the_history():
    def shout(data):
        return ModelInputData([{"role": "user", "content": "HI"}, *data.model_data.input[1:]], "Be loud.")

    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().tool(), instructions="Be quiet.")

    result = await go(agent, "hi", run_config=RunConfig(call_model_input_filter=shout))

    assert [each.input[0]["content"] for each in model_of(agent).calls] == ["HI", "HI"]
    assert model_of(agent).calls[0].request.system_instructions == "Be loud."
    assert result.to_input_list()[0]["content"] == "hi"


@pytest.mark.promise("P3")
async def test_an_input_filter_that_tears_pairs_apart_sends_none_of_the_halves():
    def cut(data):
        return ModelInputData(data.model_data.input[-1:], None)

    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().tool())

    await go(agent, "hi", run_config=RunConfig(call_model_input_filter=cut))

    assert labels(sent(agent), "function_call_output") == []


@pytest.mark.promise("P1")
async def test_an_input_filter_may_not_leave_out_an_output_that_the_server_waits_for():
    def cut(data):
        return ModelInputData([i for i in data.model_data.input if i.get("type") != "function_call_output"], None)

    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().tool())

    with pytest.raises(UserError, match="c1") as refused:
        await go(agent, "hi", run_config=RunConfig(call_model_input_filter=cut), conversation_id="conv_1")
    result = await go(agent, refused.value.state)

    assert result.final_output == "done"
    assert outputs(sent(agent)) == [("c1", "pay 1 done")]


async def test_an_input_filter_that_gives_back_something_else_is_named():
    agent = scripted("A", [done()])

    with pytest.raises(UserError, match="ModelInputData"):
        await go(agent, "hi", run_config=RunConfig(call_model_input_filter=lambda data: data.model_data.input))


@pytest.mark.parametrize("nested", [False, True])
async def test_the_formatter_says_what_the_model_reads_of_a_rejected_call_at_any_depth(nested):
    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().gated())
    boss = scripted("Boss", [[function_call("a", {"input": "x"})], done()], agent.as_tool()) if nested else agent
    config = RunConfig(tool_error_formatter=lambda args: f"{args.tool_name} {args.call_id}: {args.kind}")
    state = (await go(boss, "hi", run_config=config)).to_state()
    state.reject(state.get_interruptions()[0])

    await go(boss, state, run_config=config)

    assert outputs(sent(agent)) == [("c1", "pay c1: approval_rejected")]


# -- error handlers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_handler_turns_the_lack_of_turns_into_a_final_output(streamed):
    seen = []

    def handle(data):
        seen.append((type(data.error), data.context.context, labels(data.history, "function_call_output")))
        return RunErrorHandlerResult("I gave up.")

    agent = scripted("A", [[call("pay", 1, "c1")]], Traces().tool())

    result = await go(agent, "hi", context="mine", max_turns=1, error_handlers={"max_turns": handle}, streamed=streamed)

    assert result.final_output == "I gave up."
    assert seen == [(MaxTurnsExceeded, "mine", ["c1"])]
    assert_paired(result.to_input_list())


async def test_a_handler_that_has_no_answer_leaves_the_error_and_a_state_to_go_on_from():
    agent = scripted("A", [[call("pay", 1)], done()], Traces().tool())

    with pytest.raises(MaxTurnsExceeded) as raised:
        await go(agent, "hi", max_turns=1, error_handlers={"max_turns": lambda _: None})
    result = await go(agent, raised.value.state, max_turns=2)

    assert result.final_output == "done"


class Report(BaseModel):
    text: str


REFUSAL = [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("kind", "step", "error"),
    [("model_refusal", REFUSAL, ModelRefusalError), ("invalid_final_output", done("no JSON"), ModelBehaviorError)],
)
async def test_a_handler_turns_an_answer_that_cannot_be_used_into_a_final_output(kind, step, error, streamed):
    seen = []

    def handle(data):
        seen.append((type(data.error), labels(data.run_data.output, "function_call_output"), data.run_data.last_agent))
        assert data.run_data.history == data.history
        assert len(data.run_data.raw_responses) == 1
        return RunErrorHandlerResult({"text": "given up"})

    session = InMemorySession("chat")
    agent = scripted("A", [[call("pay", 1, "c1")], step], Traces().tool(), output_type=Report)

    result = await go(agent, "hi", session=session, error_handlers={kind: handle}, streamed=streamed)

    assert result.final_output == Report(text="given up")
    assert seen == [(error, ["c1"], agent)]
    assert_paired(await session.get_items())
    assert (await go(agent, result.to_state(), session=session)).final_output == Report(text="given up")


@pytest.mark.parametrize(
    "answer", [Report(text="sorry"), {"text": "sorry"}, {"final_output": {"text": "sorry"}}, '{"text": "sorry"}']
)
async def test_a_handler_may_answer_with_the_output_itself(answer):
    agent = scripted("A", [REFUSAL], output_type=Report)

    result = await go(agent, "hi", error_handlers={"model_refusal": lambda _: answer})

    assert result.final_output == Report(text="sorry")


async def test_a_handler_is_asked_about_its_own_kind_of_error_only():
    def never(_):
        raise AssertionError("this is not what it is for")

    agent = scripted("A", [REFUSAL, done('{"text": "again"}')], output_type=Report)

    with pytest.raises(ModelRefusalError) as raised:
        await go(agent, "hi", error_handlers={"max_turns": never, "invalid_final_output": never})
    result = await go(agent, raised.value.state)

    assert result.final_output == Report(text="again")


async def test_what_a_handler_answers_must_fit_into_the_log():
    agent = scripted("A", [REFUSAL], output_type=Report)

    with pytest.raises(UserError, match="error handler must be plain JSON"):
        await go(agent, "hi", error_handlers={"model_refusal": lambda _: object()})
    with pytest.raises(UserError, match=r"error handler cannot be used: it is not the JSON .* output_type"):
        await go(scripted("A", [REFUSAL], output_type=Report), "hi", error_handlers={"model_refusal": lambda _: 5})


# -- add_input ---------------------------------------------------------------------------------------------------------


async def test_what_is_added_while_paused_stands_behind_the_outputs():
    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().gated())
    state = (await go(agent, "hi")).to_state()
    state.add_input("and hurry")
    state = await reloaded(agent, state)
    pending = state.pending_input
    state.approve(state.get_interruptions()[0])

    await go(agent, state)

    assert pending == [{"role": "user", "content": "and hurry"}]
    assert [item.get("type") or item["role"] for item in sent(agent)] == [
        "user",
        "function_call",
        "function_call_output",
        "user",
    ]


@pytest.mark.parametrize("mode", [{}, {"previous_response_id": "resp_0"}, {"conversation_id": "conv_1"}])
async def test_two_copies_of_one_state_add_it_once(mode):
    agent = scripted("A", [[call("pay", 1, "c1"), call("pay", 2, "c2")], done()], Traces().gated())
    state = (await go(agent, "hi", **mode)).to_state()
    state.add_input("and hurry")
    one, two = await reloaded(agent, state), await reloaded(agent, state)
    one.approve(one.get_interruptions()[0])
    two.approve(two.get_interruptions()[1])

    await go(agent, one)
    result = await go(agent, two)

    assert result.final_output == "done"
    assert [item.get("content") for item in sent(agent)].count("and hurry") == 1


async def test_two_additions_are_both_there_and_merging_copies_does_not_double_them():
    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().gated())
    state = (await go(agent, "hi")).to_state()
    state.add_input("one")
    copy = await reloaded(agent, state)
    copy.add_input("two")
    state.merge(copy)
    state.approve(state.get_interruptions()[0])

    await go(agent, state)

    assert [item["content"] for item in sent(agent)[-2:]] == ["one", "two"]


async def test_what_was_added_can_be_taken_back_until_the_run_is_resumed():
    agent = scripted("A", [[call("pay", 1, "c1")], done()], Traces().gated())
    state = (await go(agent, "hi")).to_state()
    state.add_input("never mind")
    state.clear_pending_input()
    state.approve(state.get_interruptions()[0])

    await go(agent, state)

    assert sent(agent)[-1]["type"] == "function_call_output"


async def test_an_addition_makes_the_model_answer_although_a_tool_would_have_been_the_end():
    agent = scripted("A", [[call("pay", 1)], done("read it")], Traces().gated(), tool_use_behavior="stop_on_first_tool")
    state = (await go(agent, "hi")).to_state()
    state.add_input("tell me more")
    state.approve(state.get_interruptions()[0])

    assert (await go(agent, state)).final_output == "read it"


async def test_nothing_is_added_to_a_run_that_has_ended():
    agent = scripted("A", [[call("pay", 1)], done()], Traces().gated())
    state = (await go(agent, "hi")).to_state()
    late = await reloaded(agent, state)
    late.add_input("too late")
    state.approve(state.get_interruptions()[0])
    ended = await go(agent, state)

    with pytest.raises(RunFinished):
        await go(agent, late)
    with pytest.raises(RunFinished):
        ended.to_state().add_input("too late")

    assert (await go(agent, state)).final_output == "done"

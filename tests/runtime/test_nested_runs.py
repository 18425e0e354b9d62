"""Agents as tools: what goes in, what comes out, what is told on the way, and where it ends."""

import asyncio

import pytest
from pydantic import BaseModel

from placet import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    InputGuardrail,
    MaxTurnsExceeded,
    OutputGuardrail,
    RawEvent,
    RunConfig,
    RunContextWrapper,
    RunErrorHandlerResult,
    RunHooks,
    RunItemStreamEvent,
    Runner,
    Usage,
    UserError,
    function_tool,
)
from placet.ports import Hold
from placet.stores.memory import MemoryStore
from placet.testing import ManualClock, ModelStep, function_call
from tests.runtime.team_scenes import (
    ONE,
    SECONDS,
    Planned,
    Traces,
    approve_all,
    ask,
    call,
    done,
    go,
    model_of,
    outputs,
    scripted,
    sent,
)


class Order(BaseModel):
    number: int
    note: str = ""


# -- in and out --------------------------------------------------------------------------------------------------------


async def test_the_text_of_the_call_is_the_input_and_the_final_output_is_the_output():
    kid = scripted("Kid", [done("forty-two")])
    boss = scripted("Boss", [[ask("kid", "what is it?", "k1")], done()], kid.as_tool())

    await go(boss, "go")

    assert sent(kid) == [{"role": "user", "content": "what is it?"}]
    assert outputs(sent(boss)) == [("k1", "forty-two")]


async def test_structured_input_reaches_the_nested_run_as_json_or_as_its_builder_makes_it():
    plain, built = scripted("Plain", [done()]), scripted("Built", [done()])
    boss = scripted(
        "Boss",
        [[function_call("plain", {"number": 7}), function_call("built", {"number": 8, "note": "n"})], done()],
        plain.as_tool(parameters=Order),
        built.as_tool(parameters=Order, input_builder=lambda given: f"order {given['params']['number']}"),
    )

    await go(boss, "go")

    assert sent(plain)[0]["content"] == '{"note":"","number":7}'  # complete, as rules and people saw it
    assert sent(built)[0]["content"] == "order 8"


async def test_invalid_structured_input_is_told_to_the_caller_and_begins_nothing():
    kid = scripted("Kid", [])
    boss = scripted(
        "Boss", [[function_call("kid", {"number": "x"}, call_id="k1")], done()], kid.as_tool(parameters=Order)
    )

    result = await go(boss, "go")
    ((_, text),) = outputs(sent(boss))

    assert result.final_output == "done"
    assert "number" in text
    assert model_of(kid).calls == []


@pytest.mark.parametrize("arguments", ["not json", "[]", '{"input": 7}', "{}"])
async def test_malformed_arguments_of_an_agent_tool_are_told_to_the_caller(arguments):
    kid = scripted("Kid", [])
    boss = scripted("Boss", [[function_call("kid", arguments, call_id="k1")], done()], kid.as_tool())

    await go(boss, "go")

    assert "invalid" in outputs(sent(boss))[0][1]
    assert model_of(kid).calls == []


def test_the_schema_of_structured_input_fits_the_strictness_that_it_claims():
    tool = scripted("Kid", []).as_tool(parameters=Order)

    assert not tool.strict_json_schema or tool.params_json_schema["additionalProperties"] is False


async def test_an_output_extractor_sees_the_nested_result_and_its_word_is_the_output():
    seen = []

    async def extract(result):
        seen.append((result.final_output, [item.type for item in result.new_items], result.last_agent.name))
        return f"<{result.final_output}>"

    traces = Traces()
    kid = scripted("Kid", [[call("look", 1)], done("found")], traces.tool("look"))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool(custom_output_extractor=extract))

    await go(boss, "go")

    assert outputs(sent(boss)) == [("k1", "<found>")]
    assert seen == [("found", ["tool_call_item", "tool_call_output_item", "message_output_item"], "Kid")]


async def test_the_nested_agents_output_type_reaches_the_extractor_as_its_type():
    kid = scripted("Kid", [done('{"number": 7, "note": "n"}')], output_type=Order)
    seen = []
    boss = scripted(
        "Boss",
        [[ask("kid", "x")], done()],
        kid.as_tool(custom_output_extractor=lambda r: seen.append(r.final_output) or ""),
    )

    await go(boss, "go")

    assert seen == [Order(number=7, note="n")]


async def test_usage_is_summed_upwards_and_survives_resumption():
    traces = Traces()
    kid = scripted("Kid", [ModelStep([call("pay", 1)], usage=ONE), ModelStep(done(), usage=ONE)], traces.gated())
    boss = scripted("Boss", [ModelStep([ask("kid", "x")], usage=ONE), ModelStep(done(), usage=ONE)], kid.as_tool())

    paused = await go(boss, "go")
    halfway = paused.context_wrapper.usage.requests
    result = await approve_all(boss, paused)

    assert halfway == 2
    assert result.context_wrapper.usage == Usage(4, 40, 4, 44)


async def test_the_nested_run_is_given_the_same_context_object_and_a_usage_of_its_own():
    seen = []

    @function_tool
    async def look(ctx: RunContextWrapper) -> str:
        seen.append((ctx.context, ctx.usage.requests))
        return "ok"

    kid = scripted("Kid", [[call("look")], done()], look)
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool())
    mine = {"user": 7}

    await go(boss, "go", context=mine)

    assert seen == [(mine, 1)]
    assert seen[0][0] is mine


# -- turns and limits --------------------------------------------------------------------------------------------------


async def test_the_turns_of_the_child_are_its_own_and_running_out_of_them_is_told_to_the_caller():
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1)], [call("look", 2)], done()], traces.tool("look"))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool(max_turns=2))

    result = await go(boss, "go", max_turns=2)

    assert result.final_output == "done"
    assert "turns" in outputs(sent(boss))[0][1]
    assert traces.ran == ["look 1", "look 2"]


async def test_waiting_costs_the_child_no_turn():
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1)], done("kid done")], traces.gated())
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool(max_turns=2))

    paused = await go(boss, "go", max_turns=2)
    for _ in range(3):
        paused = await go(boss, paused.to_state())
    await approve_all(boss, paused)

    assert outputs(sent(boss)) == [("k1", "kid done")]


async def test_a_childs_lack_of_turns_that_is_to_be_raised_does_not_end_the_parent_while_its_calls_are_open():
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1)]], traces.tool("look"))
    boss = scripted(
        "Boss",
        [[ask("kid", "x"), call("pay", 1)], done()],
        kid.as_tool(max_turns=1, failure_error_function=None),
        traces.gated(),
    )

    with pytest.raises(MaxTurnsExceeded) as raised:
        await go(boss, "go", error_handlers={"max_turns": lambda _: RunErrorHandlerResult("given up")})
    result = await approve_all(boss, await go(boss, raised.value.state))

    assert result.final_output == "done"
    assert traces.ran == ["look 1", "pay 1"]


async def test_agents_that_call_each_other_in_a_circle_meet_a_limit_that_says_so():
    ping = Agent("Ping", model=Planned({"go": [[ask("ping", "go")]]}))
    ping.tools.append(ping.as_tool())

    with pytest.raises(UserError, match="max_nesting") as raised:
        await go(ping, "go", run_config=RunConfig(max_nesting=3))

    assert len(ping.model.asked) == 4
    assert raised.value.state is not None


async def test_a_deep_nest_within_the_limit_ends():
    model = Planned({"go": [[ask("next", "1")]], "1": [[ask("next", "2")]], "2": [[ask("next", "3")]]})
    agent = Agent("A", model=model)
    agent.tools.append(agent.as_tool("next"))

    result = await go(agent, "go", run_config=RunConfig(max_nesting=3))

    assert result.final_output == "go: done"


# -- failures inside ---------------------------------------------------------------------------------------------------


async def test_a_provider_that_fails_inside_ends_the_drive_and_the_stored_child_goes_on():
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1)], ConnectionError("gone"), done("kid done")], traces.tool("look"))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())

    with pytest.raises(ConnectionError) as raised:
        await go(boss, "go")
    result = await go(boss, raised.value.state)

    assert result.final_output == "done"
    assert traces.ran == ["look 1"]
    assert outputs(sent(boss)) == [("k1", "kid done")]


async def test_a_failing_child_does_not_keep_its_sibling_from_being_recorded():
    traces = Traces()
    bad = scripted("Bad", [ConnectionError("gone"), done("bad done")])
    good = scripted("Good", [[call("look", 1)], done("good done")], traces.tool("look"))
    boss = scripted("Boss", [[ask("bad", "x", "b"), ask("good", "y", "g")], done()], bad.as_tool(), good.as_tool())

    with pytest.raises(ConnectionError) as raised:
        await go(boss, "go")
    await go(boss, raised.value.state)

    assert traces.ran == ["look 1"]
    assert outputs(sent(boss)) == [("b", "bad done"), ("g", "good done")]


@pytest.mark.parametrize("kind", ["input", "output"])
async def test_a_guardrail_that_stops_the_child_is_told_to_the_caller_and_the_parent_goes_on(kind):
    def stop(_ctx, _agent, _subject):
        return GuardrailFunctionOutput("no", True)

    rules = (
        {"input_guardrails": [InputGuardrail(stop)]}
        if kind == "input"
        else {"output_guardrails": [OutputGuardrail(stop)]}
    )
    kid = scripted("Kid", [done()], **rules)
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())

    result = await go(boss, "go")

    assert result.final_output == "done"
    assert "stop" in outputs(sent(boss))[0][1]


async def test_guardrails_of_the_configuration_are_for_the_outermost_run():
    seen = []

    def note(_ctx, agent, _subject):
        seen.append(agent.name)
        return GuardrailFunctionOutput()

    kid = scripted("Kid", [done()])
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool())

    await go(
        boss,
        "go",
        run_config=RunConfig(input_guardrails=[InputGuardrail(note)], output_guardrails=[OutputGuardrail(note)]),
    )

    assert seen == ["Boss", "Boss"]


# -- what is told ------------------------------------------------------------------------------------------------------


class Told(RunHooks):
    def __init__(self):
        self.log = []

    async def on_agent_start(self, _ctx, agent):
        self.log.append(f"start {agent.name}")

    async def on_agent_end(self, _ctx, agent, _output):
        self.log.append(f"end {agent.name}")

    async def on_tool_start(self, _ctx, agent, tool):
        self.log.append(f"{agent.name} calls {tool.name}")

    async def on_tool_end(self, _ctx, agent, tool, _result):
        self.log.append(f"{agent.name} has {tool.name}")


async def test_hooks_are_told_of_the_nested_run_once_however_often_it_waits():
    traces, told = Traces(), Told()
    kid = scripted("Kid", [[call("pay", 1)], [call("pay", 2)], done()], traces.gated())
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool())

    await approve_all(boss, await go(boss, "go", hooks=told), hooks=told)

    assert told.log == [
        "start Boss",
        "Boss calls kid",
        "start Kid",
        "Kid calls pay",
        "Kid has pay",
        "Kid calls pay",
        "Kid has pay",
        "end Kid",
        "Boss has kid",
        "end Boss",
    ]


async def test_hooks_given_with_the_agent_tool_take_the_place_of_the_runs_inside_it():
    inner, outer = Told(), Told()
    kid = scripted("Kid", [done()])
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool(hooks=inner))

    await go(boss, "go", hooks=outer)

    assert inner.log == ["start Kid", "end Kid"]
    assert outer.log == ["start Boss", "Boss calls kid", "Boss has kid", "end Boss"]


async def test_the_hooks_of_the_nested_agent_are_told_of_its_beginning_and_its_end():
    log = []

    class Own(AgentHooks):
        async def on_start(self, _ctx, agent):
            log.append(f"start {agent.name}")

        async def on_end(self, _ctx, agent, output):
            log.append(f"end {agent.name}: {output}")

    kid = scripted("Kid", [done("kid done")], hooks=Own())
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool())

    await go(boss, "go")

    assert log == ["start Kid", "end Kid: kid done"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_on_stream_is_told_what_happens_in_the_child_and_only_there(streamed):
    traces, seen = Traces(), []
    kid = scripted("Kid", [[call("look", 1, "c1")], done("kid done")], traces.tool("look"))
    boss = scripted(
        "Boss",
        [[call("look", 9, "b1"), ask("kid", "x")], done()],
        kid.as_tool(on_stream=seen.append),
        traces.tool("look"),
    )

    await go(boss, "go", streamed=streamed)
    events = [told["event"] for told in seen]
    items = [
        (event.name, getattr(event.item, "call_id", None)) for event in events if isinstance(event, RunItemStreamEvent)
    ]

    assert items == [("tool_called", "c1"), ("tool_output", "c1"), ("message_output_created", None)]
    assert [event.data["delta"] for event in events if event.type == "raw_response_event"] == ["kid", "done"]
    assert all(told["agent"] is kid and told["tool_call"].name == "kid" for told in seen)


async def test_on_stream_of_one_child_is_not_told_what_waits_in_another():
    traces, seen, may_end = Traces(), [], asyncio.Event()

    @function_tool
    async def linger() -> str:
        await asyncio.wait_for(may_end.wait(), SECONDS)
        return "ok"

    calls = [ask("other", str(number)) for number in range(11)]
    calls[1] = ask("watched", "watched")
    model = Planned({"go": [calls], "watched": [[call("linger")]], "10": [[call("pay", 10, "c10")]]})
    kid = Agent("Kid", tools=[traces.gated(), linger], model=model)
    boss = Agent("Boss", tools=[kid.as_tool("other"), kid.as_tool("watched", on_stream=seen.append)], model=model)
    paused = Runner.run_streamed(boss, "go")
    async with asyncio.timeout(SECONDS):
        async for event in paused.stream_events():
            if getattr(event, "name", "") == "tool_approval_requested":
                may_end.set()

    assert [item.call_id for item in paused.interruptions] == ["c10"]
    assert [told for told in seen if getattr(told["event"], "name", "") == "tool_approval_requested"] == []


async def test_a_listener_that_raises_ends_the_drive_and_not_the_child():
    class Chatty(Planned):
        async def stream_response(self, request):
            response = await self.get_response(request)
            for number in range(1500):
                yield RawEvent(number)
            yield response

    calls = []

    def listen(event):
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("no listener of mine")

    kid = Agent("Kid", model=Chatty({}))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool(on_stream=listen))

    with pytest.raises(ValueError, match="no listener") as raised:
        await go(boss, "go")
    result = await go(boss, raised.value.state)

    assert result.final_output == "done"
    assert outputs(sent(boss)) == [("k1", "x: done")]


# -- waiting inside ----------------------------------------------------------------------------------------------------


@pytest.mark.promise("P15")
async def test_a_question_inside_a_nested_run_expires_too():
    traces, clock = Traces(), ManualClock()
    kid = scripted("Kid", [[call("pay", 1, "c1")], done("kid done")], traces.gated(decide_within=60))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())
    config = RunConfig(clock=clock)
    paused = await go(boss, "go", run_config=config)
    clock.advance(61)

    result = await go(boss, paused.to_state(), run_config=config)

    assert result.final_output == "done"
    assert traces.ran == []
    assert "in time" in outputs(sent(kid))[0][1]


class Holding(MemoryStore):
    """A store in which an operator holds a tool."""

    held = True

    async def holds(self):
        return [Hold(kind="tool", name="pay", by="ops", at=0.0)] if self.held else []


async def test_a_tool_that_an_operator_holds_inside_a_nested_run_ends_the_drive_and_not_the_patience():
    traces, store = Traces(), Holding()
    kid = scripted("Kid", [[call("pay", 1, "c1")], done("kid done")], traces.tool())
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())

    stopped = await go(boss, "go", store=store)
    ran_while_held = list(traces.ran)
    store.held = False
    result = await go(boss, stopped.to_state(), store=store)

    assert ran_while_held == []
    assert result.final_output == "done"
    assert traces.ran == ["pay 1"]

"""Handoffs: the pause comes first, the handoff after all decisions, and both outputs reach the next agent."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from placet import (
    Agent,
    HandoffCallItem,
    HandoffInputData,
    HandoffOutputItem,
    MemoryStore,
    RunConfig,
    RunHooks,
    RunState,
    UserError,
    handoff,
)
from placet.testing import Crash, CrashingStore, ScriptedModel, function_call
from tests.runtime.team_scenes import (
    Planned,
    Traces,
    approve_all,
    ask,
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

MODES = {
    "own": {},
    "chained": {"previous_response_id": "resp_0"},
    "auto": {"auto_previous_response_id": True},
    "conversation": {"conversation_id": "conv_1"},
}
TO_B = function_call("transfer_to_b", {}, call_id="h1")


class Reason(BaseModel):
    why: str


def a_to_b(*steps, b=None, tools=(), **options):
    """A hands over to B, whose model says «from B»."""
    second = b if b is not None else scripted("B", [done("from B")])
    return scripted("A", steps, *tools, handoffs=[handoff(second, **options)]), second


async def test_a_handoff_changes_who_is_at_work():
    a, b = a_to_b([TO_B])

    result = await go(a, "hi")

    assert result.final_output == "from B"
    assert result.last_agent is b
    assert outputs(sent(b)) == [("h1", '{"assistant":"B"}')]
    assert [type(item) for item in result.new_items[:2]] == [HandoffCallItem, HandoffOutputItem]
    assert (result.new_items[1].source_agent.name, result.new_items[1].target_agent.name) == ("A", "B")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_a_gated_call_and_a_handoff_in_one_response_wait_in_that_order_and_both_outputs_reach_the_next(
    mode, streamed
):
    traces = Traces()
    a, b = a_to_b([TO_B, call("pay", 1, "c1")], tools=[traces.gated()])
    paused = await go(a, "hi", streamed=streamed, **mode)
    asked_before = len(model_of(b).calls)

    result = await approve_all(a, paused, streamed=streamed)

    assert [item.name for item in paused.interruptions] == ["pay"]
    assert paused.last_agent is a
    assert asked_before == 0
    assert result.final_output == "from B"
    assert traces.ran == ["pay 1"]
    assert outputs(sent(b)) == [("h1", '{"assistant":"B"}'), ("c1", "pay 1 done")]


async def test_a_rejected_call_does_not_keep_the_handoff_from_taking_place():
    traces = Traces()
    a, b = a_to_b([call("pay", 1, "c1"), TO_B], tools=[traces.gated()])
    state = (await go(a, "hi")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no")

    result = await go(a, state)

    assert result.final_output == "from B"
    assert outputs(sent(b)) == [("c1", "no"), ("h1", '{"assistant":"B"}')]


async def test_of_two_handoffs_in_one_response_the_first_takes_place_and_the_other_is_told_so():
    b, c = scripted("B", [done("from B")]), scripted("C", [])
    a = scripted("A", [[TO_B, function_call("transfer_to_c", {}, call_id="h2")]], handoffs=[b, c])

    result = await go(a, "hi")
    read = dict(outputs(sent(b)))

    assert result.final_output == "from B"
    assert "Only one handoff" in read["h2"]
    assert_paired(sent(b))


async def test_there_and_back_again_a_grant_of_the_first_agent_still_holds_and_the_others_does_not():
    traces = Traces()
    a = Agent("A", tools=[traces.gated()])
    b = Agent("B", tools=[traces.gated()], handoffs=[a])
    a.handoffs.append(b)
    to_a = function_call("transfer_to_a", {}, call_id="h2")
    a.model = ScriptedModel([[call("pay", 1, "c1")], [TO_B], [call("pay", 3, "c3")], done("the end")])
    b.model = ScriptedModel([[call("pay", 2, "c2")], [to_a]])
    a.check_names()
    state = (await go(a, "hi")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)

    second = await go(a, await reloaded(a, state))
    result = await approve_all(a, second)

    assert [item.agent_path for item in second.interruptions] == ["A>B"]
    assert traces.ran == ["pay 1", "pay 2", "pay 3"]
    assert result.final_output == "the end"
    assert result.last_agent is a


@pytest.mark.promise("P9")
async def test_a_grant_does_not_follow_to_the_next_agents_tool_of_the_same_name():
    traces = Traces()
    b = scripted("B", [[call("pay", 2, "c2")], done()], traces.gated())
    a, _ = a_to_b([call("pay", 1, "c1")], [TO_B], b=b, tools=[traces.gated()])
    state = (await go(a, "hi")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)

    result = await go(a, state)

    assert traces.ran == ["pay 1"]
    assert [(item.agent.name, item.call_id) for item in result.interruptions] == [("B", "c2")]


async def test_a_run_that_waits_after_a_handoff_is_restored_with_its_agent():
    def build():
        traces.ran.clear()
        b = scripted("B", [done("from B")], traces.gated())
        return a_to_b(b=b)[0]

    traces = Traces()
    first, _ = a_to_b([TO_B], b=scripted("B", [[call("pay", 1, "c1")]], traces.gated()))
    text = (await go(first, "hi")).to_state().to_string()
    rebuilt = build()

    state = await RunState.from_string(rebuilt, text)
    state.approve(state.get_interruptions()[0])
    result = await go(rebuilt, state)

    assert result.final_output == "from B"
    assert result.last_agent is rebuilt.handoffs[0].agent
    assert traces.ran == ["pay 1"]


@pytest.mark.promise("P14")
async def test_a_state_whose_handoff_leads_to_an_agent_that_is_gone_is_refused_by_name():
    traces = Traces()
    a, _ = a_to_b([TO_B], b=scripted("B", [[call("pay", 1, "c1")]], traces.gated()))
    text = (await go(a, "hi")).to_state().to_string()

    with pytest.raises(UserError, match="no longer has a handoff that leads to 'B'"):
        await RunState.from_string(scripted("A", []), text)


@pytest.mark.promise("P14")
async def test_a_handoff_that_waits_for_its_turn_and_is_gone_at_resumption_is_refused_by_name():
    traces = Traces()
    a, _ = a_to_b([call("pay", 1, "c1"), TO_B], tools=[traces.gated()])
    text = (await go(a, "hi")).to_state().to_string()
    bare = scripted("A", [], traces.gated())
    state = await RunState.from_string(bare, text)
    state.approve(state.get_interruptions()[0])

    with pytest.raises(UserError, match="transfer_to_b"):
        await go(bare, state)


@pytest.mark.promise("P14")
async def test_two_handoffs_to_agents_of_one_name_are_refused_before_the_run_starts_and_a_key_helps():
    def pair(key):
        first, second = scripted("B", [done("first")]), scripted("B", [done("second")], key=key)
        return scripted("A", [[call("to_second")]], handoffs=[first, handoff(second, tool_name_override="to_second")])

    ambiguous, clear = pair(None), pair("B2")

    with pytest.raises(UserError, match=r"key="):
        await go(ambiguous, "hi")
    result = await go(clear, "hi")

    assert model_of(ambiguous).calls == []
    assert result.final_output == "second"


def test_two_tools_with_one_name_are_refused_where_the_agent_is_made():
    traces = Traces()

    with pytest.raises(UserError, match="two tools named 'pay'"):
        scripted("A", [], traces.tool(), traces.gated())
    with pytest.raises(UserError, match="two tools named 'transfer_to_b'"):
        scripted("A", [], traces.tool("transfer_to_b"), handoffs=[scripted("B", [])])


async def test_a_tool_added_later_under_a_name_that_is_taken_is_refused_before_the_run_starts():
    traces = Traces()
    a = scripted("A", [], traces.tool())
    a.tools.append(traces.gated())

    with pytest.raises(UserError, match="two tools named 'pay'"):
        await go(a, "hi")


# -- on_handoff and input types ----------------------------------------------------------------------------------------


async def test_on_handoff_is_told_once_with_the_context_when_the_handoff_takes_place():
    traces, told = Traces(), []
    a, _ = a_to_b([call("pay", 1), TO_B], tools=[traces.gated()], on_handoff=lambda ctx: told.append(ctx.context))
    paused = await go(a, "hi", context={"user": 7})
    told_while_waiting = list(told)

    await approve_all(a, paused)

    assert told_while_waiting == []
    assert told == [{"user": 7}]


async def test_the_input_of_a_handoff_reaches_on_handoff_as_its_type():
    told = []

    async def note(_ctx, data):
        told.append(data)

    a, _ = a_to_b([function_call("transfer_to_b", {"why": "money"})], input_type=Reason, on_handoff=note)

    result = await go(a, "hi")

    assert told == [Reason(why="money")]
    assert result.final_output == "from B"


@pytest.mark.parametrize("arguments", ["{}", "not json", '{"why": 7}'])
async def test_invalid_input_of_a_handoff_is_told_to_the_agent_that_asked_and_nothing_changes(arguments):
    told = []
    a, b = a_to_b(
        [function_call("transfer_to_b", arguments, call_id="h1")],
        done("from A"),
        input_type=Reason,
        on_handoff=lambda _ctx, data: told.append(data),
    )

    result = await go(a, "hi")

    assert result.final_output == "from A"
    assert told == []
    assert model_of(b).calls == []
    assert "did not take place" in outputs(sent(a))[0][1]


async def test_the_text_of_a_handoff_that_failed_is_never_the_final_output():
    a, _ = a_to_b([TO_B], done("from A"), input_type=Reason, on_handoff=lambda _ctx, _data: None)
    a.tool_use_behavior = "stop_on_first_tool"

    result = await go(a, "hi")

    assert result.final_output == "from A"


def test_the_schema_of_a_handoffs_input_fits_strict_mode_as_tools_do():
    found = handoff(scripted("B", []), input_type=Reason, on_handoff=lambda _ctx, _data: None)

    assert found.input_json_schema["additionalProperties"] is False


def test_a_callback_that_cannot_take_what_it_is_given_is_refused_where_it_is_written():
    b = scripted("B", [])

    with pytest.raises(UserError, match="on_handoff"):
        handoff(b, on_handoff=lambda: None)
    with pytest.raises(UserError, match="input_type"):
        handoff(b, input_type=Reason)


async def test_a_disabled_handoff_is_not_offered_and_a_model_that_names_it_is_told_that_there_is_none():
    a, b = a_to_b([TO_B], done("from A"), is_enabled=lambda _ctx, _agent: False)

    result = await go(a, "hi")

    assert model_of(a).calls[0].request.tools == []
    assert outputs(sent(a)) == [("h1", "Tool 'transfer_to_b' not found.")]
    assert result.final_output == "from A"
    assert model_of(b).calls == []


# -- filters -----------------------------------------------------------------------------------------------------------


async def test_a_filter_sees_input_past_and_turn_and_says_what_the_next_agent_reads():
    traces, seen = Traces(), []

    def tidy(data: HandoffInputData) -> HandoffInputData:
        seen.append(data)
        return data.clone(pre_handoff_items=())

    a, b = a_to_b(
        [call("look", 1, "c1")],
        [call("pay", 2, "c2"), TO_B],
        tools=[traces.tool("look"), traces.tool()],
        input_filter=tidy,
    )

    await go(a, "hi", context="mine")
    (data,) = seen

    assert data.input_history == ({"role": "user", "content": "hi"},)
    assert labels(data.pre_handoff_items, "function_call") == ["c1"]
    assert labels(data.new_items, "function_call") == ["c2", "h1"]
    assert labels(data.new_items, "function_call_output") == ["c2", "h1"]
    assert data.run_context.context == "mine"
    assert labels(sent(b), "function_call") == ["c2", "h1"]


@pytest.mark.promise("P3")
async def test_a_filter_that_tears_pairs_apart_sends_none_of_the_halves():
    traces = Traces()
    a, b = a_to_b(
        [call("pay", 2, "c2"), TO_B],
        tools=[traces.tool()],
        input_filter=lambda data: data.clone(
            new_items=tuple(i for i in data.new_items if i.get("type") != "function_call")
        ),
    )

    await go(a, "hi")

    assert_paired(sent(b))
    assert sent(b) == [{"role": "user", "content": "hi"}]


async def test_the_filter_of_the_configuration_is_for_handoffs_that_have_none():
    used = []

    def noting(name):
        def keep(data):
            used.append(name)
            return data

        return keep

    plain, _ = a_to_b([TO_B])
    own, _ = a_to_b([TO_B], input_filter=noting("own"))
    config = RunConfig(handoff_input_filter=noting("config"))

    await go(plain, "hi", run_config=config)
    await go(own, "hi", run_config=config)

    assert used == ["config", "own"]


async def test_a_filter_that_gives_back_something_else_is_named():
    a, _ = a_to_b([TO_B], input_filter=lambda data: list(data.new_items))

    with pytest.raises(UserError, match="HandoffInputData"):
        await go(a, "hi")


async def test_a_filter_that_fails_once_has_not_lost_the_handoff():
    failures = [OSError("no")]

    def flaky(data):
        if failures:
            raise failures.pop()
        return data

    a, b = a_to_b([TO_B], done("from A"), input_filter=flaky)
    with pytest.raises(OSError, match="no") as raised:
        await go(a, "hi")

    result = await go(a, await reloaded(a, raised.value.state))

    assert result.final_output == "from B"
    assert result.last_agent is b


async def test_what_a_run_began_with_stays_its_input_after_a_filter_has_shortened_the_history():
    given = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    a, _ = a_to_b([TO_B], input_filter=lambda data: data.clone(input_history=data.input_history[-1:], new_items=()))

    result = await go(a, given)

    assert all(item.get("role") == "user" for item in result.input)


async def test_a_second_filter_is_told_input_and_past_apart_although_the_first_has_shortened_them():
    seen = []

    def last_only(data):
        seen.append(data)
        return data.clone(input_history=data.input_history[-1:], pre_handoff_items=(), new_items=())

    c = scripted("C", [done("from C")])
    b = scripted(
        "B", [[function_call("transfer_to_c", {}, call_id="h2")]], handoffs=[handoff(c, input_filter=last_only)]
    )
    a = scripted("A", [[TO_B]], handoffs=[handoff(b, input_filter=last_only)])
    given = [{"role": "user", "content": text} for text in ("one", "two", "three")]

    result = await go(a, given)

    assert result.final_output == "from C"
    assert [item.get("content") for item in seen[1].input_history] == ["three"]
    assert labels(seen[1].new_items, "function_call") == ["h2"]


@pytest.mark.parametrize("where", ["handoff", "configuration"])
@pytest.mark.parametrize("mode", [MODES[name] for name in ("chained", "auto", "conversation")])
async def test_a_filter_where_the_server_keeps_the_history_is_refused_before_the_run_starts(mode, where):
    keep = {"input_filter": lambda data: data} if where == "handoff" else {}
    a, _ = a_to_b([TO_B], **keep)
    config = RunConfig(handoff_input_filter=None if keep else lambda data: data)

    with pytest.raises(UserError, match="filter"):
        await go(a, "hi", run_config=config, **mode)

    assert model_of(a).calls == []


async def test_a_filter_two_handoffs_away_is_refused_before_the_run_starts_too():
    c = scripted("C", [])
    b = scripted("B", [], handoffs=[handoff(c, input_filter=lambda data: data)])
    a = scripted("A", [], handoffs=[b])

    with pytest.raises(UserError, match="filter"):
        await go(a, "hi", conversation_id="conv_1")

    assert model_of(a).calls == []


# -- under way ---------------------------------------------------------------------------------------------------------


async def test_hooks_are_told_of_the_handoff_after_it_and_before_the_next_agent_is_asked():
    log = []

    class Told(RunHooks):
        async def on_agent_start(self, _ctx, agent):
            log.append(f"start {agent.name}")

        async def on_handoff(self, _ctx, from_agent, to_agent):
            log.append(f"{from_agent.name} to {to_agent.name}")

        async def on_llm_start(self, _ctx, agent, _prompt, _items):
            log.append(f"ask {agent.name}")

        async def on_agent_end(self, _ctx, agent, _output):
            log.append(f"end {agent.name}")

    a, _ = a_to_b([TO_B])

    await go(a, "hi", hooks=Told())

    assert log == ["start A", "ask A", "A to B", "start B", "ask B", "end B"]


async def test_a_handoff_inside_a_nested_run_stays_inside():
    traces = Traces()
    helper = scripted("Helper", [[call("pay", 1, "c1")], done("helper done")], traces.gated())
    kid = scripted("Kid", [[function_call("transfer_to_helper", {})]], handoffs=[helper])
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())

    paused = await go(boss, "go")
    result = await approve_all(boss, paused)

    assert [item.agent_path for item in paused.interruptions] == ["Boss/kid(Kid)>Helper"]
    assert result.final_output == "done"
    assert result.last_agent is boss
    assert outputs(sent(boss)) == [("k1", "helper done")]


async def test_a_crash_at_any_append_around_a_handoff_loses_neither_it_nor_an_effect():
    number, crashes = 0, 1
    while crashes:
        number, crashes = number + 1, 0
        for when in ("before", "after"):
            traces, store = Traces(), CrashingStore(MemoryStore())
            model = Planned({"hi": [[call("pay", 1, "c1"), TO_B]]})
            b = Agent("B", model=model)
            a = Agent("A", tools=[traces.tool(recovery="retry")], handoffs=[b], model=model)
            store.crash_at(number, when)
            try:
                result = await go(a, "hi", store=store)
            except Crash as crash:
                crashes += 1
                result = await go(a, await reloaded(a, crash.state), store=store)

            assert result.final_output == "hi: done", f"append {number}, {when}"
            assert result.last_agent is b, f"append {number}, {when}"
            assert set(traces.ran) == {"pay 1"}

"""A grant inside a nested run ends with it, reaches no sibling, and none reaches from the parent into the child."""

from __future__ import annotations

import pytest

from placet import Agent, Grant
from placet.facts.ids import split_call_id
from tests.runtime.team_scenes import Planned, Traces, approve_all, ask, call, go, reloaded

pytestmark = pytest.mark.promise("P9", "P13")


def pair(traces, **plan):
    model = Planned(plan)
    kid = Agent("Kid", tools=[traces.gated()], model=model)
    return Agent("Boss", tools=[kid.as_tool(), traces.gated()], model=model)


def waiting(result):
    return [split_call_id(item.id)[1] for item in result.interruptions]


async def always(agent, paused, local):
    state = await reloaded(agent, paused)
    (item,) = [each for each in state.get_interruptions() if split_call_id(each.id)[1] == local]
    state.approve(item, always_approve=True)
    return await go(agent, await reloaded(agent, state))


async def test_it_holds_for_later_turns_of_its_nested_run():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a")]], a=[[call("pay", 1)], [call("pay", 2)]])

    result = await always(boss, await go(boss, "go"), "1.0/1.0")

    assert result.final_output == "go: done"
    assert traces.ran == ["pay 1", "pay 2"]


async def test_it_decides_what_already_waits_in_its_nested_run():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a")]], a=[[call("pay", 1), call("pay", 2)]])

    result = await always(boss, await go(boss, "go"), "1.0/1.1")

    assert result.final_output == "go: done"
    assert sorted(traces.ran) == ["pay 1", "pay 2"]


async def test_it_does_not_reach_a_sibling_of_the_same_agent():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a"), ask("kid", "b")]], a=[[call("pay", 1)]], b=[[call("pay", 2)]])

    result = await always(boss, await go(boss, "go"), "1.0/1.0")

    assert traces.ran == ["pay 1"]
    assert waiting(result) == ["1.1/1.0"]


async def test_whoever_asks_about_a_siblings_call_is_not_told_that_it_is_approved():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a"), ask("kid", "b")]], a=[[call("pay", 1, "c1")]], b=[[call("pay", 2, "c2")]])

    result = await always(boss, await go(boss, "go"), "1.0/1.0")

    assert waiting(result) == ["1.1/1.0"]
    assert result.context_wrapper.is_tool_approved("pay", "c2") is None


async def test_it_ends_with_the_nested_run_in_which_it_was_made():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a")], [ask("kid", "b")]], a=[[call("pay", 1)]], b=[[call("pay", 2)]])

    result = await always(boss, await go(boss, "go"), "1.0/1.0")

    assert traces.ran == ["pay 1"]
    assert waiting(result) == ["2.0/1.0"]


async def test_one_of_the_parent_does_not_reach_into_the_child_nor_one_of_the_child_out():
    traces = Traces()
    boss = pair(traces, go=[[call("pay", 1), ask("kid", "a")], [call("pay", 3)]], a=[[call("pay", 2)]])

    first = await always(boss, await go(boss, "go"), "1.0")
    inside = waiting(first)
    result = await always(boss, first, "1.1/1.0")

    assert inside == ["1.1/1.0"]
    assert traces.ran == ["pay 1", "pay 2", "pay 3"], "the parent's grant still holds for the parent"
    assert result.final_output == "go: done"


async def test_one_that_a_child_made_does_not_reach_the_parent():
    traces = Traces()
    boss = pair(traces, go=[[ask("kid", "a")], [call("pay", 3)]], a=[[call("pay", 2)]])

    result = await always(boss, await go(boss, "go"), "1.0/1.0")

    assert traces.ran == ["pay 2"]
    assert waiting(result) == ["2.0"]


async def test_a_standing_rejection_inside_a_nested_run_stays_there_too():
    traces = Traces()
    boss = pair(
        traces, go=[[ask("kid", "a"), ask("kid", "b")]], a=[[call("pay", 1)], [call("pay", 2)]], b=[[call("pay", 3)]]
    )
    paused = await go(boss, "go")
    state = paused.to_state()
    state.reject(paused.interruptions[0], always_reject=True)

    result = await go(boss, state)
    left = waiting(result)
    result = await approve_all(boss, result)

    assert left == ["1.1/1.0"]
    assert traces.ran == ["pay 3"]
    assert result.final_output == "go: done"


async def test_one_for_the_agent_reaches_that_agent_wherever_it_stands_at_the_same_address():
    traces = Traces()
    boss = pair(
        traces, go=[[ask("kid", "a")], [ask("kid", "b")], [call("pay", 3)]], a=[[call("pay", 1)]], b=[[call("pay", 2)]]
    )
    paused = await go(boss, "go")
    state = paused.to_state()
    state.approve(paused.interruptions[0], always_approve=Grant(scope="agent"))

    result = await go(boss, state)

    assert traces.ran == ["pay 1", "pay 2"]
    assert waiting(result) == ["3.0"]

"""P13: what waits inside agents-as-tools, at any depth, is seen and decided on the outermost run, and happens once."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from placet import Agent, MemoryStore, NotPending, Runner, RunState, StaleApproval, function_tool
from placet.facts.ids import split_call_id
from tests.runtime.team_scenes import (
    REJECTED,
    SECONDS,
    Planned,
    Traces,
    approve_all,
    ask,
    call,
    done,
    facts,
    facts_in,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    sent,
)
from tests.runtime.teams import EFFECTS, LEAVES, QUESTIONS, team

pytestmark = pytest.mark.promise("P13")


def locals_of(items):
    return [split_call_id(item.id)[1] for item in items]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_reviewer_sees_the_innermost_calls_with_the_way_that_leads_to_them(streamed):
    paused = await go(team(Traces()).boss, "go", streamed=streamed)
    seen = {split_call_id(item.id)[1]: item for item in paused.interruptions}

    assert sorted(seen) == sorted(LEAVES.values())
    assert {item.name for item in seen.values()} == {"pay"}
    assert seen["1.0/1.0/1.0"].arguments == '{"n": 3}'
    assert seen["1.0/1.0/1.0"].agent_path == "Same/delegate(Same)/delegate(Same)"
    assert seen["1.1/1.1"].agent_path == "Same/delegate(Same)"
    assert len({item.digest for item in seen.values()}) == len(LEAVES)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "order", list(itertools.permutations(EFFECTS)), ids=lambda order: "".join(e[-1] for e in order)
)
async def test_decided_one_by_one_in_any_order_on_rebuilt_agents_each_effect_happens_once(order, streamed):
    traces, questions = Traces(), []
    first = team(traces)
    paused = await go(first.boss, "go", streamed=streamed)
    questions += first.model.asked
    for effect in order:
        rebuilt = team(traces)
        state = await reloaded(rebuilt.boss, paused)
        (item,) = [each for each in state.get_interruptions() if split_call_id(each.id)[1] == LEAVES[effect]]
        state.approve(item)
        paused = await go(rebuilt.boss, state, streamed=streamed)
        questions += rebuilt.model.asked
        assert traces.ran[-1] == effect, "what is decided goes on although its siblings wait"

    assert paused.final_output == "go: done"
    assert traces.ran == list(order)
    assert sorted(questions) == sorted(QUESTIONS)


async def test_after_a_restart_without_the_store_the_same_holds():
    traces = Traces()
    paused = await go(team(traces).boss, "go", store=MemoryStore())
    while paused.interruptions:
        rebuilt = team(traces)
        state = await reloaded(rebuilt.boss, paused)
        state.approve(state.get_interruptions()[-1])
        paused = await go(rebuilt.boss, state, store=MemoryStore())

    assert paused.final_output == "go: done"
    assert sorted(traces.ran) == EFFECTS


async def test_some_approved_some_rejected_some_answered_each_model_reads_its_own():
    traces = Traces()
    crew = team(traces)
    state = (await go(crew.boss, "go")).to_state()
    items = {split_call_id(item.id)[1]: item for item in state.get_interruptions()}
    state.approve(items[LEAVES["pay 1"]])
    state.reject(items[LEAVES["pay 2"]])
    state.respond(items[LEAVES["pay 3"]], "paid by hand")
    state.approve(items[LEAVES["pay 4"]], arguments={"n": 40})

    result = await go(crew.boss, state)
    read = {str(request.input[0]["content"]): outputs(request.input) for request in crew.model.requests}

    assert result.final_output == "go: done"
    assert sorted(traces.ran) == ["pay 1", "pay 40"]
    assert read["left leaf"] == [("x", "paid by hand")]
    assert [text for _, text in read["left"]] == ["left leaf: done", "pay 1 done"]
    assert [text for _, text in read["right"]] == ["right leaf: done", REJECTED]
    assert read["right leaf"][0][1].startswith("A reviewer changed the arguments of this call")


async def test_a_decided_child_goes_on_and_ends_while_its_sibling_waits():
    traces = Traces()
    crew = team(traces)
    state = (await go(crew.boss, "go")).to_state()
    for item in state.get_interruptions():
        if item.id.startswith(f"{state.run_id}_t1c0_"):
            state.approve(item)
    before = len(crew.model.asked)

    halfway = await go(crew.boss, state)

    assert sorted(traces.ran) == ["pay 1", "pay 3"]
    assert sorted(crew.model.asked[before:]) == [("left", 1), ("left leaf", 1)]
    assert ["end", "1.0", "finished", "left: done"] in facts(halfway)
    assert sorted(locals_of(halfway.interruptions)) == ["1.1/1.0/1.0", "1.1/1.1"]


async def test_the_model_of_a_stored_child_is_not_asked_again_for_what_it_said():
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1, "c1")], [call("pay", 2, "c2")], done("kid done")], traces.gated())
    boss = scripted("Boss", [[ask("kid", "work", "k1")], done()], kid.as_tool())

    result = await approve_all(boss, await go(boss, "go"))

    assert result.final_output == "done"
    assert traces.ran == ["pay 1", "pay 2"]
    assert len(model_of(kid).calls) == 3
    assert len(model_of(boss).calls) == 2
    model_of(kid).assert_complete()


async def test_the_log_of_a_nested_run_stands_under_the_path_of_its_call():
    traces = Traces()
    crew = team(traces)

    result = await approve_all(crew.boss, await go(crew.boss, "go"))
    kinds = [fact[0] for fact in facts_in(result, "1.0/1.0")]

    assert kinds[0] == "start"
    assert kinds[-1] == "final"
    assert kinds.count("answer") == 2
    assert {fact[1] for fact in facts(result) if fact[0] == "in"} == {"1.0", "1.1", "1.0/1.0", "1.1/1.0"}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_gated_agent_tool_asks_before_its_run_begins_and_what_is_inside_asks_for_itself(streamed):
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1, "c1")], done("kid done")], traces.gated())
    boss = scripted("Boss", [[ask("kid", "work", "k1")], done()], kid.as_tool(needs_approval=True))
    first = await go(boss, "go", streamed=streamed)
    asked_before = len(model_of(kid).calls)
    state = await reloaded(boss, first)
    state.approve(state.get_interruptions()[0])

    second = await go(boss, state, streamed=streamed)
    result = await approve_all(boss, second, streamed=streamed)

    assert [item.name for item in first.interruptions] == ["kid"]
    assert asked_before == 0
    assert [item.name for item in second.interruptions] == ["pay"]
    assert result.final_output == "done"
    assert traces.ran == ["pay 1"]


async def test_a_rejected_agent_tool_never_begins():
    kid = scripted("Kid", [])
    boss = scripted("Boss", [[ask("kid", "work", "k1")], done()], kid.as_tool(needs_approval=True))
    state = (await go(boss, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not now")

    result = await go(boss, state)

    assert result.final_output == "done"
    assert model_of(kid).calls == []
    assert outputs(sent(boss)) == [("k1", "not now")]


async def test_the_edited_input_of_an_agent_tool_is_what_its_run_begins_with_and_what_the_caller_is_told():
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1, "c1")], done("kid done")], traces.gated())
    boss = scripted("Boss", [[ask("kid", "work", "k1")], done()], kid.as_tool(needs_approval=True))
    state = (await go(boss, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"input": "work gently"})

    await approve_all(boss, await go(boss, state))
    ((_, text),) = outputs(sent(boss))

    assert sent(kid, 0)[0]["content"] == "work gently"
    assert text.splitlines()[0].endswith('{"input":"work gently"}')
    assert text.splitlines()[1] == "kid done"


async def test_two_reviewers_decide_in_two_children_on_copies_of_one_state_and_both_count():
    traces = Traces()
    crew = team(traces)
    paused = await go(crew.boss, "go")
    ana, bob = await reloaded(crew.boss, paused), await reloaded(crew.boss, paused)
    for item in ana.get_interruptions():
        (ana if item.id.startswith(f"{ana.run_id}_t1c0_") else bob).approve(item)

    result = await go(crew.boss, ana.merge(bob))

    assert result.final_output == "go: done"
    assert sorted(traces.ran) == EFFECTS


async def test_an_older_snapshot_resumed_later_repeats_nothing_in_a_nested_run():
    traces = Traces()
    crew = team(traces)
    old = (await go(crew.boss, "go")).to_state()
    state = (await go(crew.boss, old)).to_state()
    item = state.get_interruptions()[0]
    state.approve(item)
    await go(crew.boss, state)
    old.approve(item)

    again = await go(crew.boss, old)
    contradicting = await RunState.from_string(
        crew.boss, (await go(crew.boss, again.to_state())).to_state().to_string()
    )

    assert len(traces.ran) == 1
    assert len(again.interruptions) == 3
    with pytest.raises(NotPending):
        contradicting.reject(item)


async def test_a_late_contradicting_word_about_a_nested_call_is_refused_and_runs_nothing():
    traces = Traces()
    crew = team(traces)
    paused = await go(crew.boss, "go")
    state, late = paused.to_state(), paused.to_state()
    state.reject(paused.interruptions[0])
    late.approve(paused.interruptions[0])
    await go(crew.boss, state)

    with pytest.raises(StaleApproval):
        await go(crew.boss, late)

    assert traces.ran == []


async def test_one_label_on_four_nested_calls_is_refused_as_ambiguous_and_an_id_is_not():
    crew = team(Traces())
    state = (await go(crew.boss, "go")).to_state()

    with pytest.raises(NotPending, match="several"):
        state.approve("x")
    state.approve(state.get_interruptions()[2].id)

    assert state.context.is_tool_approved("pay", "x") is None


async def test_the_same_text_resumed_twice_at_the_same_time_has_each_nested_effect_once():
    traces = Traces()
    crew = team(traces)
    state = (await go(crew.boss, "go")).to_state()
    for item in state.get_interruptions():
        state.approve(item)
    copies = [await reloaded(crew.boss, state) for _ in range(2)]

    ended = await asyncio.gather(*(Runner.run(crew.boss, each) for each in copies), return_exceptions=True)
    result = await go(crew.boss, copies[1])

    assert any(not isinstance(each, Exception) for each in ended)
    assert result.final_output == "go: done"
    assert sorted(traces.ran) == EFFECTS


async def test_a_free_nested_call_runs_at_once_beside_a_waiting_one():
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1), call("pay", 1)], done()], traces.tool("look"), traces.gated())
    boss = scripted("Boss", [[ask("kid", "work")], done()], kid.as_tool())

    paused = await go(boss, "go")

    assert traces.ran == ["look 1"]
    assert [item.name for item in paused.interruptions] == ["pay"]


async def test_a_call_of_the_outer_agent_is_decided_while_a_nested_one_waits():
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1)], done()], traces.gated())
    boss = scripted("Boss", [[ask("kid", "work"), call("pay", 9)], done()], kid.as_tool(), traces.gated())
    state = (await go(boss, "go")).to_state()
    (outer,) = [item for item in state.get_interruptions() if item.agent.name == "Boss"]
    state.approve(outer)

    halfway = await go(boss, state)
    result = await approve_all(boss, halfway)

    assert [item.agent.name for item in halfway.interruptions] == ["Kid"]
    assert traces.ran == ["pay 9", "pay 1"]
    assert result.final_output == "done"


async def test_the_same_agent_nested_in_a_later_turn_is_a_run_of_its_own():
    traces = Traces()
    model = Planned({"go": [[ask("kid", "one", "k")], [ask("kid", "one", "k")]], "one": [[call("pay", 1, "c")]]})
    kid = Agent("Kid", tools=[traces.gated()], model=model)
    boss = Agent("Boss", tools=[kid.as_tool()], model=model)

    first = await go(boss, "go")
    state = first.to_state()
    state.approve(first.interruptions[0])
    second = await go(boss, state)
    result = await approve_all(boss, second)

    assert locals_of([*first.interruptions, *second.interruptions]) == ["1.0/1.0", "2.0/1.0"]
    assert traces.ran == ["pay 1", "pay 1"]
    assert result.final_output == "go: done"


async def test_a_fork_of_a_run_with_nested_pauses_is_independent():
    traces = Traces()
    crew = team(traces)
    state = (await go(crew.boss, "go")).to_state()
    twin = state.fork()
    for item in state.get_interruptions():
        state.approve(item)
    for item in twin.get_interruptions():
        twin.reject(item)

    result, other = await go(crew.boss, state), await go(crew.boss, twin)

    assert result.final_output == other.final_output == "go: done"
    assert sorted(traces.ran) == EFFECTS


async def test_what_waits_in_a_nested_run_is_told_in_the_outer_stream():
    crew = team(Traces())
    result = Runner.run_streamed(crew.boss, "go")
    async with asyncio.timeout(SECONDS):
        events = [event async for event in result.stream_events()]
    seen = [event.item.id for event in events if getattr(event, "name", "") == "tool_approval_requested"]

    assert sorted(seen) == sorted(item.id for item in result.interruptions)
    assert len(seen) == len(LEAVES)


async def test_decisions_made_while_the_nested_run_is_on_its_way_are_taken_in():
    traces = Traces()
    held: list[object] = []

    @function_tool
    async def watch() -> str:
        await asyncio.wait_for(seen.wait(), SECONDS)
        result.context_wrapper.approve_tool(held[0])
        return "approved it"

    kid = scripted("Kid", [[call("pay", 1, "c1"), call("watch")], done("kid done")], traces.gated(), watch)
    boss = scripted("Boss", [[ask("kid", "work")], done()], kid.as_tool())
    seen = asyncio.Event()
    result = Runner.run_streamed(boss, "go")
    async with asyncio.timeout(SECONDS):
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_approval_requested":
                held.append(event.item)
                seen.set()

    assert result.final_output == "done"
    assert traces.ran == ["pay 1"]

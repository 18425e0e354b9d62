"""Resuming: the six cases, streamed or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Agent, MaxTurnsExceeded, RunConflict, RunFinished, Runner, RunState, StaleApproval, StoreError
from placet.testing import CrashingStore
from tests.runtime.scenes import (
    Interrupted,
    OwnStore,
    Tools,
    call,
    done,
    events_of,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    within,
)

pytestmark = pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])


def two_gated(tools: Tools) -> Agent[Any]:
    return scripted(
        [[call("pay", 1, "a"), call("look", 2, "b"), call("pay", 3, "c")], done("bye")], tools.gated(), tools.free()
    )


async def test_1_a_run_that_the_store_does_not_know_is_taken_over(streamed: bool) -> None:
    tools, elsewhere = Tools(), OwnStore()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed)).to_state()
    for item in state.get_interruptions():
        state.approve(item)
    result = await go(agent, await reloaded(agent, state), streamed, store=elsewhere)
    stored = await elsewhere.load(state.run_id)

    assert result.final_output == "bye"
    assert result.run_id == state.run_id
    assert sorted(tools.ran) == [("look", 2), ("pay", 1), ("pay", 3)]
    assert stored is not None


async def test_1_a_run_that_was_taken_over_without_going_on_is_known_from_then_on(streamed: bool) -> None:
    tools, elsewhere = Tools(), OwnStore()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed)).to_state()
    result = await go(agent, state, streamed, store=elsewhere)
    stored = await elsewhere.load(state.run_id)

    assert len(result.interruptions) == 2
    assert stored is not None
    assert stored.length == len(result.to_state()._log)


async def test_2_an_older_snapshot_goes_on_from_the_stores_end(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    newer = await reloaded(agent, old)
    newer.approve("a")
    await go(agent, newer, streamed)
    old.reject("c", rejection_message="no")
    result = await go(agent, old, streamed)

    assert result.final_output == "bye"
    assert tools.ran == [("look", 2), ("pay", 1)]
    assert outputs(agent) == ["pay 1", "look 2", "no"]


async def test_2_an_older_snapshot_without_decisions_repeats_nothing(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    newer = await reloaded(agent, old)
    newer.approve("a")
    await go(agent, newer, streamed)
    result = await go(agent, old, streamed)

    assert [item.call_id for item in result.interruptions] == ["c"]
    assert tools.ran == [("look", 2), ("pay", 1)]


async def test_2_a_contradicting_decision_raises_before_anything_runs_and_nothing_of_it_is_stored(
    streamed: bool,
) -> None:
    tools, store = Tools(), OwnStore()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed, store=store)).to_state()
    newer = await reloaded(agent, old)
    newer.approve("a", by="ann")
    await go(agent, newer, streamed, store=store)
    length = (await store.load(old.run_id)).length  # type: ignore[union-attr]
    old.approve("c")
    old.reject("a", by="bob")
    with pytest.raises(StaleApproval, match="ann"):
        await go(agent, old, streamed, store=store)

    assert tools.ran == [("look", 2), ("pay", 1)]
    assert (await store.load(old.run_id)).length == length  # type: ignore[union-attr]


async def test_2_two_snapshots_of_one_pause_decided_differently_one_after_the_other(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    one = (await go(agent, "go", streamed)).to_state()
    other = await reloaded(agent, one)
    one.approve("a")
    other.approve("c")
    first = await go(agent, one, streamed)
    second = await go(agent, other, streamed)

    assert [item.call_id for item in first.interruptions] == ["c"]
    assert second.final_output == "bye"
    assert sorted(tools.ran) == [("look", 2), ("pay", 1), ("pay", 3)]


async def test_3_a_store_that_knows_less_takes_over_what_the_state_knows(streamed: bool) -> None:
    tools, behind, ahead = Tools(), OwnStore(), OwnStore()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed, store=behind)).to_state()
    state.approve("a")
    later = (await go(agent, state, streamed, store=ahead)).to_state()
    later.approve("c")
    result = await go(agent, await reloaded(agent, later), streamed, store=behind)

    assert result.final_output == "bye"
    assert sorted(tools.ran) == [("look", 2), ("pay", 1), ("pay", 3)]


async def test_4_logs_that_differ_are_a_conflict_and_nothing_runs(streamed: bool) -> None:
    tools, one, other = Tools(), OwnStore(), OwnStore()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed, store=one)).to_state()
    twin = await reloaded(agent, state)
    state.reject("a")
    twin.approve("a")
    await go(agent, state, streamed, store=one)
    later = (await go(agent, twin, streamed, store=other)).to_state()
    ran = list(tools.ran)
    with pytest.raises(RunConflict):
        await go(agent, later, streamed, store=one)

    assert tools.ran == ran


async def test_5_a_run_that_somebody_drives_is_a_conflict_at_once(streamed: bool) -> None:
    scene = Interrupted(needs_approval=True)
    state = (await go(scene.agent, "go", streamed)).to_state()
    state.approve(state.get_interruptions()[0])
    driver = asyncio.ensure_future(Runner.run(scene.agent, state))
    await within(scene.started.wait())
    with pytest.raises(RunConflict):
        await go(scene.agent, await reloaded(scene.agent, state), streamed)
    driver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(driver)

    assert scene.seen == [7]


async def test_5_of_two_resumptions_at_the_same_time_one_runs_each_effect_once(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed)).to_state()
    state.approve("a")
    state.approve("c")
    text = state.to_string()
    states = [await RunState.from_string(agent, text) for _ in range(5)]
    results = await asyncio.gather(*(go(agent, each, streamed) for each in states), return_exceptions=True)
    kinds = [type(result).__name__ for result in results]

    assert sorted(tools.ran) == [("look", 2), ("pay", 1), ("pay", 3)]
    assert set(kinds) <= {"RunResult", "RunResultStreaming", "RunConflict"}
    assert any(kind.startswith("RunResult") for kind in kinds)
    assert len(model_of(agent).calls) == 2


async def test_5_after_a_drive_that_failed_the_run_can_be_driven_again(streamed: bool) -> None:
    agent = scripted([ConnectionError("x"), done()])
    with pytest.raises(ConnectionError) as caught:
        await go(agent, "go", streamed)

    assert (await go(agent, caught.value.state, streamed)).final_output == "done"  # type: ignore[attr-defined]


async def test_6_an_ended_run_gives_its_recorded_result_and_asks_no_model(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    decided = await reloaded(agent, old)
    decided.approve("a", by="ann")
    decided.reject("c")
    final = await go(agent, decided, streamed)
    for state in (old, decided, final.to_state(), await reloaded(agent, decided)):
        again = await go(agent, state, streamed)
        assert again.final_output == "bye"
        assert again.interruptions == []
        assert again.context_wrapper.usage.requests == 2

    assert len(model_of(agent).calls) == 2
    assert tools.ran == [("look", 2), ("pay", 1)]


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_6_a_new_decision_about_an_ended_run_is_refused(streamed: bool, verb: str) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    decided = await reloaded(agent, old)
    decided.approve("a")
    decided.reject("c")
    await go(agent, decided, streamed)
    getattr(old, verb)("c" if verb == "approve" else "a")
    with pytest.raises(RunFinished):
        await go(agent, old, streamed)

    assert tools.ran == [("look", 2), ("pay", 1)]


async def test_6_a_new_grant_for_an_ended_run_is_refused(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    decided = await reloaded(agent, old)
    decided.approve("a")
    decided.approve("c")
    await go(agent, decided, streamed)
    old.approve("a", always_approve=True)
    with pytest.raises(RunFinished):
        await go(agent, old, streamed)


async def test_6_an_equal_decision_about_an_ended_run_is_ignored(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    decided = await reloaded(agent, old)
    decided.approve("a")
    decided.reject("c")
    await go(agent, decided, streamed)
    old.approve("a", by="late")

    assert (await go(agent, old, streamed)).final_output == "bye"


async def test_6_an_ended_state_that_the_store_does_not_know_gives_its_result_too(streamed: bool) -> None:
    agent = scripted([done("bye")])
    state = (await go(agent, "go", streamed)).to_state()
    result = await go(agent, await reloaded(agent, state), streamed, store=OwnStore(), max_turns=3)

    assert result.final_output == "bye"
    assert len(model_of(agent).calls) == 1


async def test_6_what_one_asks_of_an_ended_run_does_not_change_what_another_gets(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    old = (await go(agent, "go", streamed)).to_state()
    decided = await reloaded(agent, old)
    decided.approve("a")
    decided.reject("c")
    final = await go(agent, decided, streamed)
    await go(agent, old, streamed)  # knows less of the history than the next one
    again = await go(agent, final.to_state(), streamed)

    assert again.to_input_list() == final.to_input_list()
    assert len(again.new_items) == len(final.new_items)


# -- around the six ----------------------------------------------------------------------------------------------------


async def test_a_run_can_be_resumed_by_a_rebuilt_agent(streamed: bool) -> None:
    tools = Tools()
    state = (await go(two_gated(tools), "go", streamed)).to_state()
    rebuilt = scripted([done("bye")], tools.gated(), tools.free())
    loaded = await reloaded(rebuilt, state)
    for item in loaded.get_interruptions():
        loaded.approve(item)
    result = await go(rebuilt, loaded, streamed)

    assert result.final_output == "bye"
    assert result.last_agent is rebuilt


async def test_a_context_given_at_resumption_takes_the_place_of_the_stored_one(streamed: bool) -> None:
    agent = scripted([[call("pay", 1, "a")], done()], Tools().gated())
    state = (await go(agent, "go", streamed, context={"v": 1})).to_state()
    kept = await go(agent, state, streamed)
    replaced = await go(agent, state, streamed, context={"v": 2})

    assert kept.context_wrapper.context == {"v": 1}
    assert replaced.context_wrapper.context == {"v": 2}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("append", range(1, 7))
async def test_a_crash_at_any_write_loses_no_decision_and_repeats_no_effect(
    streamed: bool, when: Any, append: int
) -> None:
    tools = Tools()
    store = CrashingStore(OwnStore())
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed, store=store)).to_state()
    state.approve("a")
    state.reject("c", rejection_message="no")
    store.crash_at(append, when)
    try:
        result = await go(agent, state, streamed, store=store)
    except (StoreError, RunConflict):
        model_of(agent).add(done("bye"))
        result = await go(agent, state, streamed, store=store)
    if result.interruptions:
        assert [item.kind for item in result.interruptions] == ["in_doubt"]
        later = result.to_state()
        later.respond(result.interruptions[0], "looked it up")
        model_of(agent).add(done("bye"))
        result = await go(agent, later, streamed, store=store)

    assert result.final_output == "bye"
    assert tools.ran.count(("pay", 1)) <= 1
    assert ("pay", 3) not in tools.ran
    assert outputs(agent)[0] in {"pay 1", "looked it up"}
    assert outputs(agent)[1:] == ["look 2", "no"]


async def test_an_error_that_came_before_the_decisions_were_stored_carries_them_in_its_state(streamed: bool) -> None:
    tools = Tools()
    store = CrashingStore(OwnStore())
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed, store=store)).to_state()
    state.approve("a")
    state.reject("c", rejection_message="no")
    store.crash_at(1, "before")
    with pytest.raises(StoreError) as caught:
        await go(agent, state, streamed, store=store)
    result = await go(agent, caught.value.state, streamed, store=store)

    assert result.final_output == "bye"
    assert outputs(agent) == ["pay 1", "look 2", "no"]


async def test_a_stop_for_want_of_turns_can_be_resumed_any_number_of_times(streamed: bool) -> None:
    tools = Tools()
    agent = scripted([[call("look", n, f"c{n}")] for n in range(3)] + [done()], tools.free())
    given: Any = "go"
    for limit in (1, 2, 3):
        with pytest.raises(MaxTurnsExceeded) as caught:
            await go(agent, given, streamed, max_turns=limit)
        given = await reloaded(agent, caught.value.state)  # type: ignore[arg-type]

    assert (await go(agent, given, streamed, max_turns=4)).final_output == "done"
    assert [n for _, n in tools.ran] == [0, 1, 2]


async def test_a_result_can_be_made_a_state_many_times_and_each_is_resumable(streamed: bool) -> None:
    agent = scripted([[call("pay", 1, "a")]], Tools().gated())
    result = await go(agent, "go", streamed)
    states = [result.to_state() for _ in range(3)]

    assert len({state.to_string() for state in states}) == 1
    for state in states:
        assert len((await go(agent, state, streamed)).interruptions) == 1


async def test_a_state_that_is_being_decided_on_elsewhere_is_not_changed_by_a_run(streamed: bool) -> None:
    tools = Tools()
    agent = two_gated(tools)
    state = (await go(agent, "go", streamed)).to_state()
    state.approve("a")
    text = state.to_string()
    if streamed:
        await events_of(Runner.run_streamed(agent, state))
    else:
        await go(agent, state)

    assert state.to_string() == text

"""P5: a decision is never lost."""

import asyncio

import pytest

from placet import (
    MemoryStore,
    NotPending,
    RunConflict,
    RunContextWrapper,
    RunState,
    StaleApproval,
    ToolApprovalItem,
    ToolContext,
    ToolError,
    UserError,
    function_tool,
)
from placet.testing import Crash, CrashingStore, function_call
from tests.promises.scenes import (
    DONE,
    SECONDS,
    approve_all,
    cleanup,
    drive,
    facts,
    item_of,
    outcome_of,
    refund,
    reloaded,
    scene,
)

pytestmark = pytest.mark.promise("P5")

TWO = [cleanup("/a", "c1"), refund(1, "r1")]


async def test_two_reviewers_decide_different_calls_on_copies_and_merge_brings_both_together():
    ops = scene(TWO, DONE)
    paused = await drive(ops.agent, "go")
    mine, theirs = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    mine.approve(item_of(mine, "c1"), by="ann", reason="checked")
    theirs.reject(item_of(theirs, "r1"), by="bob", rejection_message="too late")

    merged = mine.merge(await reloaded(ops.agent, theirs))
    result = await drive(ops.agent, await reloaded(ops.agent, merged))

    assert merged is mine
    assert ops.sent(1) == [("c1", "cleaned /a"), ("r1", "too late")]
    decided = {fact[1]: (fact[4], fact[5], fact[7]) for fact in facts(result) if fact[0] == "decide"}
    assert decided == {"1.0": ("approve", "ann", "checked"), "1.1": ("reject", "bob", None)}


async def test_merging_contradicting_decisions_names_both_and_changes_nothing():
    ops = scene(TWO)
    paused = await drive(ops.agent, "go")
    mine, theirs = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    mine.approve(item_of(mine, "c1"), by="ann")
    theirs.approve(item_of(theirs, "r1"), by="bob")
    theirs.reject(item_of(theirs, "c1"), by="bob")
    before = mine.to_string()

    with pytest.raises(StaleApproval, match=r"'approve' by ann.*'reject' by bob"):
        mine.merge(theirs)

    assert mine.to_string() == before


async def test_merging_equal_decisions_keeps_one_and_another_run_is_refused():
    ops = scene(TWO, TWO, DONE)
    paused, foreign = await drive(ops.agent, "go"), await drive(ops.agent, "go")
    mine, theirs = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    mine.approve(item_of(mine, "c1"), by="ann")
    theirs.approve(item_of(theirs, "c1"), by="bob")

    mine.merge(theirs)
    result = await drive(ops.agent, mine)

    assert [fact[5] for fact in facts(result) if fact[0] == "decide"] == ["ann"]
    with pytest.raises(UserError, match="cannot be merged"):
        mine.merge(foreign.to_state())


async def test_partial_decisions_in_any_order_from_old_snapshots_all_arrive():
    calls = [cleanup(f"/{n}", f"c{n}") for n in range(4)]
    ops = scene(calls, DONE)
    text = (await drive(ops.agent, "go")).to_state().to_string()

    result = None
    for label in ("c2", "c0", "c3", "c1"):  # each reviewer holds the very first snapshot
        state = await RunState.from_string(ops.agent, text)
        state.approve(item_of(state, label))
        result = await drive(ops.agent, state)

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /2", "cleanup /0", "cleanup /3", "cleanup /1"]
    assert ops.sent(1) == [(f"c{n}", f"cleaned /{n}") for n in range(4)]


async def test_decided_calls_go_on_while_the_others_stay_pending():
    ops = scene(TWO, DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go"))
    state.approve(item_of(state, "r1"))

    halfway = await drive(ops.agent, state)

    assert ops.effects == ["refund 1"]
    assert [item.call_id for item in halfway.interruptions] == ["c1"]
    assert len(ops.model.calls) == 1


async def test_decisions_made_at_the_same_time_on_two_copies_both_count_although_only_one_may_drive():
    begun, go_on = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "slow done"

    ops = scene([function_call("slow", {}, call_id="s1"), refund(1, "r1")], DONE, tools=(slow,))
    paused = await drive(ops.agent, "go")
    one, other = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    one.approve(item_of(one, "s1"))
    other.approve(item_of(other, "r1"))
    first = asyncio.create_task(drive(ops.agent, one))
    await asyncio.wait_for(begun.wait(), SECONDS)

    too_early = await outcome_of(drive(ops.agent, other))
    go_on.set()
    await first
    result = await drive(ops.agent, other)

    assert isinstance(too_early, RunConflict)
    assert result.final_output == "done"
    assert ops.sent(1) == [("s1", "slow done"), ("r1", "refunded 1")]


async def test_a_decision_made_on_the_running_runs_context_lets_its_call_go_on():
    @function_tool
    async def supervisor(ctx: ToolContext) -> str:
        ctx.approve_tool("c1")
        ctx.reject_tool("r1", rejection_message="not today")
        return "decided"

    ops = scene([*TWO, function_call("supervisor", {}, call_id="s1")], DONE, tools=(supervisor,))

    result = await drive(ops.agent, "go")

    assert result.final_output == "done"
    assert ops.sent(1) == [("c1", "cleaned /a"), ("r1", "not today"), ("s1", "decided")]


async def test_an_unknown_id_is_an_error_that_names_what_is_pending():
    ops = scene(TWO)
    state = (await drive(ops.agent, "go")).to_state()
    stranger = ToolApprovalItem(ops.agent, cleanup("/elsewhere", "c9"))

    for unknown in (stranger, "c9", f"{state.run_id}:7.7"):
        with pytest.raises(NotPending) as refused:
            state.approve(unknown)

        assert refused.value.pending == ("1.0", "1.1")
        assert 'cleanup({"path": "/a"}) [c1]' in str(refused.value)


async def test_an_item_of_another_run_is_refused():
    ops = scene(TWO, TWO)
    one, other = await drive(ops.agent, "go"), await drive(ops.agent, "go")

    with pytest.raises(UserError, match="another run"):
        one.to_state().approve(other.interruptions[0])


async def test_while_a_sibling_raises_the_other_decisions_are_kept_and_their_bodies_recorded():
    @function_tool(needs_approval=True, failure_error_function=None)
    async def fatal() -> str:
        raise OSError("no disk")

    ops = scene([function_call("fatal", {}, call_id="f1"), *TWO], DONE, tools=(fatal,))
    state = await reloaded(ops.agent, await drive(ops.agent, "go"))
    state.approve(item_of(state, "f1"))
    state.approve(item_of(state, "c1"))

    with pytest.raises(ToolError, match="no disk") as failed:
        await drive(ops.agent, state)
    again = await drive(ops.agent, await reloaded(ops.agent, failed.value.state))
    await approve_all(ops.agent, again)

    assert [item.call_id for item in again.interruptions] == ["r1"]
    assert ops.effects == ["cleanup /a", "refund 1"]
    assert [label for label, _ in ops.sent(1)] == ["f1", "c1", "r1"]


async def test_until_a_run_is_resumed_the_last_word_counts():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    item = state.get_interruptions()[0]
    state.approve(item)
    state.respond(item, "no need")
    state.reject(item, rejection_message="changed my mind")

    await drive(ops.agent, await reloaded(ops.agent, state))

    assert ops.effects == []
    assert ops.sent(1) == [("c1", "changed my mind")]


async def test_who_decided_when_and_why_is_in_the_log():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], by="ann", reason="ticket 7")

    result = await drive(ops.agent, state)
    (decision,) = [fact for fact in facts(result) if fact[0] == "decide"]

    assert decision[4:6] == ["approve", "ann"]
    assert decision[6] > 0
    assert decision[7] == "ticket 7"


async def test_a_decision_made_by_hand_before_the_run_survives_serialization_and_meets_its_call():
    ops = scene([cleanup("/a", "c1")], DONE)
    wrapper = RunContextWrapper(None)
    state = RunState(wrapper, "go", ops.agent)
    state.approve(ToolApprovalItem(ops.agent, cleanup("/a", "c1")))

    result = await drive(ops.agent, await reloaded(ops.agent, state))

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a"]


async def test_a_no_given_by_hand_goes_with_a_fork():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = RunState(RunContextWrapper(None), "go", ops.agent)
    state.reject(ToolApprovalItem(ops.agent, cleanup("/a", "c1")))

    result = await drive(ops.agent, state.fork())

    assert result.final_output == "done"
    assert ops.effects == []


async def test_an_always_given_by_hand_holds_after_a_pause():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1")], [cleanup("/b", "c2")], DONE)
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(ToolApprovalItem(ops.agent, cleanup("/a", "c1")), always_approve=True)

    paused = await drive(ops.agent, RunState(wrapper, "go", ops.agent))
    result = await approve_all(ops.agent, paused)

    assert [item.call_id for item in paused.interruptions] == ["r1"]
    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a", "refund 1", "cleanup /b"]


async def test_a_decision_that_the_store_could_not_take_is_still_in_the_state_of_the_error():
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go", store=store)).to_state()
    state.approve(state.get_interruptions()[0], by="ann")
    store.crash_at(1, "before")

    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, state, store=store)
    result = await drive(ops.agent, await reloaded(ops.agent, crashed.value.state), store=store)

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a"]

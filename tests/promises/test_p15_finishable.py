"""P15, as far as a library without deadlines and sessions goes: every request can be ended, and late is late."""

import asyncio

import pytest

from placet import (
    MemoryStore,
    NotPending,
    RunConfig,
    RunFinished,
    Runner,
    RunState,
    StaleApproval,
    ToolContext,
    function_tool,
)
from placet.facts.events import DecisionMade
from placet.runtime.gating import EXPIRED
from placet.testing import Crash, CrashingStore, ManualClock, function_call
from tests.promises.scenes import DONE, approve_all, cleanup, drive, item_of, refund, reloaded, scene

pytestmark = pytest.mark.promise("P15")

ENDINGS = {
    "approved": (lambda state, item: state.approve(item), "cleaned /a"),
    "edited": (lambda state, item: state.approve(item, arguments={"path": "/b"}), "cleaned /b"),
    "rejected": (lambda state, item: state.reject(item), "Tool execution was not approved."),
    "answered": (lambda state, item: state.respond(item, {"freed": 7}), '{"freed":7}'),
}


@pytest.mark.parametrize(("decide", "reads"), ENDINGS.values(), ids=ENDINGS)
async def test_every_way_to_end_a_request_gives_the_model_one_readable_output(decide, reads):
    ops = scene([cleanup("/a", "c1")], DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go"))
    decide(state, state.get_interruptions()[0])

    result = await drive(ops.agent, state)
    ((label, output),) = ops.sent(1)

    assert result.final_output == "done"
    assert label == "c1"
    assert output.splitlines()[-1] == reads


@pytest.mark.parametrize("word", ["approve", "respond", "reject"])
async def test_every_doubt_can_be_ended(word):
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go", store=store)).to_state()
    state.approve(state.get_interruptions()[0])
    store.crash_at(2, "before")
    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, state, store=store)
    state = (await drive(ops.agent, crashed.value.state, store=store)).to_state()
    item = state.get_interruptions()[0]
    state.respond(item, "it happened") if word == "respond" else getattr(state, word)(item)

    result = await drive(ops.agent, state, store=store)

    assert result.final_output == "done"
    assert len(ops.sent(1)) == 1


async def test_a_late_answer_about_an_ended_call_is_refused_and_changes_nothing():
    ops = scene([cleanup("/a", "c1")], [refund(1, "r1")], DONE)
    paused = await drive(ops.agent, "go")
    state, late = paused.to_state(), paused.to_state()
    state.reject(state.get_interruptions()[0])
    late.approve(late.get_interruptions()[0])
    second = await drive(ops.agent, state)

    with pytest.raises(StaleApproval):
        await drive(ops.agent, late)
    with pytest.raises(NotPending):
        second.to_state().approve(paused.interruptions[0])
    result = await approve_all(ops.agent, second)

    assert result.final_output == "done"
    assert ops.effects == ["refund 1"]


async def test_a_late_answer_after_the_end_of_the_run_is_refused_and_the_result_stands():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    state, late = paused.to_state(), paused.to_state()
    state.respond(state.get_interruptions()[0], "by hand")
    late.approve(late.get_interruptions()[0], by="bob")
    await drive(ops.agent, state)

    with pytest.raises(RunFinished):
        await drive(ops.agent, late)

    assert (await drive(ops.agent, state)).final_output == "done"
    assert ops.effects == []


async def test_a_run_that_was_stopped_after_its_turn_goes_on_when_it_is_resumed():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(ops.agent, state)
    result.cancel("after_turn")
    async with asyncio.timeout(120):
        async for _ in result.stream_events():
            pass

    asked_when_stopped = len(ops.model.calls)
    final = await drive(ops.agent, result.to_state())

    assert asked_when_stopped == 1
    assert final.final_output == "done"
    assert ops.effects == ["cleanup /a"]


async def test_a_pending_call_does_not_keep_its_siblings_from_ending():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1"), refund(2, "r2")], DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go"))
    state.approve(item_of(state, "r1"))
    state.reject(item_of(state, "r2"))

    halfway = await drive(ops.agent, state)

    assert ops.effects == ["refund 1"]
    assert [item.call_id for item in halfway.interruptions] == ["c1"]


@pytest.mark.parametrize("door", ["state", "staged", "context", "grant"])
async def test_a_word_after_the_deadline_is_refused_by_the_library_too_and_changes_nothing(door):
    clock = ManualClock()
    config = RunConfig(clock=clock)

    @function_tool(needs_approval=True, decide_within=60)
    async def pay(cents: int) -> str:
        ops.effects.append(f"pay {cents}")
        return "paid"

    calls = [function_call("pay", {"cents": cents}, call_id=f"p{cents}") for cents in (1, 2)]
    ops = scene(calls, DONE, tools=(pay,))
    state = (await drive(ops.agent, "go", run_config=config)).to_state()
    if door == "staged":  # said by a clock that runs ahead, brought by a text
        ahead = await RunState.from_string(ops.agent, state.to_string(), clock=ManualClock(clock.now() + 61))
        with pytest.raises(StaleApproval, match="too late"):
            ahead.approve(item_of(ahead, "p1"))
        ledger = ahead.context._ledger
        entry = ledger.entry("1.0")
        ledger.stage([DecisionMade("1.0", 1, entry.digest, "approve", None, clock.now() + 60)])
        with pytest.raises(StaleApproval, match="too late"):
            await drive(ops.agent, ahead, run_config=config)
    elif door == "grant":  # in time for one call, and no later for the other
        clock.advance(59)
        state.approve(item_of(state, "p1"), always_approve=True)
        state.context._ledger._staged.clear()
        clock.advance(2)
    else:
        clock.advance(60)
        say = state.approve if door == "state" else state.context.approve_tool
        with pytest.raises(StaleApproval, match="too late"):
            say(item_of(state, "p1"), by="late")
        with pytest.raises(StaleApproval, match="too late"):
            state.reject(item_of(state, "p1"), by="late")
    clock.advance(60)

    result = await drive(ops.agent, state, run_config=config)

    assert ops.effects == []
    assert [text for _, text in ops.sent(1)] == [EXPIRED] * 2
    assert result.final_output == "done"


async def test_a_standing_decision_that_is_heard_after_the_deadline_decides_no_sibling():
    clock = ManualClock()
    config = RunConfig(clock=clock)

    @function_tool
    async def slow(ctx: ToolContext) -> str:
        clock.advance(59)
        ctx.approve_tool("p1", always_approve=True)  # in time for the call that it is said about
        clock.advance(2)  # heard by the loop when the time of the other one is over
        return "slow"

    @function_tool(needs_approval=True, decide_within=60)
    async def pay(cents: int) -> str:
        ops.effects.append(f"pay {cents}")
        return "paid"

    calls = [function_call("pay", {"cents": cents}, call_id=f"p{cents}") for cents in (1, 2)]
    ops = scene([function_call("slow", {}, call_id="s"), *calls], DONE, tools=(slow, pay))
    paused = await drive(ops.agent, "go", run_config=config)
    paid_at_once = list(ops.effects)

    result = await drive(ops.agent, paused.to_state(), run_config=config)

    assert paid_at_once == ops.effects == ["pay 1"]
    assert dict(ops.sent(1))["p2"] == EXPIRED
    assert result.final_output == "done"


async def test_what_was_decided_in_time_counts_when_it_is_carried_out_later():
    clock = ManualClock()
    config = RunConfig(clock=clock)

    @function_tool(needs_approval=True, decide_within=60)
    async def pay(cents: int) -> str:
        ops.effects.append(f"pay {cents}")
        return "paid"

    ops = scene([function_call("pay", {"cents": 1}, call_id="p1")], DONE, tools=(pay,))
    state = (await drive(ops.agent, "go", run_config=config)).to_state()
    clock.advance(59)
    state.approve(item_of(state, "p1"))
    clock.advance(600)

    await drive(ops.agent, state, run_config=config)

    assert ops.effects == ["pay 1"]

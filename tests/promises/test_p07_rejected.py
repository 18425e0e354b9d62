"""P7: no path reaches the body of a rejected call."""

import pytest

from placet import (
    RunConfig,
    RunContextWrapper,
    RunFinished,
    RunState,
    StaleApproval,
    StopAtTools,
    ToolApprovalItem,
    ToolContext,
    function_tool,
)
from placet.testing import ManualClock, function_call
from tests.promises.scenes import DONE, cleanup, drive, item_of, outcome_of, refund, reloaded, scene

pytestmark = pytest.mark.promise("P7")


@pytest.mark.parametrize("through_string", [False, True], ids=["held", "through a string"])
async def test_a_rejection_beats_an_always_approve_given_before_or_after_it(through_string):
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2"), cleanup("/c", "c3")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    first, second, third = state.get_interruptions()
    state.reject(first)
    state.approve(second, always_approve=True)
    state.reject(third)
    state = await reloaded(ops.agent, state) if through_string else state

    await drive(ops.agent, state)

    assert ops.effects == ["cleanup /b"]


async def test_the_call_on_which_always_was_said_can_itself_be_rejected():
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    first, _ = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.reject(first)

    result = await drive(ops.agent, state)

    assert ops.effects == []
    assert [item.call_id for item in result.interruptions] == ["c2"]


async def test_a_rejection_in_a_later_turn_beats_an_always_approve_of_an_earlier_one():
    @function_tool
    async def supervisor(ctx: ToolContext) -> str:
        return str(ctx.is_tool_approved("cleanup", "c1"))

    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], DONE, tools=(supervisor,))
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    paused = await drive(ops.agent, state)
    state = paused.to_state()
    state.approve(item_of(state, "c2"), always_approve=True)
    state.reject(item_of(state, "c2"))

    await drive(ops.agent, state)

    assert ops.effects == ["cleanup /a"]


async def test_the_newer_of_two_always_counts_even_if_the_clock_stood_still_in_between():
    config = RunConfig(clock=ManualClock())
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], DONE)
    state = (await drive(ops.agent, "go", run_config=config)).to_state()
    item = state.get_interruptions()[0]
    state.approve(item, always_approve=True)
    state.reject(item, always_reject=True, rejection_message="never")

    await drive(ops.agent, state, run_config=config)

    assert ops.effects == []
    assert ops.sent(2)[-1] == ("c2", "never")


async def test_an_always_reject_holds_in_later_turns_and_after_serialization_until_somebody_says_otherwise():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], always_reject=True, rejection_message="never")
    second = await drive(ops.agent, await reloaded(ops.agent, state))
    state = await reloaded(ops.agent, second)
    state.approve(state.get_interruptions()[0])

    result = await drive(ops.agent, state)

    assert [item.call_id for item in second.interruptions] == ["r1"]
    assert result.final_output == "done"
    assert ops.effects == ["refund 1"]
    assert [output for _, output in ops.sent(3)] == ["never", "never", "refunded 1", "never"]


async def test_deny_finish_and_resume_again_with_approval_is_refused():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    denied, approved = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    denied.reject(item_of(denied, "c1"))
    approved.approve(item_of(approved, "c1"), always_approve=True)
    first = await drive(ops.agent, denied)

    late = await outcome_of(drive(ops.agent, approved))
    recorded = await drive(ops.agent, paused.to_state())

    assert isinstance(late, RunFinished)
    assert recorded.final_output == first.final_output
    assert ops.effects == []


async def test_deny_and_approve_from_another_snapshot_while_a_sibling_waits_is_refused():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1")], DONE)
    paused = await drive(ops.agent, "go")
    denied, approved = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    denied.reject(item_of(denied, "c1"))
    for item in approved.get_interruptions():
        approved.approve(item)
    await drive(ops.agent, denied)

    with pytest.raises(StaleApproval):
        await drive(ops.agent, approved)

    assert ops.effects == []


async def test_a_rejection_made_by_hand_before_the_run_reaches_the_call_despite_an_always_approve():
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2")], DONE)
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(ToolApprovalItem(ops.agent, cleanup("/a", "c1")), always_approve=True)
    wrapper.reject_tool(ToolApprovalItem(ops.agent, cleanup("/b", "c2")), rejection_message="not /b")

    await drive(ops.agent, RunState(wrapper, "go", ops.agent))

    assert ops.effects == ["cleanup /a"]
    assert ops.sent(1) == [("c1", "cleaned /a"), ("c2", "not /b")]


async def test_what_the_model_reads_of_a_rejection_comes_from_the_decision_the_grant_the_formatter_or_us():
    config = RunConfig(tool_error_formatter=lambda args: f"{args.tool_name} was refused")
    calls = [cleanup("/a", "own"), refund(1, "empty"), refund(2, "grant"), function_call("other", {}, call_id="none")]

    @function_tool(needs_approval=True)
    async def other() -> str:
        return "ran"

    read = []
    for given in (config, None):
        ops = scene(calls, DONE, tools=(other,))
        state = (await drive(ops.agent, "go", run_config=given)).to_state()
        state.reject(item_of(state, "own"), rejection_message="not now")
        state.reject(item_of(state, "empty"), rejection_message="")
        state.reject(item_of(state, "grant"), always_reject=True, rejection_message="never refund")
        state.reject(item_of(state, "none"))
        await drive(ops.agent, state, run_config=given)
        read.append([output for _, output in ops.sent(1)])

    assert read == [
        ["not now", "", "never refund", "other was refused"],
        ["not now", "", "never refund", "Tool execution was not approved."],
    ]


async def test_the_text_of_a_rejected_call_is_never_the_final_output():
    ops = scene([cleanup("/a", "c1")], DONE, tool_use_behavior=StopAtTools(stop_at_tool_names=["cleanup"]))
    state = (await drive(ops.agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no")

    result = await drive(ops.agent, state)

    assert result.final_output == "done"


async def test_an_approval_that_is_withdrawn_on_the_running_run_before_the_next_look_does_not_run():
    @function_tool
    async def supervisor(ctx: ToolContext) -> str:
        ctx.approve_tool("c1", always_approve=True)
        ctx.reject_tool("c1")
        return "decided"

    ops = scene([cleanup("/a", "c1"), function_call("supervisor", {}, call_id="s1")], DONE, tools=(supervisor,))

    await drive(ops.agent, "go")

    assert ops.effects == []

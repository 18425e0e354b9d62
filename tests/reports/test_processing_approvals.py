"""The report: processing approvals. What waits is a list; each is decided on its own; the record accumulates."""

from __future__ import annotations

import pytest

from placet import (
    Agent,
    ApprovalRecord,
    RunContextWrapper,
    RunState,
    ToolApprovalItem,
    ToolContext,
    UserError,
    function_tool,
)
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.promises.scenes import DONE, cleanup, diagnose, drive, item_of, refund, reloaded, scene

pytestmark = pytest.mark.promise("P5", "P7", "P16")

both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


@both_ways
async def test_a_paused_run_lists_its_pending_calls_and_one_that_does_not_wait_lists_none(streamed):
    ops = scene([cleanup("/a", "c1"), diagnose("d1"), refund(1, "r1")], DONE)
    by_hand = RunState(RunContextWrapper(None), "go", ops.agent)

    paused = await drive(ops.agent, "go", streamed=streamed)
    state = paused.to_state()
    pending = [(item.name, item.call_id) for item in state.get_interruptions()]
    for item in state.get_interruptions():
        state.approve(item)
    ended = await drive(ops.agent, state, streamed=streamed)

    assert by_hand.get_interruptions() == []
    assert pending == [("cleanup", "c1"), ("refund", "r1")]
    assert ended.interruptions == []
    assert ended.to_state().get_interruptions() == []


@both_ways
async def test_each_call_is_decided_on_its_own_and_only_the_approved_ones_run(streamed):
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2"), cleanup("/c", "c3")], DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go", streamed=streamed))
    state.approve(item_of(state, "c2"))
    state.reject(item_of(state, "c1"), rejection_message="keep /a")
    state.reject(item_of(state, "c3"))

    await drive(ops.agent, state, streamed=streamed)

    assert ops.effects == ["cleanup /b"]
    assert ops.sent(1) == [("c1", "keep /a"), ("c2", "cleaned /b"), ("c3", "Tool execution was not approved.")]


@pytest.mark.parametrize("through_string", [False, True], ids=["held", "through strings"])
async def test_decisions_accumulate_over_several_pauses_in_one_record_that_can_be_asked(through_string):
    ops = scene(
        [cleanup("/a", "c1"), refund(1, "r1")],
        [cleanup("/b", "c2"), refund(2, "r2")],
        [cleanup("/c", "c3"), refund(3, "r3")],
        DONE,
    )
    result = await drive(ops.agent, "go")
    for number, word in enumerate(["approve", "reject", "approve"], start=1):
        state = await reloaded(ops.agent, result) if through_string else result.to_state()
        getattr(state, word)(item_of(state, f"c{number}"))
        if number == 2:
            state.reject(item_of(state, "r2"), always_reject=True, rejection_message="no refunds")
        elif number == 1:
            state.approve(item_of(state, "r1"))
        result = await drive(ops.agent, state)

    record = result.context_wrapper.approvals
    context = result.context_wrapper

    assert result.final_output == "done"
    assert record["cleanup"] == ApprovalRecord(approved=("c1", "c3"), rejected=("c2",), always=None)
    assert record["refund"] == ApprovalRecord(approved=("r1",), rejected=("r2", "r3"), always="reject")
    assert [context.is_tool_approved("cleanup", f"c{n}") for n in (1, 2, 3)] == [True, False, True]
    assert context.get_rejection_message("refund", "r2") == "no refunds"
    assert ops.effects == ["cleanup /a", "refund 1", "cleanup /c"]


async def test_an_always_approve_is_remembered_and_later_calls_do_not_wait():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], [cleanup("/c", "c3")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)

    result = await drive(ops.agent, await reloaded(ops.agent, state))

    assert result.final_output == "done"
    assert result.context_wrapper.approvals["cleanup"] == ApprovalRecord(("c1", "c2", "c3"), (), "approve")
    assert ops.effects == ["cleanup /a", "cleanup /b", "cleanup /c"]


async def test_the_record_is_seen_on_the_state_before_the_run_is_resumed_and_the_last_word_stands():
    ops = scene([cleanup("/a", "c1")])
    state = (await drive(ops.agent, "go")).to_state()
    item = state.get_interruptions()[0]
    seen = [state.context.is_tool_approved("cleanup", "c1")]

    state.approve(item)
    seen.append(state.context.is_tool_approved("cleanup", "c1"))
    state.reject(item, rejection_message="on second thought")
    seen.append(state.context.is_tool_approved("cleanup", "c1"))

    assert seen == [None, True, False]
    assert state.context.get_rejection_message("cleanup", "c1") == "on second thought"
    assert state.context.approvals["cleanup"] == ApprovalRecord((), ("c1",), None)


async def test_tools_of_the_running_run_see_and_make_decisions():
    seen = []

    @function_tool
    async def clerk(ctx: ToolContext) -> str:
        seen.append(ctx.is_tool_approved("cleanup", "c1"))
        ctx.approve_tool("c1")
        seen.append(ctx.is_tool_approved("cleanup", "c1"))
        seen.append(ctx.fork().is_tool_approved("cleanup", "c1"))
        return "approved it"

    ops = scene([cleanup("/a", "c1"), function_call("clerk", {}, call_id="k1")], DONE, tools=(clerk,))

    result = await drive(ops.agent, "go")

    assert seen == [None, True, True]
    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a"]


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_state_without_context_refuses_to_decide(verb):
    agent = Agent(name="ops")
    state = RunState(None, "go", agent)
    item = ToolApprovalItem(agent, cleanup("/a", "c1"))

    with pytest.raises(UserError, match=f"Cannot {verb} tool: RunState has no context"):
        getattr(state, verb)(item)


async def test_a_state_whose_wrapper_holds_no_object_does_decide():
    agent = Agent(name="ops")
    state = RunState(RunContextWrapper(None), "go", agent)
    item = ToolApprovalItem(agent, cleanup("/a", "c1"))

    state.approve(item)
    loaded = await reloaded(agent, state)

    assert state.context.is_tool_approved("cleanup", "c1") is True
    assert loaded.context.is_tool_approved("cleanup", "c1") is True


async def test_a_state_without_context_still_refuses_after_it_was_stored():
    agent = Agent(name="ops")
    loaded = await reloaded(agent, RunState(None, "go", agent))

    with pytest.raises(UserError, match="has no context"):
        loaded.approve(ToolApprovalItem(agent, cleanup("/a", "c1")))


def test_a_wrapper_made_by_hand_keeps_ids_flags_and_messages_of_any_item():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper({"user": "ann"})
    first, second = ToolApprovalItem(agent, cleanup("/a", "c1")), ToolApprovalItem(agent, cleanup("/b", "c2"))

    wrapper.approve_tool(first)
    wrapper.reject_tool(second, rejection_message="no")
    wrapper.approve_tool(ToolApprovalItem(agent, refund(1, "r1"), tool_name="refund"), always_approve=True)

    assert wrapper.approvals == {
        "cleanup": ApprovalRecord(("c1",), ("c2",), None),
        "refund": ApprovalRecord(("r1",), (), "approve"),
    }
    assert wrapper.is_tool_approved("refund", "any other") is True
    assert wrapper.is_tool_approved("cleanup", "c9") is None
    assert wrapper.get_rejection_message("cleanup", "c2") == "no"


async def test_an_approval_item_from_the_result_is_found_on_an_agent_that_was_built_anew():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    twin = scene(name="ops").agent.clone(model=ScriptedModel([[assistant_message("done by the twin")]]))
    state = await reloaded(twin, paused)

    state.approve(paused.interruptions[0])
    result = await drive(twin, state)

    assert result.final_output == "done by the twin"

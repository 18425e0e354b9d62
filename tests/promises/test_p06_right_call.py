"""P6: a decision meets exactly its call, whatever labels the provider gives."""

import pytest

from placet import NotPending, StaleApproval, ToolApprovalItem
from placet.testing import function_call
from tests.promises.scenes import CHAINED, DONE, approve_all, cleanup, drive, labels, outputs, refund, reloaded, scene

pytestmark = pytest.mark.promise("P6")


@pytest.mark.parametrize("through_string", [False, True], ids=["held", "through a string"])
async def test_of_two_calls_with_one_label_the_approved_one_runs_and_the_other_does_not(through_string):
    ops = scene([cleanup("/a", "same"), cleanup("/b", "same")], DONE)
    paused = await drive(ops.agent, "go")
    state = await reloaded(ops.agent, paused) if through_string else paused.to_state()
    first, second = paused.interruptions
    state.reject(first, rejection_message="not /a")
    state.approve(second)

    await drive(ops.agent, state)
    sent = ops.model.calls[1].input

    assert first.id != second.id
    assert ops.effects == ["cleanup /b"]
    assert [output for _, output in outputs(sent)] == ["not /a", "cleaned /b"]
    assert labels(sent, "function_call") == labels(sent, "function_call_output")
    assert len(set(labels(sent, "function_call"))) == 2


async def test_equal_calls_with_one_label_are_still_two_calls():
    ops = scene([cleanup("/a", "same"), cleanup("/a", "same")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second)

    await drive(ops.agent, state)

    assert ops.effects == ["cleanup /a"]
    assert [output for _, output in ops.sent(1)] == ["cleaned /a", "Tool execution was not approved."]


async def test_a_label_that_comes_back_in_a_later_turn_is_another_call():
    ops = scene([cleanup("/a", "same")], [cleanup("/b", "same")], DONE)
    first = await drive(ops.agent, "go")
    second = await approve_all(ops.agent, first)
    state = await reloaded(ops.agent, second)

    with pytest.raises(NotPending):
        state.approve(first.interruptions[0])
    state.reject(second.interruptions[0])
    await drive(ops.agent, state)
    sent = ops.model.calls[2].input

    assert ops.effects == ["cleanup /a"]
    assert labels(sent, "function_call") == labels(sent, "function_call_output")
    assert len(set(labels(sent, "function_call"))) == 2


async def test_where_the_server_keeps_the_history_outputs_go_under_its_own_labels_in_the_order_of_the_calls():
    ops = scene([cleanup("/a", "same"), cleanup("/b", "same")], DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go", **CHAINED))
    first, second = state.get_interruptions()
    state.approve(second)
    state.reject(first, rejection_message="not /a")

    await drive(ops.agent, state)

    assert ops.sent(1) == [("same", "not /a"), ("same", "cleaned /b")]


async def test_calls_without_labels_can_be_decided_one_by_one():
    ops = scene([cleanup("/a"), refund(1), cleanup("/b", "")], DONE)
    paused = await drive(ops.agent, "go")
    state = await reloaded(ops.agent, paused)
    first, second, third = state.get_interruptions()
    state.approve(third)
    state.reject(first)
    state.reject(second)

    await drive(ops.agent, state)
    sent = ops.model.calls[1].input

    assert ops.effects == ["cleanup /b"]
    assert [output for _, output in outputs(sent)][2] == "cleaned /b"
    assert labels(sent, "function_call") == labels(sent, "function_call_output")
    assert len(set(labels(sent, "function_call"))) == 3
    assert "" not in labels(sent, "function_call")


async def test_labels_that_were_made_unique_are_the_same_after_every_load():
    calls = [cleanup("/a", "same"), cleanup("/b", "same"), cleanup("/c")]
    sent = []
    for through_string in (False, True):
        ops = scene(calls, DONE)
        paused = await drive(ops.agent, "go")
        state = await reloaded(ops.agent, paused) if through_string else paused.to_state()
        for item in state.get_interruptions():
            state.approve(item)
        await drive(ops.agent, state)
        sent.append(labels(ops.model.calls[1].input, "function_call"))

    assert sent[0] == sent[1]


async def test_a_label_made_unique_never_meets_one_that_the_provider_gives_later():
    ops = scene([cleanup("/a", "x"), cleanup("/b", "x")], DONE)
    made = labels((await approve_all(ops.agent, await drive(ops.agent, "go"))).to_input_list(), "function_call")[1]
    ops = scene([cleanup("/a", "x"), cleanup("/b", "x")], [cleanup("/c", made)], DONE)

    result = await approve_all(ops.agent, await approve_all(ops.agent, await drive(ops.agent, "go")))
    found = labels(result.to_input_list(), "function_call")

    assert len(set(found)) == 3
    assert found == labels(result.to_input_list(), "function_call_output")


async def test_an_item_made_by_hand_is_matched_by_label_tool_and_arguments_and_refused_when_it_fits_several():
    ops = scene([cleanup("/a", "same"), cleanup("/b", "same"), cleanup("/b", "same")], DONE)
    state = (await drive(ops.agent, "go")).to_state()

    state.approve(ToolApprovalItem(ops.agent, function_call("cleanup", '{ "path" : "/a" }', call_id="same")))
    with pytest.raises(NotPending, match="several"):
        state.approve(ToolApprovalItem(ops.agent, cleanup("/b", "same")))
    with pytest.raises(NotPending, match="several"):
        state.approve("same")
    halfway = await drive(ops.agent, state)

    assert ops.effects == ["cleanup /a"]
    assert len(halfway.interruptions) == 2


async def test_the_status_of_a_label_that_fits_several_calls_is_that_of_all_of_them():
    ops = scene([cleanup("/a", "same"), cleanup("/b", "same")])
    state = (await drive(ops.agent, "go")).to_state()
    first, second = state.get_interruptions()
    seen = [state.context.is_tool_approved("cleanup", "same")]

    state.approve(first)
    seen.append(state.context.is_tool_approved("cleanup", "same"))
    state.approve(second)
    seen.append(state.context.is_tool_approved("cleanup", "same"))
    state.reject(first)
    seen.append(state.context.is_tool_approved("cleanup", "same"))

    assert seen == [None, None, True, False]
    assert state.context.is_tool_approved("cleanup", second.id) is True


@pytest.mark.parametrize("form", ["id", "place", "request", "first form of the id", "first form of the request"])
async def test_a_call_can_be_named_by_its_id_in_every_form_and_by_its_place(form):
    ops = scene([cleanup("/a", "same"), cleanup("/b", "same")], DONE)
    paused = await drive(ops.agent, "go")
    state, second = await reloaded(ops.agent, paused), paused.interruptions[1]
    names = {
        "id": second.id,
        "place": "t1c1",
        "request": second.request_id,
        "first form of the id": f"{state.run_id}:1.1",
        "first form of the request": f"{state.run_id}:1.1#1",
    }
    state.approve(names[form])
    await drive(ops.agent, state)

    assert ops.effects == ["cleanup /b"]


@pytest.mark.parametrize("name", ["run_other_t1c0", "run_other:1.0", "run_other_t1c0_q1", "run_other:1.0#1"])
async def test_the_same_place_in_another_run_is_another_call(name):
    ops = scene([cleanup("/a", "same")], DONE)
    state = (await drive(ops.agent, "go")).to_state()

    with pytest.raises(NotPending):
        state.approve(name)


async def test_a_request_that_was_asked_anew_is_not_approved_by_its_old_id():
    ops = scene([cleanup("/a", "same")], DONE)
    state = (await drive(ops.agent, "go")).to_state()

    with pytest.raises(StaleApproval, match="asked about anew"):
        state.approve(f"{state.run_id}_t1c0_q2")

"""P1: every output is carried by exactly one answered request, the very next one after it exists."""

import pytest

from placet import RequestNotTaken, function_tool
from placet.testing import assistant_message, function_call
from tests.promises.scenes import (
    CHAINED,
    DONE,
    SERVER_MODES,
    cleanup,
    diagnose,
    drive,
    item_of,
    labels,
    outputs,
    refund,
    reloaded,
    scene,
)

pytestmark = pytest.mark.promise("P1")

THREE = [cleanup("/a", "c1"), diagnose("d1"), cleanup("/b", "c2")]
in_every_server_mode = pytest.mark.parametrize("mode", SERVER_MODES.values(), ids=SERVER_MODES)


@in_every_server_mode
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_after_both_gated_calls_were_rejected_the_next_request_carries_exactly_the_three_outputs(mode, streamed):
    ops = scene(THREE, DONE)
    paused = await drive(ops.agent, "clean up", streamed=streamed, **mode)
    state = await reloaded(ops.agent, paused)
    for item in state.get_interruptions():
        state.reject(item, rejection_message=f"not {item.call_id}")

    result = await drive(ops.agent, state, streamed=streamed)

    assert result.final_output == "done"
    assert ops.sent(1) == [("c1", "not c1"), ("d1", "disk is full"), ("c2", "not c2")]
    assert len(ops.model.calls[1].input) == 3
    assert ops.effects == ["diagnose"]


@in_every_server_mode
async def test_calls_decided_in_two_passes_are_delivered_together_when_the_last_one_has_ended(mode):
    ops = scene(THREE, DONE)
    paused = await drive(ops.agent, "clean up", **mode)
    state = await reloaded(ops.agent, paused)
    state.approve(item_of(state, "c2"))

    halfway = await drive(ops.agent, state)
    asked_halfway = len(ops.model.calls)
    state = await reloaded(ops.agent, halfway)
    state.approve(item_of(state, "c1"))
    await drive(ops.agent, state)

    assert asked_halfway == 1
    assert ops.sent(1) == [("c1", "cleaned /a"), ("d1", "disk is full"), ("c2", "cleaned /b")]


@in_every_server_mode
async def test_every_kind_of_ending_gives_an_output_that_the_very_next_request_carries(mode):
    @function_tool
    async def broken() -> str:
        raise OSError("no disk")

    calls = [
        cleanup("/a", "approved"),
        cleanup("/b", "rejected"),
        cleanup("/c", "edited"),
        refund(1, "answered"),
        function_call("broken", {}, call_id="failed"),
        function_call("nowhere", {}, call_id="unknown"),
        function_call("diagnose", "{not json", call_id="malformed"),
    ]
    ops = scene(calls, DONE, tools=(broken,))
    paused = await drive(ops.agent, "go", **mode)
    state = await reloaded(ops.agent, paused)
    state.approve(item_of(state, "approved"))
    state.reject(item_of(state, "rejected"), rejection_message="")
    state.approve(item_of(state, "edited"), arguments={"path": "/var"})
    state.respond(item_of(state, "answered"), "already refunded")

    await drive(ops.agent, state)
    delivered = dict(ops.sent(1))

    assert list(delivered) == [call["call_id"] for call in calls]
    assert delivered["approved"] == "cleaned /a"
    assert delivered["rejected"] == ""
    assert delivered["edited"].splitlines()[-1] == "cleaned /var"
    assert delivered["answered"] == "already refunded"
    assert "no disk" in delivered["failed"]
    assert delivered["unknown"] == "Tool 'nowhere' not found."
    assert "not one JSON object" in delivered["malformed"]


async def test_a_request_that_was_refused_does_not_count_as_the_one_that_carried_the_outputs():
    ops = scene([diagnose("d1")], RequestNotTaken("busy"), DONE)

    with pytest.raises(RequestNotTaken) as refused:
        await drive(ops.agent, "go", **CHAINED)
    await drive(ops.agent, refused.value.state)

    assert ops.sent(1) == ops.sent(2) == [("d1", "disk is full")]
    assert ops.model.calls[2].previous_response_id == "resp_1"


async def test_where_we_keep_the_history_each_output_stands_once_behind_its_call():
    ops = scene([diagnose("d1"), cleanup("/a", "c1")], [diagnose("d2")], DONE)
    paused = await drive(ops.agent, "go")
    state = await reloaded(ops.agent, paused)
    state.approve(item_of(state, "c1"))

    result = await drive(ops.agent, state)
    last = ops.model.calls[2].input

    assert labels(last, "function_call") == ["d1", "c1", "d2"]
    assert outputs(last) == [("d1", "disk is full"), ("c1", "cleaned /a"), ("d2", "disk is full")]
    assert result.to_input_list()[:-1] == last


async def test_the_input_itself_is_delivered_by_the_first_answered_request_and_not_again():
    question = [{"role": "user", "content": "first"}, {"role": "user", "content": "second"}]
    ops = scene([diagnose("d1")], [assistant_message("done")])

    await drive(ops.agent, question, **CHAINED)

    assert ops.model.calls[0].input == question
    assert [item["type"] for item in ops.model.calls[1].input] == ["function_call_output"]

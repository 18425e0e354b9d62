"""P2: nothing acknowledged is sent again."""

import copy

import pytest

from placet import DeliveryUnknown, MemoryStore, RequestNotTaken, RunConfig, RunState
from placet.declare.run_config import ModelInputData
from placet.testing import Crash, CrashingStore, ModelStep, assistant_message
from tests.promises.scenes import (
    AUTO,
    CHAINED,
    CONVERSATION,
    DONE,
    SERVER_MODES,
    approve_all,
    cleanup,
    diagnose,
    drive,
    outputs,
    reloaded,
    scene,
)

pytestmark = pytest.mark.promise("P2")

in_every_server_mode = pytest.mark.parametrize("mode", SERVER_MODES.values(), ids=SERVER_MODES)


@in_every_server_mode
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_after_three_pauses_in_a_row_each_request_carries_only_the_newest_output(mode, streamed):
    ops = scene([cleanup("/1", "c1")], [cleanup("/2", "c2")], [cleanup("/3", "c3")], DONE)

    result = await drive(ops.agent, "go", streamed=streamed, **mode)
    for _ in range(3):
        result = await approve_all(ops.agent, result, streamed=streamed)

    assert result.final_output == "done"
    assert [ops.sent(request) for request in range(4)] == [
        [],
        [("c1", "cleaned /1")],
        [("c2", "cleaned /2")],
        [("c3", "cleaned /3")],
    ]
    assert [len(call.input) for call in ops.model.calls] == [1, 1, 1, 1]


@pytest.mark.parametrize(("mode", "first"), [(CHAINED, "resp_0"), (AUTO, None)], ids=["chained", "auto"])
async def test_each_request_is_chained_to_the_response_before_it(mode, first):
    ops = scene([cleanup("/1", "c1")], [diagnose("d1")], DONE)

    await approve_all(ops.agent, await drive(ops.agent, "go", **mode))

    assert [call.previous_response_id for call in ops.model.calls] == [first, "resp_1", "resp_2"]


async def test_a_conversation_is_named_in_every_request():
    ops = scene([cleanup("/1", "c1")], DONE)

    await approve_all(ops.agent, await drive(ops.agent, "go", **CONVERSATION))

    assert [call.conversation_id for call in ops.model.calls] == ["conv_1", "conv_1"]


@pytest.mark.parametrize("mode", [CHAINED, AUTO], ids=["chained", "auto"])
@pytest.mark.parametrize("error", [ConnectionError("gone"), RequestNotTaken("busy")], ids=["lost", "refused"])
async def test_a_chained_request_that_failed_is_sent_again_from_the_same_place_and_then_never_more(mode, error):
    ops = scene([cleanup("/1", "c1")], error, [diagnose("d1")], DONE)
    paused = await drive(ops.agent, "go", **mode)

    with pytest.raises(type(error)) as failed:
        await approve_all(ops.agent, paused)
    await drive(ops.agent, await reloaded(ops.agent, failed.value.state))

    assert ops.sent(1) == ops.sent(2) == [("c1", "cleaned /1")]
    assert ops.model.calls[2].previous_response_id == ops.model.calls[1].previous_response_id == "resp_1"
    assert ops.sent(3) == [("d1", "disk is full")]
    assert ops.effects == ["cleanup /1", "diagnose"]


async def test_a_conversation_that_took_a_failed_request_is_not_given_its_outputs_again():
    lost = ModelStep(raises=ConnectionError("gone"), delivered=True)
    ops = scene([cleanup("/1", "c1")], lost, [diagnose("d1")], DONE)
    paused = await drive(ops.agent, "go", **CONVERSATION)

    with pytest.raises(ConnectionError) as failed:
        await approve_all(ops.agent, paused)
    await drive(ops.agent, failed.value.state)

    assert ops.sent(1) == [("c1", "cleaned /1")]
    assert ops.model.calls[2].input == []
    assert ops.sent(3) == [("d1", "disk is full")]


async def test_a_conversation_that_did_not_take_a_failed_request_is_given_it_again():
    lost = ModelStep(raises=ConnectionError("gone"), delivered=False)
    ops = scene([cleanup("/1", "c1")], lost, DONE)
    paused = await drive(ops.agent, "go", **CONVERSATION)

    with pytest.raises(ConnectionError) as failed:
        await approve_all(ops.agent, paused)
    await drive(ops.agent, failed.value.state)

    assert ops.sent(1) == ops.sent(2) == [("c1", "cleaned /1")]


@pytest.mark.parametrize(("resend", "expected"), [(True, [("c1", "cleaned /1")]), (False, [])], ids=["again", "not"])
async def test_where_a_conversation_cannot_tell_the_run_stops_until_a_person_says(resend, expected):
    lost = ModelStep(raises=ConnectionError("gone"), delivered=None)
    ops = scene([cleanup("/1", "c1")], lost, DONE)
    paused = await drive(ops.agent, "go", **CONVERSATION)

    with pytest.raises(DeliveryUnknown) as stopped:
        await approve_all(ops.agent, paused)
    with pytest.raises(DeliveryUnknown) as stopped_again:
        await drive(ops.agent, stopped.value.state)
    asked_unsettled = len(ops.model.calls)
    result = await drive(ops.agent, await reloaded(ops.agent, stopped_again.value.state), resend=resend)

    assert asked_unsettled == 2
    assert ops.sent(2) == expected
    assert result.final_output == "done"


async def test_an_answer_that_was_lost_on_the_way_into_the_log_is_not_guessed_in_a_conversation():
    store = CrashingStore(MemoryStore())
    ops = scene([diagnose("d1")], DONE, DONE)
    store.crash_at(4, "before")  # the append that would have held the second answer

    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, "go", store=store, **CONVERSATION)
    with pytest.raises(DeliveryUnknown) as stopped:
        await drive(ops.agent, crashed.value.state, store=store)
    await drive(ops.agent, stopped.value.state, store=store, resend=False)

    assert [outputs(call.input) for call in ops.model.calls] == [[], [("d1", "disk is full")], []]


async def test_a_failed_state_that_is_retried_twice_delivers_once():
    ops = scene([diagnose("d1")], RequestNotTaken("busy"), DONE)
    with pytest.raises(RequestNotTaken) as failed:
        await drive(ops.agent, "go", **CHAINED)
    text = failed.value.state.to_string()

    first = await drive(ops.agent, await RunState.from_string(ops.agent, text))
    second = await drive(ops.agent, await RunState.from_string(ops.agent, text))

    assert first.final_output == second.final_output == "done"
    assert len(ops.model.calls) == 3


async def test_a_model_that_rewrites_the_items_it_was_given_changes_nothing_of_what_is_sent_later():
    def rewrite(request):
        for item in request.input:
            item.clear()
        return ModelStep([diagnose("d1")])

    ops = scene(rewrite, [assistant_message("done")])

    await drive(ops.agent, [{"role": "user", "content": "the question"}])

    assert ops.model.calls[1].input[0] == {"role": "user", "content": "the question"}


@in_every_server_mode
async def test_an_input_filter_that_rebuilds_the_items_has_nothing_sent_again(mode):
    def rebuild(data):
        return ModelInputData(input=copy.deepcopy(data.model_data.input)[::-1], instructions="filtered")

    config = RunConfig(call_model_input_filter=rebuild)
    ops = scene([cleanup("/1", "c1"), diagnose("d1")], [cleanup("/2", "c2")], DONE)

    result = await drive(ops.agent, "go", run_config=config, **mode)
    for _ in range(2):
        result = await approve_all(ops.agent, result, run_config=config)

    assert [ops.sent(request) for request in range(3)] == [
        [],
        [("d1", "disk is full"), ("c1", "cleaned /1")],
        [("c2", "cleaned /2")],
    ]

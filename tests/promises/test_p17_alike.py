"""P17, in memory: streaming and not streaming, fresh and resumed give the same log for the same script."""

import pytest

from placet import MaxTurnsExceeded, MemoryStore, RequestNotTaken, RunConfig, Runner, RunState, Usage, function_tool
from placet.testing import Crash, CrashingStore, ManualClock, ModelStep, assistant_message, function_call
from tests.promises.scenes import SERVER_MODES, cleanup, diagnose, drive, facts, item_of, refund, reloaded, scene

pytestmark = pytest.mark.promise("P17")

MODES = {"own": {}, **SERVER_MODES}


def script():
    return [
        [cleanup("/a", "c1"), diagnose("d1"), refund(1, "r1")],
        [assistant_message("half way"), cleanup("/b", "c1"), function_call("nowhere", {}, call_id="n1")],
        ModelStep([function_call("diagnose", "{", call_id="d2")], response_id="resp_x"),
        [assistant_message("done")],
    ]


async def played(mode, *, streamed, through_string, fresh_store):
    """Play the script with the same decisions, and give back its log without what is minted at random."""
    clock = ManualClock()
    options = {"run_config": RunConfig(clock=clock)}
    ops = scene(*script())
    store = CrashingStore(MemoryStore())
    result = await drive(ops.agent, "go", streamed=streamed, store=store, **options, **mode)
    for decide in (
        lambda state: state.approve(item_of(state, "r1"), arguments={"order": 2}, by="ann"),
        lambda state: state.reject(item_of(state, "c1"), rejection_message="no", by="bob"),
        lambda state: state.approve(item_of(state, "c1"), by="ann", reason="fine"),
    ):
        clock.advance(1)
        state = result.to_state()
        if through_string:
            state = await RunState.from_string(ops.agent, state.to_string(), clock=clock)
        store = CrashingStore(MemoryStore()) if fresh_store else store
        decide(state)
        result = await drive(ops.agent, state, streamed=streamed, store=store, **options)
    assert result.final_output == "done"
    sent = [(call.input, call.previous_response_id, call.conversation_id) for call in ops.model.calls]
    return result.to_state().to_json()["log"], sent, ops.effects


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("fresh_store", [False, True], ids=["same store", "other store"])
@pytest.mark.parametrize("through_string", [False, True], ids=["held", "through a string"])
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_the_log_the_requests_and_the_effects_are_the_same_however_the_run_is_driven(
    mode, streamed, through_string, fresh_store
):
    expected = await played(mode, streamed=False, through_string=False, fresh_store=False)

    found = await played(mode, streamed=streamed, through_string=through_string, fresh_store=fresh_store)

    assert found == expected


async def test_results_show_the_same_streamed_or_not():
    shown = []
    for streamed in (False, True):
        ops = scene([diagnose("d1")], [assistant_message("done")])
        result = await drive(ops.agent, "go", streamed=streamed)
        shown.append(
            (
                result.final_output,
                [(item.type, item.raw_item) for item in result.new_items],
                [response.output for response in result.raw_responses],
                result.to_input_list(),
                result.last_response_id,
                result.context_wrapper.usage,
            )
        )

    assert shown[0] == shown[1]


async def test_the_stream_tells_the_items_of_the_result_in_their_order():
    ops = scene([diagnose("d1"), diagnose("d2")], [assistant_message("all done")])
    result = Runner.run_streamed(ops.agent, "go")
    events = [event async for event in result.stream_events()]
    told = [event.item.raw_item for event in events if event.type == "run_item_stream_event"]
    words = [event.data["delta"] for event in events if event.type == "raw_response_event"]

    assert told == [item.raw_item for item in result.new_items]
    assert words == ["all", "done"]


async def test_a_resumed_stream_does_not_tell_again_what_was_told_before():
    ops = scene([diagnose("d1"), cleanup("/a", "c1")], [assistant_message("done")])
    paused = await drive(ops.agent, "go", streamed=True)
    state = await reloaded(ops.agent, paused)
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(ops.agent, state)
    names = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]

    assert names == ["tool_output", "message_output_created"]


async def test_usage_turns_and_limits_are_counted_over_resumptions():
    def step(*output):
        return ModelStep(list(output), usage=Usage(requests=1, input_tokens=10, total_tokens=10))

    for streamed in (False, True):
        ops = scene(step(cleanup("/a", "c1")), step(cleanup("/b", "c2")), step(assistant_message("done")))
        paused = await drive(ops.agent, "go", streamed=streamed, max_turns=2)
        for _ in range(2):
            state = await reloaded(ops.agent, paused)
            state.approve(state.get_interruptions()[0])
            if len(ops.model.calls) == 2:
                with pytest.raises(MaxTurnsExceeded) as stopped:
                    await drive(ops.agent, state, streamed=streamed)
            else:
                paused = await drive(ops.agent, state, streamed=streamed)
        result = await drive(ops.agent, stopped.value.state, streamed=streamed, max_turns=3)

        assert result.final_output == "done"
        assert (result.context_wrapper.usage.requests, result.context_wrapper.usage.input_tokens) == (3, 30)
        assert ops.effects == ["cleanup /a", "cleanup /b"]


@pytest.mark.parametrize("error", [RequestNotTaken("busy"), ConnectionError("gone")], ids=["refused", "lost"])
async def test_a_failed_request_leaves_the_same_facts_streamed_or_not(error):
    left = []
    for streamed in (False, True):
        ops = scene([diagnose("d1")], type(error)(str(error)))
        with pytest.raises(type(error)) as failed:
            await drive(ops.agent, "go", streamed=streamed)
        left.append([fact for fact in facts(failed.value.state) if fact[0] != "start"])

    assert left[0] == left[1]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("append", [1, 2, 3, 4])
async def test_a_crash_leaves_the_same_facts_streamed_or_not(when, append):
    @function_tool
    async def quick() -> str:
        return "quick"

    left = []
    for streamed in (False, True):
        store = CrashingStore(MemoryStore())
        ops = scene([function_call("quick", {}, call_id="q1")], [assistant_message("done")], tools=(quick,))
        store.crash_at(append, when)
        with pytest.raises(Crash) as crashed:
            await drive(ops.agent, "go", streamed=streamed, store=store)
        left.append([fact[0] for fact in facts(crashed.value.state)] if crashed.value.state._log.lines else [])

    assert left[0] == left[1]

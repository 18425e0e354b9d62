"""P3, as far as a run's own history goes: no call without its output, no output without its call."""

import pytest

from placet import ToolError, function_tool
from placet.testing import function_call
from tests.promises.scenes import DONE, approve_all, cleanup, diagnose, drive, labels, refund, reloaded, scene

pytestmark = pytest.mark.promise("P3")


def assert_paired(items):
    assert labels(items, "function_call") == labels(items, "function_call_output")


async def test_the_history_of_a_run_is_paired_in_every_request_whatever_became_of_the_calls():
    ops = scene([cleanup("/a", "c1"), diagnose("d1"), refund(1, "r1")], [cleanup("/b", "c2")], DONE)
    paused = await drive(ops.agent, "go")
    state = await reloaded(ops.agent, paused)
    first, second = state.get_interruptions()
    state.reject(first)
    state.respond(second, "by hand")

    result = await approve_all(ops.agent, await drive(ops.agent, state))

    for request in ops.model.calls:
        assert_paired(request.input)
    assert_paired(result.to_input_list())


async def test_a_body_that_ends_the_drive_leaves_its_output_and_those_of_its_siblings():
    @function_tool(failure_error_function=None)
    async def fatal() -> str:
        raise OSError("no disk")

    ops = scene([function_call("fatal", {}, call_id="f1"), diagnose("d1")], DONE, tools=(fatal,))

    with pytest.raises(ToolError) as failed:
        await drive(ops.agent, "go")
    result = await drive(ops.agent, failed.value.state)

    assert ops.effects == ["diagnose"]
    assert_paired(ops.model.calls[1].input)
    assert_paired(result.to_input_list())


async def test_the_recorded_result_of_an_ended_run_has_a_paired_history_too():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    first = await drive(ops.agent, state)

    recorded = await drive(ops.agent, state)

    assert recorded.final_output == first.final_output
    assert_paired(recorded.to_input_list())

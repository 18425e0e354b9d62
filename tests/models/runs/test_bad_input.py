"""What no provider should send: an error or an output that names what happened, and a state that can be resumed."""

from __future__ import annotations

from typing import Any

import pytest

from placet import ModelBehaviorError, ModelRetrySettings, ProviderError, RunConfig, RunState
from placet.testing import function_call
from placet.testing.provider import FakeProvider, empty_body, incomplete, not_json, stream_cut
from tests.models.runs.scenes import APIS, AT_ONCE, DONE, Api, drive, model_over_http, shop

NO_RETRIES = RunConfig(retry=ModelRetrySettings(max_retries=0))
pytestmark = [
    pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"]),
    pytest.mark.parametrize("api", APIS),
]


async def _failing(api: Api, streamed: bool, step: Any, expected: type[Exception]) -> tuple[Any, Any, FakeProvider]:
    """The error that the step leads to, and the result of going on from its state, stored and loaded."""
    provider = FakeProvider([step, DONE])
    async with model_over_http(api, provider) as model:
        agent = shop(model).agent
        with pytest.raises(expected) as caught:
            await drive(agent, "hello", streamed=streamed, run_config=NO_RETRIES)
        error: Any = caught.value
        state: Any = await RunState.from_string(agent, error.state.to_string())
        result = await drive(agent, state, streamed=streamed)
    return error, result, provider


@pytest.mark.parametrize("fault", [not_json, empty_body], ids=["not JSON", "empty body"])
async def test_a_body_that_is_no_answer(api: Api, streamed: bool, fault: Any) -> None:
    error, result, provider = await _failing(api, streamed, fault(), ProviderError)

    assert str(error)
    assert (result.final_output, provider.refusals) == ("It is done.", [])


async def test_an_answer_without_anything_in_it(api: Api, streamed: bool) -> None:
    error, result, provider = await _failing(api, streamed, [], ModelBehaviorError)

    assert "cannot be used" in str(error)
    assert (result.final_output, provider.refusals) == ("It is done.", [])


async def test_an_answer_that_was_cut_short(api: Api, streamed: bool) -> None:
    call = function_call("look_up", {"order": "8"}, call_id="c1")
    error, result, provider = await _failing(api, streamed, incomplete([call]), ModelBehaviorError)

    assert "token" in str(error)
    assert (result.final_output, provider.refusals) == ("It is done.", [])


async def test_a_connection_that_ends_in_the_middle_of_a_call(api: Api, streamed: bool) -> None:
    call = function_call("look_up", {"order": "8"}, call_id="c1")
    provider = FakeProvider([stream_cut([call], after=3), [call], DONE])
    async with model_over_http(api, provider) as model:
        scene = shop(model)
        with pytest.raises(ProviderError) as caught:
            await drive(scene.agent, "hello", streamed=streamed, run_config=NO_RETRIES)
        before = list(scene.effects)
        result = await drive(scene.agent, caught.value.state, streamed=streamed)

    assert str(caught.value)
    assert (before, scene.effects) == ([], ["look_up 8"])
    assert (result.final_output, provider.refusals) == ("It is done.", [])


async def test_a_call_with_malformed_arguments_is_data_for_the_model(api: Api, streamed: bool) -> None:
    # In Anthropic's API arguments are an object by construction: one without what the tool needs.
    arguments = "{}" if api == "messages" else '{"order": '
    provider = FakeProvider([[function_call("look_up", arguments, call_id="c1")], DONE])
    async with model_over_http(api, provider) as model:
        scene = shop(model)
        result = await drive(scene.agent, "hello", streamed=streamed, run_config=RunConfig(retry=AT_ONCE))

    [output] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert "arguments" in str(output.output)
    assert (scene.effects, result.final_output, provider.refusals) == ([], "It is done.", [])

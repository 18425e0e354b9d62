"""Answers that no run can go on with, over HTTP: an error that names what happened, and a state that goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet import (
    Agent,
    MessageOutputItem,
    ModelBehaviorError,
    ModelRetrySettings,
    ModelSettings,
    ProviderError,
    RequestNotTaken,
    Runner,
    RunState,
    function_tool,
)
from placet.testing import assistant_message, function_call
from placet.testing.provider import (
    ProviderStep,
    empty_body,
    incomplete,
    not_json,
    rate_limited,
    raw,
    server_error,
    stream_cut,
)
from tests.models.wire import Wire, wired

DONE = [assistant_message("It is done.")]
LOOK = [function_call("look_up", {"order": "8"}, call_id="c1")]
NO_RETRIES = ModelSettings(retry=ModelRetrySettings(max_retries=0))


class Shop:
    """An agent with one free tool, driven plainly or streamed."""

    def __init__(self, wire: Wire, *, streamed: bool) -> None:
        self.wire = wire
        self.streamed = streamed
        self.effects: list[str] = []

        @function_tool
        def look_up(order: str) -> str:
            """What is known about an order."""
            self.effects.append(order)
            return f"order {order}: 4200 cents"

        self.agent: Agent[Any] = Agent(name="Shop", tools=[look_up], model=wire.model, model_settings=NO_RETRIES)

    async def drive(self, given: Any) -> Any:
        if not self.streamed:
            return await Runner.run(self.agent, given)
        result = Runner.run_streamed(self.agent, given)
        async for _ in result.stream_events():
            pass
        return result

    async def drive_on(self, error: BaseException) -> Any:
        """Go on from the error's state, as if in another process."""
        state = error.state  # type: ignore[attr-defined]
        assert isinstance(state, RunState)
        return await self.drive(await RunState.from_string(self.agent, state.to_string()))


@pytest.fixture(params=["chat", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
async def shop(request: pytest.FixtureRequest, api: str) -> AsyncIterator[Shop]:
    async with wired(api) as wire:
        yield Shop(wire, streamed=request.param)
        assert wire.provider.refusals == []


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (not_json(), ProviderError, "is not JSON of the API|is no stream of the API"),
        (server_error(), ProviderError, "answered 500"),
        (rate_limited(1), RequestNotTaken, "answered 429"),
        (stream_cut(LOOK, after=3), ProviderError, "broke before the answer was complete|stream ended"),
        (empty_body(), ProviderError, "is not JSON of the API|is no stream of the API|stream ended"),
        ([], ModelBehaviorError, "it is empty"),
        (incomplete([assistant_message("Once")]), ModelBehaviorError, "limit of output tokens"),
        (incomplete(LOOK), ModelBehaviorError, "limit of output tokens"),
    ],
    ids=["not JSON", "500", "429", "cut", "empty body", "empty answer", "too long", "too long a call"],
)
async def test_a_bad_answer_is_an_error_that_names_what_happened_and_the_state_goes_on(
    shop: Shop, step: Any, error: type[Exception], words: str
) -> None:
    shop.wire.provider.add(LOOK, step, DONE)

    with pytest.raises(error, match=words) as caught:
        await shop.drive("What about order 8?")
    result = await shop.drive_on(caught.value)

    assert result.final_output == "It is done."
    assert shop.effects == ["8"]
    shop.wire.provider.assert_complete()


async def test_a_stream_that_ends_in_the_middle_of_a_call_is_asked_for_again_and_the_call_runs_once(shop: Shop) -> None:
    shop.agent.model_settings = ModelSettings(retry=ModelRetrySettings(max_retries=1))
    shop.wire.provider.add(stream_cut(LOOK, after=3), LOOK, DONE)

    result = await shop.drive("What about order 8?")

    assert result.final_output == "It is done."
    assert shop.effects == ["8"]
    shop.wire.provider.assert_complete()


def _malformed(api: str, *, streamed: bool) -> ProviderStep | list[Any]:
    """A call whose arguments are no JSON; outside a stream Anthropic's API can only carry what is, so: no object."""
    if api == "anthropic" and not streamed:
        block = {"type": "tool_use", "id": "c1", "name": "look_up", "input": ["order", 8]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        return raw({**head, "content": [block], "stop_reason": "tool_use"})
    return [function_call("look_up", '{"order": 8,,', call_id="c1")]


async def test_malformed_arguments_are_told_to_the_model_and_the_history_stays_one_that_the_provider_takes(
    shop: Shop, api: str
) -> None:
    shop.wire.provider.add(_malformed(api, streamed=shop.streamed), LOOK, DONE)

    result = await shop.drive("What about order 8?")

    told = str(shop.wire.provider.model_requests[1].body["messages"])
    assert result.final_output == "It is done."
    assert shop.effects == ["8"]
    assert "arguments are invalid" in told
    assert "malformed_arguments" in told


async def test_a_refusal_is_the_final_output_and_can_be_told_from_an_answer(shop: Shop) -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    shop.wire.provider.add([refusal])

    result = await shop.drive("Do harm.")

    [item] = result.new_items
    assert isinstance(item, MessageOutputItem)
    assert item.refusal
    assert str(result.final_output).endswith(item.refusal)

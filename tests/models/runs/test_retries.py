"""Requests that fail: which are sent again, how often, after how long; and nothing is delivered twice or lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import (
    DeliveryUnknown,
    ModelRetryBackoffSettings,
    ModelRetrySettings,
    ModelSettings,
    ProviderError,
    RequestNotTaken,
    RunConfig,
    Runner,
    RunState,
    UserError,
)
from placet.facts.model_settings import RetryPolicy
from placet.testing import ManualClock, assistant_message, function_call
from placet.testing.provider import (
    FakeProvider,
    connection_cut,
    conversation_locked,
    empty_body,
    no_answer,
    not_json,
    rate_limited,
    server_error,
    stream_cut,
    stream_error,
)
from tests.models.runs.scenes import AT_ONCE, DONE, drive, model_at, model_over_http, responses_model, shop

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
LOOK_UP = [function_call("look_up", {"order": "8"}, call_id="c1")]
EXACT = ModelRetrySettings(backoff=ModelRetryBackoffSettings(jitter=False))
NO_RETRIES = RunConfig(retry=ModelRetrySettings(max_retries=0))
PASSING: dict[str, Any] = {
    "429": rate_limited,
    "500": server_error,
    "503": lambda: server_error(503),
    "cut before it was taken": connection_cut,
    "cut after it was taken": lambda: connection_cut(answered=DONE),
    "500 after it was taken": lambda: server_error(answered=DONE),
    "cut in the middle": lambda: stream_cut(DONE, after=3),
    "an error in the middle": lambda: stream_error(DONE, after=3),
}


@pytest.mark.promise("P1", "P2")
@BOTH
@pytest.mark.parametrize("delivery", [{}, {"auto_previous_response_id": True}], ids=["own", "auto"])
@pytest.mark.parametrize("fault", PASSING)
async def test_what_passes_is_tried_again_and_nothing_is_lost(
    fault: str, delivery: dict[str, Any], streamed: bool
) -> None:
    async with responses_model([LOOK_UP, PASSING[fault](), DONE]) as (provider, model):
        scene = shop(model)
        config = RunConfig(retry=AT_ONCE)
        result = await drive(scene.agent, "hello", streamed=streamed, run_config=config, **delivery)

    first, second, third = provider.model_requests
    assert (result.final_output, scene.effects) == ("It is done.", ["look_up 8"])
    assert second.body == third.body
    assert first.body != second.body
    assert provider.refusals == []
    provider.assert_complete()


@pytest.mark.promise("P1", "P2")
@BOTH
@pytest.mark.parametrize("at", [0, 1], ids=["first request", "later request"])
@pytest.mark.parametrize("fault", PASSING)
async def test_in_a_conversation_a_lost_request_is_looked_for_before_anything_is_sent_again(
    fault: str, at: int, streamed: bool
) -> None:
    steps: list[Any] = [LOOK_UP, DONE]
    is_kept = "after it was taken" in fault or fault == "cut in the middle"
    steps[at : at + 1] = [_faulty(fault, steps[at])] if is_kept else [PASSING[fault](), steps[at]]
    provider = FakeProvider(steps)
    before = [{"role": "user", "content": "hello"}, assistant_message("It is done.")]
    conversation = provider.create_conversation(before)
    async with _served(provider) as model:
        scene = shop(model)
        options: dict[str, Any] = {"conversation_id": conversation, "run_config": RunConfig(retry=AT_ONCE)}
        result = await drive(scene.agent, "hello", streamed=streamed, **options)

    kinds = [item["type"] for item in provider.conversation_items(conversation)]
    assert (result.final_output, scene.effects) == ("It is done.", ["look_up 8"])
    assert kinds == ["message", "message", "message", "function_call", "function_call_output", "message"]
    assert provider.refusals == []
    provider.assert_complete()


def _faulty(fault: str, answer: Any) -> Any:
    match fault:
        case "cut after it was taken":
            return connection_cut(answered=answer)
        case "500 after it was taken":
            return server_error(answered=answer)
        case _:
            return stream_cut(answer, after=3)


def _served(provider: FakeProvider) -> Any:
    return model_over_http("responses", provider)


# -- how often, how long


async def _waits(steps: list[Any], retry: ModelRetrySettings | None = EXACT, **options: Any) -> list[float]:
    clock = ManualClock()
    async with responses_model(steps) as (_, model):
        config = RunConfig(retry=retry, clock=clock)
        await Runner.run(shop(model, **options).agent, "hello", run_config=config)
    return clock.slept


async def test_each_wait_is_longer_than_the_one_before() -> None:
    assert await _waits([server_error(), server_error(), server_error(), DONE]) == [0.5, 1.0, 2.0]


async def test_by_default_waits_are_spread() -> None:
    waits = await _waits([server_error(), server_error(), DONE], None)

    assert [0.25 <= waits[0] <= 0.5, 0.5 <= waits[1] <= 1.0] == [True, True]


async def test_the_provider_says_how_long_to_wait() -> None:
    assert await _waits([rate_limited(7.5), server_error(503, retry_after=2), DONE]) == [7.5, 2.0]


async def test_a_wait_beyond_the_bound_is_no_wait_but_an_error() -> None:
    with pytest.raises(RequestNotTaken, match="429") as caught:
        await _waits([rate_limited(61)])

    assert caught.value.retry_after == 61
    assert caught.value.state is not None


async def test_after_so_many_retries_the_error_is_told_and_the_state_goes_on() -> None:
    steps = [server_error()] * 4 + [DONE]
    async with responses_model(steps) as (provider, model):
        agent = shop(model).agent
        with pytest.raises(ProviderError, match="500") as caught:
            await Runner.run(agent, "hello", run_config=RunConfig(retry=AT_ONCE))
        asked = len(provider.model_requests)
        result = await Runner.run(agent, caught.value.state)  # type: ignore[arg-type]  # it is attached

    assert (asked, result.final_output) == (4, "It is done.")
    assert caught.value.request_id is not None


async def test_an_agents_own_setting_goes_before_the_runs() -> None:
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=0))

    with pytest.raises(ProviderError):
        await _waits([server_error()], EXACT, model_settings=settings)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_policy_can_only_say_no(is_async: bool) -> None:
    def only_rate_limits(error: ProviderError, _retries: int) -> bool:
        return error.status == 429

    async def once_it_was_looked_up(error: ProviderError, retries: int) -> bool:
        await asyncio.sleep(0)
        return only_rate_limits(error, retries)

    policy: RetryPolicy = once_it_was_looked_up if is_async else only_rate_limits
    async with responses_model([rate_limited(), server_error()]) as (provider, model):
        retry = ModelRetrySettings(backoff=AT_ONCE.backoff, policy=policy)
        with pytest.raises(ProviderError, match="500"):
            await Runner.run(shop(model).agent, "hello", run_config=RunConfig(retry=retry))

    assert len(provider.model_requests) == 2


@pytest.mark.parametrize("fault", [not_json, empty_body])
@BOTH
async def test_a_body_that_is_no_json_is_told_at_once_and_the_state_goes_on(fault: Any, streamed: bool) -> None:
    async with responses_model([fault(), DONE]) as (provider, model):
        agent = shop(model).agent
        with pytest.raises(ProviderError, match=r"not JSON|ended before|is no response") as caught:
            await drive(agent, "hello", streamed=streamed, run_config=NO_RETRIES)
        result = await drive(agent, caught.value.state, streamed=streamed)

    assert result.final_output == "It is done."
    assert len(provider.model_requests) == 2


async def test_what_the_provider_refuses_for_good_is_not_tried_again() -> None:
    async with responses_model([DONE]) as (provider, model):
        with pytest.raises(RequestNotTaken, match="Duplicate") as caught:
            await Runner.run(shop(model).agent, [_item("msg_1"), _item("msg_1")])

    assert (caught.value.status, caught.value.is_transient) == (400, False)
    assert len(provider.model_requests) == 1


def _item(item_id: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "hi", "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


async def test_nobody_there_is_certainly_not_taken() -> None:
    clock = ManualClock()
    async with FakeProvider().serve() as url:
        pass  # from here on nobody listens at this address
    model, client = model_at("responses", url)
    async with client:
        with pytest.raises(RequestNotTaken, match="could not be reached") as caught:
            await Runner.run(shop(model).agent, "hello", run_config=RunConfig(retry=EXACT, clock=clock))

    assert clock.slept == [0.5, 1.0, 2.0]
    assert caught.value.is_transient


async def test_an_answer_that_never_comes_is_waited_for_as_long_as_the_settings_say() -> None:
    async with responses_model([no_answer(), DONE]) as (provider, model):
        agent = shop(model, model_settings=ModelSettings(timeout=0.3)).agent
        result = await Runner.run(agent, "hello", run_config=RunConfig(retry=AT_ONCE))

    assert result.final_output == "It is done."
    assert len(provider.model_requests) == 2


# -- conversations that are locked, and those that cannot be looked into


@pytest.mark.parametrize("status", [400, 409])
async def test_a_locked_conversation_is_waited_for(status: int) -> None:
    clock = ManualClock()
    steps = [conversation_locked(status=status)] * 5 + [DONE]
    provider = FakeProvider(steps)
    async with _served(provider) as model:
        conversation = provider.create_conversation()
        config = RunConfig(retry=EXACT, clock=clock)
        result = await Runner.run(shop(model).agent, "hello", conversation_id=conversation, run_config=config)

    assert result.final_output == "It is done."
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0]


async def test_a_locked_conversation_is_not_waited_for_for_ever() -> None:
    clock = ManualClock()
    provider = FakeProvider([conversation_locked()] * 20)
    async with _served(provider) as model:
        conversation = provider.create_conversation()
        retry = ModelRetrySettings(backoff=EXACT.backoff, max_lock_wait=10)
        with pytest.raises(RequestNotTaken, match="conversation"):
            await Runner.run(
                shop(model).agent,
                "hello",
                conversation_id=conversation,
                run_config=RunConfig(retry=retry, clock=clock),
            )

    assert sum(clock.slept) == 10


@pytest.mark.promise("P2")
async def test_a_lost_request_that_is_still_at_work_locks_the_conversation_and_is_found_when_it_is_done() -> None:
    """The connection is gone, the server works on: nothing is there yet, the next request meets the lock, and after it
    the answer is there. Sending once more would have delivered everything twice."""
    provider = FakeProvider([connection_cut(), lambda _: _finishing_meanwhile(provider, conversation)])
    conversation = provider.create_conversation()
    async with _served(provider) as model:
        config = RunConfig(retry=AT_ONCE)
        result = await Runner.run(shop(model).agent, "hello", conversation_id=conversation, run_config=config)

    texts = [item["content"][0]["text"] for item in provider.conversation_items(conversation)]
    assert result.final_output == "It is done."
    assert texts == ["hello", "It is done."]


def _finishing_meanwhile(provider: FakeProvider, conversation: str) -> Any:
    """What the server was still at work on is done; this request came a moment too early and is refused."""
    found = provider._responses.conversations.find(conversation)
    found.items.extend(
        provider._responses.conversations._stored([{"type": "message", "role": "user", "content": "hello"}, *DONE])
    )
    return conversation_locked()


@pytest.mark.promise("P2")
async def test_where_the_conversation_cannot_be_read_nobody_guesses() -> None:
    provider = FakeProvider([connection_cut(), DONE])
    conversation = provider.create_conversation()
    async with _served(provider) as model:
        agent = shop(model).agent
        config = RunConfig(retry=ModelRetrySettings(max_retries=1, backoff=AT_ONCE.backoff))
        provider.interrupt("GET", "/conversations/*", server_error(), times=1)
        with pytest.raises(DeliveryUnknown) as caught:
            await Runner.run(agent, "hello", conversation_id=conversation, run_config=config)
        state: Any = await RunState.from_string(agent, caught.value.state.to_string())  # type: ignore[attr-defined]
        result = await Runner.run(agent, state, resend=True)

    assert result.final_output == "It is done."


@pytest.mark.promise("P2")
async def test_where_somebody_else_wrote_into_the_conversation_nobody_guesses() -> None:
    provider = FakeProvider([connection_cut()])
    conversation = provider.create_conversation()
    provider._steps[0] = lambda _: _written_by_another(provider, conversation)
    async with _served(provider) as model:
        with pytest.raises(DeliveryUnknown):
            await Runner.run(
                shop(model).agent, "hello", conversation_id=conversation, run_config=RunConfig(retry=AT_ONCE)
            )


def _written_by_another(provider: FakeProvider, conversation: str) -> Any:
    found = provider._responses.conversations.find(conversation)
    message = {"type": "message", "role": "user", "content": "from another program"}
    found.items.extend(provider._responses.conversations._stored([message]))
    return connection_cut()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelRetrySettings(max_retries=-1),
        lambda: ModelRetrySettings(max_lock_wait=-1),
        lambda: ModelRetryBackoffSettings(multiplier=0.5),
        lambda: ModelRetryBackoffSettings(initial_delay=-1),
    ],
)
def test_settings_that_mean_nothing_are_refused_where_they_are_written(make: Any) -> None:
    with pytest.raises(UserError):
        make()

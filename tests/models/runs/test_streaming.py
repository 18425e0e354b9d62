"""Streams from the wire to `stream_events()`: raw events, what waits, stopping, retries, and readers that are slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from openai.types.responses import ResponseTextDeltaEvent

from placet import RawResponsesStreamEvent, RunConfig, Runner, RunState, function_tool
from placet.runtime.stream import MAX_UNREAD, MAX_UNREAD_SIZE
from placet.testing import function_call
from placet.testing.provider import Gate, held, raw, stream_cut
from tests.models.runs.scenes import AT_ONCE, DONE, THREE_CALLS, responses_model, shop

PATIENCE = 90.0


async def test_raw_events_are_the_providers_own_objects_in_their_order() -> None:
    async with responses_model([DONE]) as (_, model):
        result = Runner.run_streamed(shop(model).agent, "hello")
        told = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]

    deltas = [event.delta for event in told if isinstance(event, ResponseTextDeltaEvent)]
    assert "".join(deltas) == "It is done."
    assert [told[0].type, told[-1].type] == ["response.created", "response.completed"]
    assert [event.sequence_number for event in told] == list(range(len(told)))


@pytest.mark.promise("P16")
async def test_what_waits_is_told_when_it_arises_and_not_at_the_end() -> None:
    """A free sibling is still at work while the two that wait are told."""
    may_end = asyncio.Event()

    @function_tool
    async def look_up(order: str) -> str:
        """What is known about an order."""
        await may_end.wait()
        return f"order {order}: 4200 cents"

    told: list[str] = []
    async with responses_model([THREE_CALLS]) as (_, model):
        agent = shop(model).agent
        agent.tools[1] = look_up
        result = Runner.run_streamed(agent, "hello")
        async with asyncio.timeout(PATIENCE):
            async for event in result.stream_events():
                if event.type == "run_item_stream_event":
                    told.append(event.name)
                if told.count("tool_approval_requested") == 2:
                    may_end.set()

    assert told == ["tool_called"] * 3 + ["tool_approval_requested"] * 2 + ["tool_output"]
    assert len(result.interruptions) == 2


async def test_a_stream_that_broke_is_told_again_from_its_beginning_and_says_so() -> None:
    async with responses_model([stream_cut(DONE, after=6), DONE]) as (_, model):
        result = Runner.run_streamed(shop(model).agent, "hello", run_config=RunConfig(retry=AT_ONCE))
        types = [_type(event) async for event in result.stream_events() if event.type == "raw_response_event"]

    again = types.index("placet.request_retried")
    assert types[0] == types[again + 1] == "response.created"
    assert "response.completed" not in types[:again]
    assert types[-1] == "response.completed"
    assert result.final_output == "It is done."


def _type(event: RawResponsesStreamEvent) -> str:
    return event.data["type"] if isinstance(event.data, dict) else event.data.type


@pytest.mark.promise("P2")
@pytest.mark.parametrize("delivery", [{}, {"auto_previous_response_id": True}, {"conversation_id": "…"}])
async def test_cancelling_in_the_middle_of_an_answer_leaves_a_state_that_goes_on(delivery: dict[str, Any]) -> None:
    gate = Gate()
    async with responses_model([held(DONE, gate, before_event=4)]) as (provider, model):
        agent = shop(model).agent
        if "conversation_id" in delivery:
            delivery = {"conversation_id": provider.create_conversation()}
        else:
            provider.add(DONE)
        result = Runner.run_streamed(agent, "hello", **delivery)
        async with asyncio.timeout(PATIENCE):
            async for event in result.stream_events():
                if event.type == "raw_response_event":
                    result.cancel()
        gate.open()
        state: Any = await RunState.from_string(agent, result.to_state().to_string())
        ended = await Runner.run(agent, state, run_config=RunConfig(retry=AT_ONCE))

    assert ended.final_output == "It is done."
    assert provider.refusals == []
    provider.assert_complete()


async def test_cancelling_after_the_turn_leaves_nothing_in_doubt() -> None:
    call = [function_call("look_up", {"order": "8"}, call_id="c1")]
    async with responses_model([call, DONE]) as (provider, model):
        scene = shop(model)
        result = Runner.run_streamed(scene.agent, "hello")
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                result.cancel(mode="after_turn")
        asked = len(provider.model_requests)
        ended = await Runner.run(scene.agent, result.to_state())

    assert (asked, scene.effects, ended.final_output) == (1, ["look_up 8"], "It is done.")


# -- readers that are slow


def _deltas(count: int, size: int) -> list[dict[str, Any]]:
    """The events of a long answer, made by hand: so many deltas of so many characters, then the whole."""
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {**delta, "delta": "x" * size, "logprobs": [], "sequence_number": n} for n in range(count)
    ]
    body = {"id": "resp_1", "object": "response", "status": "completed", "output": DONE, "usage": None}
    return [*events, {"type": "response.completed", "response": body, "sequence_number": count}]


async def _standing_still(result: Any) -> AsyncIterator[Any]:
    """The events of a stream whose reader took one and then none, until the run waits for it."""
    events = aiter(result.stream_events())
    await anext(events)
    await within(result._feed._is_full)
    return events


async def within(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110  # it is seen from outside: there is no event to wait for
            await asyncio.sleep(0.01)


async def test_twenty_megabytes_for_a_slow_reader_stay_with_the_provider_until_they_are_wanted() -> None:
    """Where the reader stands still, so does the run, and with it whoever sends: only so much is on its way."""
    gate = Gate()
    count, size = 2000, 10_000
    async with responses_model([held(raw(_deltas(count, size)), gate, before_event=count - 100)]) as (_, model):
        result = Runner.run_streamed(shop(model).agent, "hello")
        events = await _standing_still(result)
        unread = len(result._feed._events) * size  # type: ignore[union-attr]  # it has begun
        for _ in range(20):  # time enough to send everything, if nobody held it back
            await asyncio.sleep(0.01)
        is_all_sent = gate._reached.done()
        gate.open()
        async with asyncio.timeout(3 * PATIENCE):
            rest = [event async for event in events]

    assert unread <= MAX_UNREAD_SIZE + size
    assert not is_all_sent
    deltas = [event for event in rest if _type_of(event) == "response.output_text.delta"]
    assert len(deltas) == count
    assert result.final_output == "It is done."


async def test_many_small_events_make_the_run_wait_too() -> None:
    async with responses_model([raw(_deltas(3 * MAX_UNREAD, 1))]) as (_, model):
        result = Runner.run_streamed(shop(model).agent, "hello")
        events = await _standing_still(result)
        unread, is_complete = len(result._feed._events), result.is_complete  # type: ignore[union-attr]  # it has begun
        async with asyncio.timeout(PATIENCE):
            rest = [event async for event in events]

    assert (unread, is_complete) == (MAX_UNREAD, False)
    assert len(rest) == 3 * MAX_UNREAD + 2
    assert result.is_complete


async def test_a_reader_that_stands_still_does_not_stop_what_runs() -> None:
    """Tools of a turn end, and their ends are durable, while nobody reads."""
    calls = [function_call("look_up", {"order": str(n)}, call_id=f"c{n}") for n in range(5)]
    async with responses_model([calls, raw(_deltas(3 * MAX_UNREAD, 1))]) as (provider, model):
        scene = shop(model)
        result = Runner.run_streamed(scene.agent, "hello")
        await within(lambda: len(provider.model_requests) == 2)
        effects = list(scene.effects)
        async with asyncio.timeout(PATIENCE):
            async for _ in result.stream_events():
                pass

    assert sorted(effects) == [f"look_up {n}" for n in range(5)]
    assert result.final_output == "It is done."


def _type_of(event: Any) -> str | None:
    return _type(event) if event.type == "raw_response_event" else None

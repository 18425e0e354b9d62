"""What goes wrong on the way to a provider, on command, as the official clients see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from placet.testing import assistant_message, function_call
from placet.testing.provider import (
    FakeProvider,
    Gate,
    connection_cut,
    conversation_locked,
    empty_body,
    held,
    no_answer,
    not_json,
    rate_limited,
    raw,
    server_error,
    slow,
    stream_cut,
    stream_error,
)
from tests.testing.provider.conftest import Clients, Way

HI = [assistant_message("hi")]


async def ask(client: openai.AsyncOpenAI, **parameters: Any) -> Any:
    return await client.responses.create(**{"model": "gpt-6", "input": "hello", **parameters})


async def ask_chat(client: openai.AsyncOpenAI, **parameters: Any) -> Any:
    messages: Any = [{"role": "user", "content": "hello"}]
    return await client.chat.completions.create(model="gpt-6", messages=messages, **parameters)


async def ask_claude(client: anthropic.AsyncAnthropic, **parameters: Any) -> Any:
    messages: Any = [{"role": "user", "content": "hello"}]
    return await client.messages.create(model="claude-opus-5", max_tokens=99, messages=messages, **parameters)


async def read(asking: Awaitable[Any], into: list[Any]) -> None:
    async for event in await asking:
        into.append(event)  # noqa: PERF401  # what came before an error counts too


async def test_too_many_requests_say_when_to_come_back(openai_for: Clients, anthropic_for: Clients) -> None:
    provider = FakeProvider([rate_limited(retry_after=7)] * 3)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    errors = []
    for asking in (ask(client), ask_chat(client), ask_claude(claude)):
        with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as error:
            await asking
        errors.append(error.value)

    assert [error.response.headers["retry-after"] for error in errors] == ["7", "7", "7"]
    assert errors[0].code == "rate_limit_exceeded"
    assert errors[2].type == "rate_limit_error"


async def test_the_clients_own_retries_come_back_and_are_answered(openai_for: Clients) -> None:
    provider = FakeProvider([rate_limited(retry_after=0), server_error(503, retry_after=0), HI])
    client = await openai_for(provider, max_retries=2)

    response = await ask(client)

    assert response.output_text == "hi"
    assert [request.status for request in provider.requests] == [429, 503, 200]


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_server_errors_have_the_form_of_their_api(
    openai_for: Clients, anthropic_for: Clients, status: int
) -> None:
    provider = FakeProvider([server_error(status, message="overheated")] * 2)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    with pytest.raises(openai.InternalServerError) as of_openai:
        await ask(client)
    with pytest.raises(anthropic.APIStatusError) as of_anthropic:
        await ask_claude(claude)

    assert (of_openai.value.status_code, of_openai.value.type) == (status, "server_error")
    assert of_anthropic.value.type == ("overloaded_error" if status == 529 else "api_error")
    assert of_anthropic.value.api_message == "overheated"


async def test_a_locked_conversation_is_named_by_its_code(openai_for: Clients) -> None:
    provider = FakeProvider([conversation_locked(), conversation_locked(status=409), HI])
    client = await openai_for(provider)
    conversation = provider.create_conversation()

    with pytest.raises(openai.BadRequestError) as first:
        await ask(client, conversation=conversation)
    with pytest.raises(openai.ConflictError) as second:
        await ask(client, conversation=conversation)

    assert first.value.code == second.value.code == "conversation_locked"
    assert (await ask(client, conversation=conversation)).output_text == "hi"
    assert provider.refusals == []


async def test_a_conversation_is_locked_while_a_response_in_it_is_under_way(openai_for: Clients) -> None:
    gate = Gate()
    provider = FakeProvider([held(HI, gate, before_event=4), HI])
    client = await openai_for(provider)
    conversation = provider.create_conversation()

    events: list[Any] = []
    reading = asyncio.create_task(read(ask(client, conversation=conversation, stream=True), events))
    await gate.reached()
    with pytest.raises(openai.BadRequestError) as locked:
        await ask(client, conversation=conversation)
    gate.open()
    await reading
    later = await ask(client, conversation=conversation)

    assert locked.value.code == "conversation_locked"
    assert events[-1].type == "response.completed"
    assert later.output_text == "hi"


async def test_a_client_that_hangs_up_unlocks_the_conversation(openai_for: Clients) -> None:
    gate = Gate()
    provider = FakeProvider([held(HI, gate, before_event=4), HI])
    client = await openai_for(provider)
    conversation = provider.create_conversation()

    reading = asyncio.create_task(read(ask(client, conversation=conversation, stream=True), []))
    await gate.reached()
    reading.cancel()
    await asyncio.wait({reading})

    async with asyncio.timeout(120):
        while True:
            try:
                later = await ask(client, conversation=conversation)
                break
            except openai.BadRequestError as still_locked:
                assert still_locked.code == "conversation_locked"  # noqa: PT017  # anything else is a failure
    assert later.output_text == "hi"


async def test_a_provider_that_never_answers_meets_the_clients_timeout(openai_for: Clients) -> None:
    provider = FakeProvider([no_answer(), HI])
    client = await openai_for(provider, timeout=0.3)

    with pytest.raises(openai.APITimeoutError):
        await ask(client)

    assert provider.requests[0].status is None
    assert (await client.with_options(timeout=120).responses.create(model="m", input="x")).output_text == "hi"


@pytest.mark.parametrize("fault", [connection_cut, not_json, empty_body, server_error])
async def test_a_request_whose_answer_is_lost_was_taken_or_not_as_the_script_says(
    openai_for: Clients, fault: Any
) -> None:
    provider = FakeProvider([fault(), fault(answered=HI)])
    client = await openai_for(provider)
    conversation = provider.create_conversation()

    kept = []
    for _ in range(2):
        try:
            lost = await ask(client, conversation=conversation)
        except (openai.APIError, ValueError):
            lost = None
        kept.append([item["type"] for item in provider.conversation_items(conversation)])
        assert getattr(lost, "output", None) is None

    assert kept == [[], ["message", "message"]]


async def test_a_cut_connection_is_a_connection_error(openai_for: Clients, anthropic_for: Clients) -> None:
    provider = FakeProvider([connection_cut()] * 2)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    with pytest.raises(openai.APIConnectionError):
        await ask(client)
    with pytest.raises(anthropic.APIConnectionError):
        await ask_claude(claude)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_stream_that_is_cut_brings_its_first_events_and_then_an_error(openai_for: Clients, kept: bool) -> None:
    provider = FakeProvider([stream_cut(HI, after=3, kept=kept)])
    client = await openai_for(provider)
    conversation = provider.create_conversation()

    seen: list[Any] = []
    with pytest.raises(openai.APIConnectionError):
        await read(ask(client, conversation=conversation, stream=True), seen)

    assert [event.type for event in seen] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert len(provider.conversation_items(conversation)) == (2 if kept else 0)


async def test_chunks_and_messages_are_cut_too(openai_for: Clients, anthropic_for: Clients) -> None:
    provider = FakeProvider([stream_cut(HI, after=2)] * 2)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    seen: list[Any] = []
    with pytest.raises(openai.APIConnectionError):
        await read(ask_chat(client, stream=True), seen)
    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        await read(ask_claude(claude, stream=True), seen)

    assert len(seen) == 3  # the client of Anthropic keeps the ping to itself


async def test_an_answer_that_is_not_streamed_is_cut_in_the_middle_of_its_body(openai_for: Clients) -> None:
    provider = FakeProvider([stream_cut(HI)])

    with pytest.raises(openai.APIConnectionError):
        await ask(await openai_for(provider))


async def test_a_stream_may_turn_into_an_error(openai_for: Clients, anthropic_for: Clients) -> None:
    provider = FakeProvider([stream_error(HI, message="overheated")] * 3)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    events: list[Any] = []
    await read(ask(client, stream=True), events)
    with pytest.raises(openai.APIError, match="overheated"):
        await read(ask_chat(client, stream=True), [])
    with pytest.raises(anthropic.APIStatusError, match="overheated"):
        await read(ask_claude(claude, stream=True), [])

    assert [event.type for event in events[2:]] == ["response.output_item.added", "error"]
    assert (events[-1].message, events[-1].code) == ("overheated", "server_error")


async def test_slow_bytes_add_up_even_where_they_split_a_character(openai_for: Clients, anthropic_for: Clients) -> None:
    text = "Grüße an alle 🌍, früh und spät"
    provider = FakeProvider([slow([assistant_message(text)], seconds=0, piece=3)] * 4)
    client, claude = await openai_for(provider), await anthropic_for(provider)

    plain = await ask(client)
    events = [event async for event in await ask(client, stream=True)]
    chunks = [chunk async for chunk in await ask_chat(client, stream=True)]
    message = await ask_claude(claude)

    assert plain.output_text == events[-1].response.output_text == message.content[0].text == text
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


async def test_a_slow_answer_takes_its_time(openai_for: Clients) -> None:
    provider = FakeProvider([slow(HI, seconds=0.02, piece=200)])
    clock = asyncio.get_running_loop().time
    started = clock()

    await ask(await openai_for(provider))

    assert clock() - started >= 0.04


async def test_a_body_that_is_not_json_and_an_empty_one_arrive_as_they_are(openai_for: Clients) -> None:
    provider = FakeProvider([not_json(), empty_body(), raw(b'{"id": ')])
    client = await openai_for(provider)

    raws = [await client.responses.with_raw_response.create(model="m", input="x") for _ in range(3)]

    assert [(await each.http_response.aread())[:6] for each in raws] == [b"<html>", b"", b'{"id":']


async def test_a_request_that_breaks_a_rule_gets_no_fault_and_uses_no_step(openai_for: Clients) -> None:
    provider = FakeProvider([server_error(), HI])
    client = await openai_for(provider)

    with pytest.raises(openai.BadRequestError, match="resp_unknown"):
        await ask(client, previous_response_id="resp_unknown")
    with pytest.raises(openai.InternalServerError):
        await ask(client)

    assert provider.requests[0].refusal is not None
    assert provider.refusals == ["POST /responses: Previous response with id 'resp_unknown' not found."]


async def test_requests_that_ask_no_model_can_fail_too(openai_for: Clients) -> None:
    provider = FakeProvider([])
    client = await openai_for(provider)
    conversation = provider.create_conversation([{"role": "user", "content": "hi"}])
    provider.interrupt("GET", "/conversations/*/items", server_error(503))

    with pytest.raises(openai.InternalServerError):
        await client.conversations.items.list(conversation)
    page = await client.conversations.items.list(conversation)

    assert [item.type for item in page.data] == ["message"]


async def test_what_lies_outside_the_apis_is_refused(openai_for: Clients, way: Way) -> None:
    provider = FakeProvider([])
    client = await openai_for(provider)

    with pytest.raises(openai.NotFoundError):
        await client.get("/nowhere", cast_to=object)
    with pytest.raises(openai.BadRequestError, match="JSON"):
        await client.post("/responses", cast_to=object, content=b"{")
    with pytest.raises(openai.AuthenticationError):
        await client.post("/responses", cast_to=object, options={"headers": {"authorization": openai.Omit()}})


async def test_a_script_with_two_items_of_one_id_is_wrong_and_says_so(openai_for: Clients) -> None:
    step = [function_call("pay", {"n": 1}, call_id="c1", id="fc_mine")]
    provider = FakeProvider([step, step])
    client = await openai_for(provider)

    await ask(client)
    with pytest.raises(openai.APIStatusError, match="two items the id 'fc_mine'"):
        await ask(client)

    with pytest.raises(AssertionError, match="fc_mine"):
        provider.assert_complete()

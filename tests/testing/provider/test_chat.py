"""The Chat Completions API of the fake provider, driven by the official client."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI

from placet.testing import ModelStep, assistant_message, function_call, reasoning
from placet.testing.provider import FakeProvider, incomplete, raw
from tests.testing.provider.conftest import Clients

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


async def ask(client: AsyncOpenAI, messages: Any = (HELLO,), **parameters: Any) -> Any:
    return await client.chat.completions.create(model="gpt-6", messages=list(messages), **parameters)


async def test_a_plain_answer_is_a_completion_as_the_client_knows_it(openai_for: Clients) -> None:
    provider = FakeProvider([ModelStep([reasoning("hm"), assistant_message("hi")], response_id="chatcmpl_a")])
    client = await openai_for(provider)

    completion = await ask(client)

    [choice] = completion.choices
    assert (completion.id, completion.model, choice.finish_reason) == ("chatcmpl_a", "gpt-6", "stop")
    assert (choice.message.role, choice.message.content, choice.message.tool_calls) == ("assistant", "hi", None)
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


async def test_calls_are_tool_calls_and_their_outputs_are_accepted(openai_for: Clients) -> None:
    calls = [function_call("pay", {"n": 1}, call_id="c1"), function_call("pay", {"n": 2}, call_id="c2")]
    provider = FakeProvider([calls, [assistant_message("paid")]])
    client = await openai_for(provider)

    first = await ask(client)
    message = first.choices[0].message
    outputs = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in message.tool_calls]
    second = await ask(client, [HELLO, message.model_dump(exclude_none=True), *outputs])

    assert [(call.id, call.function.arguments) for call in message.tool_calls] == [
        ("c1", '{"n": 1}'),
        ("c2", '{"n": 2}'),
    ]
    assert first.choices[0].finish_reason == "tool_calls"
    assert second.choices[0].message.content == "paid"
    assert provider.refusals == []


async def test_a_streamed_answer_comes_in_chunks_that_add_up(openai_for: Clients) -> None:
    calls = [function_call("pay", {"number": 1}, call_id="c1"), function_call("pay", {"number": 22}, call_id="c2")]
    provider = FakeProvider([[assistant_message("hello there"), *calls]])
    client = await openai_for(provider)

    chunks = [chunk async for chunk in await ask(client, stream=True)]

    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "hello there"
    pieces = [call for delta in deltas for call in delta.tool_calls or []]
    assert [(piece.index, piece.id, piece.function.name) for piece in pieces if piece.id] == [
        (0, "c1", "pay"),
        (1, "c2", "pay"),
    ]
    assert "".join(piece.function.arguments for piece in pieces if piece.index == 1) == '{"number": 22}'
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "tool_calls"]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_usage_of_a_stream_comes_last_and_only_if_it_is_wanted(openai_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hi")]] * 2)
    client = await openai_for(provider)

    without = [chunk async for chunk in await ask(client, stream=True)]
    wanted = [chunk async for chunk in await ask(client, stream=True, stream_options={"include_usage": True})]

    assert all(chunk.usage is None for chunk in without)
    assert [bool(chunk.usage) for chunk in wanted] == [False] * (len(wanted) - 1) + [True]
    assert wanted[-1].choices == []


async def test_the_clients_own_reading_of_a_stream_gives_the_whole_message(openai_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hello there"), function_call("pay", {"n": 1}, call_id="c1")]])
    client = await openai_for(provider)

    async with client.chat.completions.stream(model="gpt-6", messages=[HELLO]) as stream:
        completion = await stream.get_final_completion()

    message = completion.choices[0].message
    assert (message.content, message.tool_calls[0].function.arguments) == ("hello there", '{"n": 1}')


@pytest.mark.parametrize("label", ["", None])
async def test_a_server_that_sends_no_call_ids_can_be_scripted(openai_for: Clients, label: str | None) -> None:
    provider = FakeProvider([[function_call("pay", {"n": 1}) | {"call_id": label}]])
    client = await openai_for(provider)

    completion = await ask(client)

    assert completion.choices[0].message.tool_calls[0].id == label


async def test_a_refusal_and_an_answer_cut_short_say_so(openai_for: Clients) -> None:
    no = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    provider = FakeProvider([[no], incomplete([assistant_message("half")]), incomplete([], "content_filter")])
    client = await openai_for(provider)

    refused, cut, filtered = await ask(client), await ask(client), await ask(client)

    assert (refused.choices[0].message.refusal, refused.choices[0].message.content) == ("I will not.", None)
    assert (cut.choices[0].finish_reason, filtered.choices[0].finish_reason) == ("length", "content_filter")


async def test_odd_bodies_and_odd_streams_are_sent_as_they_are(openai_for: Clients) -> None:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    odd = [{**head, "choices": [{"index": 0, "delta": {"content": "a", "new": 1}, "finish_reason": "stop"}]}, "[DONE]"]
    provider = FakeProvider([raw({"choices": []}), raw(odd)])
    client = await openai_for(provider)

    body = await ask(client)
    [chunk] = [chunk async for chunk in await ask(client, stream=True)]

    assert body.choices == []
    assert chunk.choices[0].delta.model_extra == {"new": 1}

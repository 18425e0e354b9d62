"""The Messages API of the fake provider, driven by Anthropic's official client."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic

from placet.testing import ModelStep, assistant_message, function_call, reasoning
from placet.testing.provider import FakeProvider, incomplete
from tests.testing.provider.conftest import Clients

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}
PAY: dict[str, Any] = {
    "name": "pay",
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


async def ask(client: AsyncAnthropic, messages: Any = (HELLO,), **parameters: Any) -> Any:
    parameters = {"model": "claude-opus-5", "max_tokens": 4096, **parameters}
    return await client.messages.create(messages=list(messages), **parameters)


async def test_a_plain_answer_is_a_message_as_the_client_knows_it(anthropic_for: Clients) -> None:
    provider = FakeProvider([ModelStep([assistant_message("hi")], response_id="msg_a")])
    client = await anthropic_for(provider)

    message = await ask(client)

    assert (message.id, message.role, message.stop_reason) == ("msg_a", "assistant", "end_turn")
    assert [(block.type, block.text) for block in message.content] == [("text", "hi")]
    assert message.usage.input_tokens > 0
    assert message._request_id == "req_1"


async def test_calls_are_tool_uses_and_reasoning_is_signed_thinking(anthropic_for: Clients) -> None:
    output = [reasoning("hm"), assistant_message("I will pay."), function_call("pay", {"n": 1}, call_id="toolu_1")]
    provider = FakeProvider([output, [assistant_message("paid")]])
    client = await anthropic_for(provider)
    thinking = {"type": "enabled", "budget_tokens": 1024}

    first = await ask(client, tools=[PAY], thinking=thinking)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]}
    second = await ask(client, [HELLO, first.to_param(), result], tools=[PAY], thinking=thinking)

    assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
    assert (first.content[0].thinking, bool(first.content[0].signature)) == ("hm", True)
    assert (first.content[2].id, first.content[2].input, first.stop_reason) == ("toolu_1", {"n": 1}, "tool_use")
    assert second.content[0].text == "paid"
    assert provider.refusals == []


async def test_a_streamed_answer_has_the_events_of_the_real_service_in_their_order(anthropic_for: Clients) -> None:
    output = [reasoning("hm"), assistant_message("hello"), function_call("pay", {"n": 1}, call_id="toolu_1")]
    provider = FakeProvider([output])
    client = await anthropic_for(provider)

    events = [event async for event in await ask(client, tools=[PAY], stream=True)]

    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    deltas = [event.delta.type for event in events if event.type == "content_block_delta"]
    assert deltas == ["thinking_delta", "signature_delta", "text_delta", "input_json_delta", "input_json_delta"]
    assert events[-2].delta.stop_reason == "tool_use"


async def test_the_clients_own_reading_of_a_stream_gives_the_whole_message(anthropic_for: Clients) -> None:
    output = [reasoning("hm"), assistant_message("hello there"), function_call("pay", {"n": 1}, call_id="toolu_1")]
    provider = FakeProvider([output, output])
    client = await anthropic_for(provider)

    plain = await ask(client, tools=[PAY])
    async with client.messages.stream(model="claude-opus-5", max_tokens=99, messages=[HELLO], tools=[PAY]) as stream:
        streamed = await stream.get_final_message()

    assert [block.model_dump() for block in streamed.content] == [block.model_dump() for block in plain.content]
    assert (streamed.stop_reason, streamed.usage.output_tokens) == (plain.stop_reason, plain.usage.output_tokens)


async def test_blocks_of_the_api_itself_can_be_scripted(anthropic_for: Clients) -> None:
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    blocks = [hidden, {"type": "text", "text": "hi"}, {"type": "tool_use", "name": "pay", "input": {"n": 1}}]
    provider = FakeProvider([blocks, [assistant_message("paid")]])
    client = await anthropic_for(provider)

    first = await ask(client, tools=[PAY])
    result = {"type": "tool_result", "tool_use_id": first.content[2].id, "content": "done"}
    await ask(client, [HELLO, first.to_param(), {"role": "user", "content": [result]}], tools=[PAY])

    assert first.content[0].data == "xyz"
    assert first.content[2].id == "toolu_000001"
    assert provider.refusals == []


async def test_an_answer_cut_short_and_a_refusal_say_so(anthropic_for: Clients) -> None:
    no = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    provider = FakeProvider([incomplete([assistant_message("half")]), [no]])
    client = await anthropic_for(provider)

    cut, refused = await ask(client), await ask(client)

    assert (cut.stop_reason, refused.stop_reason) == ("max_tokens", "refusal")


async def test_arguments_that_are_no_json_can_be_streamed(anthropic_for: Clients) -> None:
    provider = FakeProvider([[function_call("pay", '{"n": ', call_id="toolu_1")]])
    client = await anthropic_for(provider)

    events = [event async for event in await ask(client, tools=[PAY], stream=True)]

    pieces = [event.delta.partial_json for event in events if event.type == "content_block_delta"]
    assert "".join(pieces) == '{"n": '


async def test_the_key_of_the_client_is_not_recorded(anthropic_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hi")]])
    client = await anthropic_for(provider)

    await ask(client)

    [request] = provider.requests
    assert (request.path, request.api, request.headers["authorization"]) == ("/messages", "messages", "…")

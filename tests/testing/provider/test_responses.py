"""The Responses API of the fake provider, driven by the official client: answers, chains, conversations."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI

from placet.testing import ModelStep, assistant_message, function_call
from placet.testing.provider import FakeProvider, failed, incomplete
from tests.testing.provider.conftest import Clients

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "pay",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    },
}


def output(call_id: str, text: str = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def ask(client: AsyncOpenAI, items: Any = "hello", **parameters: Any) -> Any:
    return await client.responses.create(model="gpt-6", input=items, **parameters)


async def test_a_plain_answer_is_a_response_as_the_client_knows_it(openai_for: Clients) -> None:
    provider = FakeProvider([ModelStep([assistant_message("hi")], response_id="resp_a")])
    client = await openai_for(provider)

    response = await ask(client, tools=[TOOL], instructions="Be brief.", temperature=0.5)

    assert (response.id, response.status, response.output_text) == ("resp_a", "completed", "hi")
    assert (response.instructions, response.temperature, response.tools[0].name) == ("Be brief.", 0.5, "pay")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    assert response._request_id == "req_1"
    provider.assert_complete()


async def test_a_streamed_answer_has_the_events_of_the_real_service_in_their_order(openai_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hello there"), function_call("pay", {"n": 1}, call_id="c1")]])
    client = await openai_for(provider)

    events = [event async for event in await ask(client, stream=True)]

    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "hello there"
    assert events[0].response.status == "in_progress"
    assert events[-1].response.output[1].arguments == '{"n": 1}'


async def test_a_chain_goes_on_from_the_stored_response(openai_for: Clients) -> None:
    provider = FakeProvider([[function_call("pay", {"n": 1}, call_id="c1")], [assistant_message("paid")]])
    client = await openai_for(provider)

    first = await ask(client)
    second = await ask(client, [output("c1")], previous_response_id=first.id)

    assert second.output_text == "paid"
    assert second.previous_response_id == first.id == "resp_1"
    assert provider.refusals == []


async def test_a_conversation_keeps_what_was_said_and_lists_it_newest_first(openai_for: Clients) -> None:
    provider = FakeProvider([[function_call("pay", {"n": 1}, call_id="c1")], [assistant_message("paid")]])
    client = await openai_for(provider)
    conversation = await client.conversations.create(items=[{"role": "user", "content": "before"}])

    await ask(client, conversation=conversation.id)
    await ask(client, [output("c1")], conversation={"id": conversation.id})
    listed = [item async for item in client.conversations.items.list(conversation.id, limit=2)]

    assert [item.type for item in listed] == [
        "message",
        "function_call_output",
        "function_call",
        "message",
        "message",
    ]
    assert listed[0].content[0].text == "paid"
    assert len({item.id for item in listed}) == 5
    pages = [request for request in provider.requests if request.method == "GET"]
    assert [page.query.get("after") for page in pages] == [None, [listed[1].id], [listed[3].id]]


async def test_an_incomplete_answer_says_why(openai_for: Clients) -> None:
    provider = FakeProvider([incomplete([assistant_message("half an ans")])] * 2)
    client = await openai_for(provider)

    response = await ask(client)
    last = [event async for event in await ask(client, stream=True)][-1]

    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert last.type == "response.incomplete"


async def test_a_failed_response_has_an_error_and_status_200(openai_for: Clients) -> None:
    provider = FakeProvider([failed("overheated")] * 2)
    client = await openai_for(provider)

    response = await ask(client)
    last = [event async for event in await ask(client, stream=True)][-1]

    assert (response.status, response.error.message) == ("failed", "overheated")
    assert last.type == "response.failed"


async def test_what_arrives_is_recorded_without_secrets(openai_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hi")]])
    client = await openai_for(provider)

    await ask(client, "hello", extra_headers={"x-mine": "yes"})

    [request] = provider.requests
    assert (request.method, request.path, request.api) == ("POST", "/responses", "responses")
    assert request.headers["x-mine"] == "yes"
    assert request.headers["authorization"] == "…"
    assert (request.body["input"], request.status) == ("hello", 200)
    assert request.input == [{"role": "user", "content": "hello"}]


async def test_a_script_that_is_too_short_is_told_to_the_client_and_to_the_test(openai_for: Clients) -> None:
    provider = FakeProvider([])
    client = await openai_for(provider)

    with pytest.raises(Exception, match="the model was asked once more") as told:
        await ask(client)

    assert told.value.status_code == 418
    with pytest.raises(AssertionError, match="asked once more"):
        provider.assert_complete()


async def test_a_step_that_was_not_used_is_found(openai_for: Clients) -> None:
    provider = FakeProvider([[assistant_message("hi")], [assistant_message("again")]])

    await ask(await openai_for(provider))

    with pytest.raises(AssertionError, match="1 of 2 scripted steps"):
        provider.assert_complete()


async def test_a_step_may_be_a_function_of_the_request(openai_for: Clients) -> None:
    provider = FakeProvider([lambda request: [assistant_message(f"you said {request.input[-1]['content']}")]])

    response = await ask(await openai_for(provider), "hello")

    assert response.output_text == "you said hello"

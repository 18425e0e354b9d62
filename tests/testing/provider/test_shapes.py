"""What the fake provider sends is, field by field, what the official clients' types allow: checked by validation, since
the clients themselves read leniently."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from anthropic._models import validate_type as validate_anthropic
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.shared import ErrorResponse
from openai._models import validate_type as validate_openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.conversations import Conversation, ConversationItem, ConversationItemList
from openai.types.responses import Response, ResponseItemList, ResponseStreamEvent

from placet.testing import assistant_message, function_call, reasoning
from placet.testing.provider import FakeProvider, ProviderStep, failed, incomplete, server_error, stream_error

KEYS = {"authorization": "Bearer x", "anthropic-version": "2026-10-21"}
REFUSED = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
FUNCTION = function_call("pay", {"n": 1}, call_id="c1")
CUSTOM = {"type": "custom_tool_call", "name": "run", "input": "ls -la", "call_id": "c2"}
TOOLS = [{"name": "pay", "input_schema": {"type": "object"}}]
TALK = [[reasoning("hm"), assistant_message("hello there"), FUNCTION], [REFUSED], [assistant_message("")]]
HOSTED: list[Any] = [
    [
        {"type": "mcp_list_tools", "server_label": "bank", "tools": [{"name": "pay", "input_schema": {}}]},
        {"type": "mcp_approval_request", "server_label": "bank", "name": "pay", "arguments": "{}"},
        {"type": "mcp_call", "server_label": "bank", "name": "pay", "arguments": '{"n": 1}', "output": "done"},
        {
            "type": "mcp_call",
            "server_label": "bank",
            "name": "pay",
            "arguments": "{}",
            "error": {"type": "http_error", "code": 500, "message": "no"},
            "status": "failed",
        },
    ],
    [
        {"type": "web_search_call", "action": {"type": "search", "query": "x"}},
        {"type": "file_search_call", "queries": ["x"]},
        CUSTOM,
    ],
    incomplete([assistant_message("half")]),
    failed("overheated"),
]


def asked(step: Any, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
    """Ask the provider without a client in between."""
    provider = FakeProvider([step])
    reply = provider.answer("POST", path, KEYS, json.dumps(body).encode())
    assert provider.refusals == []
    return reply.status, b"".join(reply.pieces)


def events_of(sent: bytes) -> list[Any]:
    lines = sent.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


@pytest.mark.parametrize("step", [*TALK, *HOSTED])
def test_responses_and_their_events_are_valid(step: Any) -> None:
    body = {"model": "gpt-6", "input": "hello", "conversation": None}

    _, plain = asked(step, "/responses", body)
    _, streamed = asked(step, "/responses", {**body, "stream": True})

    validate_openai(type_=Response, value=json.loads(plain))
    events = events_of(streamed)
    for event in events:
        validate_openai(type_=ResponseStreamEvent, value=event)
    names = [line[7:] for line in streamed.decode().splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    assert events[-1]["response"]["output"] == json.loads(plain)["output"]


@pytest.mark.parametrize(
    "step", [*TALK, incomplete([assistant_message("half")]), [FUNCTION, FUNCTION | {"call_id": "d"}]]
)
def test_completions_and_their_chunks_are_valid(step: Any) -> None:
    body = {"model": "gpt-6", "messages": [{"role": "user", "content": "hello"}]}

    _, plain = asked(step, "/chat/completions", body)
    _, streamed = asked(step, "/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})

    validate_openai(type_=ChatCompletion, value=json.loads(plain))
    for chunk in events_of(streamed):
        validate_openai(type_=ChatCompletionChunk, value=chunk)
    assert streamed.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("step", [*TALK, incomplete([assistant_message("half")])])
def test_messages_and_their_events_are_valid(step: Any) -> None:
    body = {"model": "claude", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}], "tools": TOOLS}

    _, plain = asked(step, "/v1/messages", body)
    _, streamed = asked(step, "/v1/messages", {**body, "stream": True})

    validate_anthropic(type_=Message, value=json.loads(plain))
    for event in events_of(streamed):
        if event["type"] != "ping":
            validate_anthropic(type_=RawMessageStreamEvent, value=event)


def test_lists_and_conversations_are_valid() -> None:
    provider = FakeProvider([[reasoning("hm"), FUNCTION], [assistant_message("hi")]])
    conversation = provider.create_conversation([{"role": "user", "content": "hello"}])

    def got(path: str) -> Any:
        return json.loads(b"".join(provider.answer("GET", path, KEYS, b"").pieces))

    body = {"model": "m", "input": "hello", "conversation": conversation}
    provider.answer("POST", "/responses", KEYS, json.dumps(body).encode()).ended()
    output = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    provider.answer("POST", "/responses", KEYS, json.dumps({**body, "input": [output]}).encode())

    validate_openai(type_=Conversation, value=got(f"/conversations/{conversation}"))
    listed = got(f"/conversations/{conversation}/items?limit=100")
    validate_openai(type_=ConversationItemList, value=listed)
    for item in listed["data"]:
        validate_openai(type_=ConversationItem, value=item)
    assert len(listed["data"]) == 6
    validate_openai(type_=Response, value=got("/responses/resp_2"))
    validate_openai(type_=ResponseItemList, value=got("/responses/resp_2/input_items"))


@pytest.mark.parametrize("step", [server_error(), server_error(529), stream_error([assistant_message("hi")], after=2)])
def test_errors_of_anthropic_are_valid(step: ProviderStep) -> None:
    body = {"model": "claude", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}], "stream": True}

    status, sent = asked(step, "/v1/messages", body)

    found = events_of(sent)[-1] if status == 200 else json.loads(sent)
    validate_anthropic(type_=ErrorResponse, value=found)


def test_every_event_that_the_provider_can_send_is_one_that_the_client_knows() -> None:
    known = {form.model_fields["type"].annotation for form in get_args(get_args(ResponseStreamEvent)[0])}
    words = {word for each in known for word in get_args(each)}
    sent = set()
    for step in [*TALK, *HOSTED]:
        _, streamed = asked(step, "/responses", {"model": "m", "input": "hello", "stream": True})
        sent |= {event["type"] for event in events_of(streamed)}

    assert sent <= words
    assert {"response.mcp_call.failed", "response.refusal.done", "response.custom_tool_call_input.done"} <= sent

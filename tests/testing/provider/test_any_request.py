"""Whatever somebody sends, the provider answers or refuses: it never breaks, and it never blames the script."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.testing import assistant_message
from placet.testing.provider import FakeProvider
from tests.testing.provider import chat_rules, messages_rules, responses_rules

KEYS = {"authorization": "Bearer x", "anthropic-version": "2026-10-21"}
HI = [assistant_message("hi")]
USER: dict[str, Any] = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
FORMAT = {"type": "json_schema", "name": "bill", "strict": True, "schema": responses_rules.SCHEMA}
MOULDS: list[tuple[str, dict[str, Any]]] = [
    (
        "/responses",
        {
            "model": "m",
            "input": [USER, responses_rules.CALL, responses_rules.OUTPUT, responses_rules.THOUGHT],
            "tools": [responses_rules.TOOL, responses_rules.MCP],
            "tool_choice": {"type": "function", "name": "pay"},
            "text": {"format": FORMAT},
            "reasoning": {"effort": "low"},
            "metadata": {"a": "b"},
            "conversation": {"id": "conv_1"},
            "temperature": 1,
            "include": ["reasoning.encrypted_content"],
        },
    ),
    ("/conversations", {"items": [USER, responses_rules.CALL], "metadata": {"a": "b"}}),
    (
        "/chat/completions",
        {
            "model": "m",
            "messages": [chat_rules.HELLO, chat_rules.calls("c1"), chat_rules.answer("c1")],
            "tools": [chat_rules.TOOL],
            "tool_choice": {"type": "function", "function": {"name": "pay"}},
            "response_format": {"type": "json_schema", "json_schema": FORMAT},
            "stream": True,
            "stream_options": {"include_usage": True},
            "stop": ["a"],
            "metadata": {"a": "b"},
        },
    ),
    (
        "/messages",
        {
            "model": "m",
            "max_tokens": 3000,
            "messages": [
                messages_rules.HELLO,
                messages_rules.says(messages_rules.text(), messages_rules.use("t1")),
                messages_rules.asks(messages_rules.result("t1"), messages_rules.text()),
            ],
            "tools": [{**messages_rules.PAY, "strict": True}],
            "tool_choice": {"type": "tool", "name": "pay"},
            "thinking": {"type": "adaptive"},
            "system": [{"type": "text", "text": "Be kind."}],
        },
    ),
]
WORDS = st.sampled_from(
    ["", "x", "user", "assistant", "message", "reasoning", "item_reference", "tool_result", "thinking"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "role", "x"]), inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside: list[tuple[Any, ...]] = []
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            inside += places(each, (*path, key))
    return [path, *inside] if path else inside


def changed(body: Any, path: tuple[Any, ...], value: Any, *, removed: bool) -> Any:
    found = inner = copy.deepcopy(body)
    for key in path[:-1]:
        inner = inner[key]
    if removed:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return found


@settings(max_examples=400, deadline=None, print_blob=True)
@given(data=st.data())
def test_a_request_with_anything_in_it_is_answered_or_refused(data: st.DataObject) -> None:
    path, body = data.draw(st.sampled_from(MOULDS))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(body) or [("model",)]))
        removed = data.draw(st.booleans()) and bool(places(body))
        body = changed(body, place, data.draw(JSON), removed=removed)
    provider = FakeProvider([HI])

    reply = provider.answer("POST", path, KEYS, json.dumps(body).encode())

    assert reply.status in (200, 400, 404), (reply.status, reply.pieces)
    assert (reply.status == 200) == (provider.refusals == [])


@settings(max_examples=100, deadline=None, print_blob=True)
@given(body=st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode()), data=st.data())
def test_a_body_of_anything_is_answered_or_refused(body: bytes, data: st.DataObject) -> None:
    provider = FakeProvider([HI])
    conversation = provider.create_conversation()
    path = data.draw(st.sampled_from([*(path for path, _ in MOULDS), f"/conversations/{conversation}/items"]))

    reply = provider.answer("POST", path, KEYS, body)

    assert reply.status in (200, 400)

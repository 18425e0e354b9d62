"""What goes out to a server that speaks Chat Completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet import ModelRequest, ModelSettings, ToolSpec, UserError
from placet.facts.codec import JsonObject
from placet.models.openai_chat import create_arguments
from placet.models.openai_chat_request import as_messages
from placet.models.openai_chat_response import as_items
from placet.testing import assistant_message, function_call, reasoning

SERVER = "llm.example"
PAY = ToolSpec("pay", "Pay.", {"type": "object", "properties": {}, "additionalProperties": False, "required": []})


def messages(*items: JsonObject, instructions: str | None = None, server: str = SERVER) -> list[JsonObject]:
    return as_messages(items, instructions, server)


def output_of(call_id: str, output: object) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def arguments(request: ModelRequest, server: str = SERVER) -> dict[str, Any]:
    return create_arguments("m", request, server)


def test_a_turn_of_the_model_is_one_message_and_its_outputs_follow_at_once() -> None:
    found = messages(
        {"role": "user", "content": "Pay!"},
        assistant_message("Both at once."),
        function_call("pay", {"n": 1}, call_id="a"),
        function_call("pay", {"n": 2}, call_id="b"),
        output_of("a", "paid"),
        output_of("b", "Tool execution was not approved."),
        {"role": "user", "content": "And?"},
        instructions="Be brief.",
    )

    assert found == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Pay!"},
        {
            "role": "assistant",
            "content": "Both at once.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "pay", "arguments": '{"n": 1}'}},
                {"id": "b", "type": "function", "function": {"name": "pay", "arguments": '{"n": 2}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "paid"},
        {"role": "tool", "tool_call_id": "b", "content": "Tool execution was not approved."},
        {"role": "user", "content": "And?"},
    ]


def test_a_text_that_stands_behind_the_calls_stays_in_their_message() -> None:
    found = messages(function_call("pay", {}, call_id="a"), assistant_message("I pay."), output_of("a", "paid"))

    assert [each["role"] for each in found] == ["assistant", "tool"]
    assert found[0]["content"] == "I pay."


@pytest.mark.parametrize(("server", "role"), [("api.openai.com", "developer"), (SERVER, "system")])
def test_what_a_developer_or_the_system_says_stays_where_it_stands_in_a_role_that_the_server_knows(
    server: str, role: str
) -> None:
    said: list[JsonObject] = [
        {"role": "developer", "content": "A"},
        {"role": "user", "content": "B"},
        {"role": "system", "content": "C"},
    ]

    found = messages(*said, server=server)

    assert [(each["role"], each["content"]) for each in found] == [(role, "A"), ("user", "B"), ("system", "C")]


def test_parts_of_a_message_become_this_apis_parts_and_keep_fields_of_their_own() -> None:
    parts: list[object] = [
        {"type": "input_text", "text": "Look:", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
    ]

    [found] = messages({"role": "user", "content": parts})

    assert found["content"] == [
        {"type": "text", "text": "Look:", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "input_image", "file_id": "file_1"}, "takes an image by its image_url"),
        ({"type": "input_file", "file_url": "https://example.com/a.pdf"}, "takes no file by its address"),
    ],
)
def test_a_part_that_this_api_cannot_take_is_refused_in_words(part: JsonObject, words: str) -> None:
    with pytest.raises(UserError, match=words):
        messages({"role": "user", "content": [part]})


def test_what_an_output_holds_beyond_text_follows_all_outputs_in_a_message_of_the_user() -> None:
    picture: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}

    found = messages(
        function_call("look", {}, call_id="a"),
        function_call("look", {}, call_id="b"),
        output_of("a", [{"type": "input_text", "text": "A chart."}, picture]),
        output_of("b", "nothing"),
        {"role": "user", "content": "And?"},
    )

    assert [each["role"] for each in found] == ["assistant", "tool", "tool", "user", "user"]
    assert str(found[1]["content"]).startswith("A chart.\n")
    assert found[3]["content"] == [
        {"type": "text", "text": "The output of the call a holds this:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]


@pytest.mark.parametrize("written", ['{"n": 1,,', "[1]", "12", "not JSON"])
def test_malformed_arguments_in_the_history_are_sent_as_an_object_that_holds_them(written: str) -> None:
    [found] = messages(function_call("pay", written, call_id="a"))

    [call] = found["tool_calls"]  # type: ignore[misc]
    assert json.loads(call["function"]["arguments"]) == {"malformed_arguments": written}


def test_arguments_of_a_call_without_any_are_an_empty_object() -> None:
    [found] = messages(function_call("pay", " ", call_id="a"))

    assert found["tool_calls"][0]["function"]["arguments"] == "{}"  # type: ignore[index]


def test_a_long_label_is_shortened_in_call_and_output_alike_and_stays_its_own() -> None:
    one, other = "call_" + "x" * 60 + "1", "call_" + "x" * 60 + "2"

    found = messages(
        function_call("pay", {}, call_id=one),
        function_call("pay", {}, call_id=other),
        output_of(one, "1"),
        output_of(other, "2"),
    )

    labels = [call["id"] for call in found[0]["tool_calls"]]  # type: ignore[attr-defined]
    assert len(set(labels)) == 2
    assert all(len(label) <= 40 for label in labels)
    assert [each["tool_call_id"] for each in found[1:]] == labels


def test_what_another_api_made_for_itself_is_left_out() -> None:
    found = messages(
        {"role": "user", "content": "Hi"},
        reasoning("of the Responses API"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "reasoning", "summary": [], "provider_data": {"api": "anthropic", "block": {"type": "thinking"}}},
        {"type": "anthropic:server_tool_use", "provider_data": {"api": "anthropic", "block": {}}},
        {**assistant_message("Hello"), "provider_data": {"api": "anthropic", "blocks": [{"citations": [1]}]}},
    )

    assert found == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def test_an_item_that_only_a_server_with_a_memory_could_find_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="item_reference"):
        messages({"type": "item_reference", "id": "msg_1"})


SAID: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "I must pay.",
    "mood": {"tone": "calm"},
    "tool_calls": [
        {
            "id": "a",
            "type": "function",
            "function": {"name": "pay", "arguments": "{}", "hint": 1},
            "extra_content": {"google": {"thought_signature": "c2ln"}},
        }
    ],
}


def test_reasoning_signatures_and_fields_of_a_newer_api_go_back_to_the_server_that_gave_them() -> None:
    found = messages(*as_items(SAID, SERVER), output_of("a", "paid"))

    assert found[0] == SAID


def test_another_server_gets_the_call_and_nothing_that_it_would_not_know() -> None:
    found = messages(*as_items(SAID, SERVER), output_of("a", "paid"), server="other.example")

    call = {"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    assert found[0] == {"role": "assistant", "content": None, "tool_calls": [call]}


def test_reasoning_that_led_to_an_answer_and_to_no_call_is_not_sent_back() -> None:
    items = as_items({"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, SERVER)

    assert messages(*items) == [{"role": "assistant", "content": "Yes."}]


def test_parts_that_a_server_made_go_back_as_they_were_unless_somebody_changed_the_text() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Paid."}]
    [item] = as_items({"role": "assistant", "content": parts}, SERVER)

    changed = {**item, "content": [{"type": "output_text", "text": "(redacted)"}]}

    assert messages(item) == [{"role": "assistant", "content": parts}]
    assert messages(changed) == [{"role": "assistant", "content": "(redacted)"}]


def test_a_spoken_answer_goes_back_by_its_words_because_the_server_soon_forgets_the_sound() -> None:
    audio = {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Hello."}
    [item] = as_items({"role": "assistant", "content": None, "audio": audio}, SERVER)

    assert item["provider_data"]["message"] == {"audio": audio}  # type: ignore[index]
    assert messages(item) == [{"role": "assistant", "content": "Hello."}]


def test_a_refusal_goes_back_as_a_refusal() -> None:
    [item] = as_items({"role": "assistant", "content": None, "refusal": "No."}, SERVER)

    assert messages(item) == [{"role": "assistant", "content": None, "refusal": "No."}]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_are_sent_under_the_names_of_this_api_and_what_is_not_set_is_not_sent() -> None:
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        tool_choice="pay",
        parallel_tool_calls=False,
        max_tokens=100,
        reasoning={"effort": "low", "summary": "auto"},
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        top_logprobs=2,
        extra_query={"q": "1"},
        extra_body={"top_k": 3},
        extra_headers={"x": "y"},
        extra_args={"seed": 7},
        timeout=5.0,
    )

    found = arguments(ModelRequest([], tools=[PAY], model_settings=settings))

    assert found == {
        "model": "m",
        "messages": [],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "pay",
                    "description": "Pay.",
                    "parameters": dict(PAY.params_json_schema),
                    "strict": True,
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "pay"}},
        "parallel_tool_calls": False,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "reasoning_effort": "low",
        "verbosity": "low",
        "metadata": {"a": "b"},
        "store": False,
        "logprobs": True,
        "top_logprobs": 2,
        "extra_query": {"q": "1"},
        "extra_body": {"top_k": 3},
        "extra_headers": {"x": "y"},
        "seed": 7,
        "timeout": 5.0,
    }
    assert arguments(ModelRequest([])) == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("api.openai.com", "max_completion_tokens"),
        ("eu.api.openai.com", "max_completion_tokens"),
        ("shop.openai.azure.com", "max_completion_tokens"),
        ("api.notopenai.com", "max_tokens"),
        ("localhost", "max_tokens"),
    ],
)
def test_openai_itself_gets_the_limit_of_tokens_under_its_newer_name(server: str, name: str) -> None:
    found = arguments(ModelRequest([], model_settings=ModelSettings(max_tokens=100)), server)

    assert found == {"model": "m", "messages": [], name: 100}


@pytest.mark.parametrize("choice", ["auto", "required", "none", {"type": "allowed_tools"}])
def test_a_choice_of_tools_goes_as_it_is_and_only_with_tools(choice: Any) -> None:
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=True)

    assert arguments(ModelRequest([], tools=[PAY], model_settings=settings))["tool_choice"] == choice
    assert arguments(ModelRequest([], model_settings=settings)) == {"model": "m", "messages": []}


def test_structured_output_is_asked_for_by_a_strict_schema_where_that_is_possible() -> None:
    closed = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    open_ = {"type": "object", "additionalProperties": {"type": "integer"}}

    strict = arguments(ModelRequest([], output_schema=closed))["response_format"]["json_schema"]
    loose = arguments(ModelRequest([], output_schema=open_))["response_format"]["json_schema"]

    assert (strict["name"], strict["strict"], strict["schema"]["additionalProperties"]) == ("final_output", True, False)
    assert (loose["strict"], loose["schema"]) == (False, open_)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ModelRequest([], previous_response_id="resp_1"), "keeps no conversations"),
        (ModelRequest([], conversation_id="conv_1"), "keeps no conversations"),
        (ModelRequest([], hosted_tools=[{"type": "web_search"}]), "runs no hosted tools"),
        (ModelRequest([], model_settings=ModelSettings(max_tokens=1, extra_args={"max_tokens": 2})), "max_tokens"),
    ],
)
def test_what_this_api_has_not_is_refused_in_words(request_: ModelRequest, words: str) -> None:
    with pytest.raises(UserError, match=words):
        arguments(request_)

"""What goes out to Anthropic's API."""

from __future__ import annotations

from typing import Any

import pytest

from placet import ModelRequest, ModelSettings, ToolSpec, UserError
from placet.facts.codec import JsonObject
from placet.models.anthropic_messages import DEFAULT_MAX_TOKENS, asked_of
from placet.models.anthropic_messages_response import as_items, as_response
from placet.testing import assistant_message, function_call, reasoning

PAY = ToolSpec("pay", "Pay.", {"type": "object", "properties": {}, "additionalProperties": False, "required": []})
HELLO: JsonObject = {"role": "user", "content": "Hello"}


def arguments(*items: JsonObject, **given: Any) -> dict[str, Any]:
    return asked_of("m", ModelRequest(list(items), **given)).arguments


def messages(*items: JsonObject, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = arguments(*items, **given)["messages"]
    return found


def output_of(call_id: str, output: object, **more: object) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": output, **more}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def test_both_sides_take_turns_and_results_stand_first_in_the_message_after_their_calls() -> None:
    found = messages(
        {"role": "user", "content": "Pay!"},
        {"role": "user", "content": "Both."},
        assistant_message("I pay."),
        function_call("pay", {"n": 1}, call_id="a"),
        function_call("pay", {"n": 2}, call_id="b"),
        {"role": "user", "content": "Quick!"},
        output_of("a", "paid"),
        output_of("b", "Tool execution was not approved."),
        assistant_message("Done."),
        HELLO,
    )

    assert found == [
        {"role": "user", "content": [text("Pay!"), text("Both.")]},
        {
            "role": "assistant",
            "content": [
                text("I pay."),
                {"type": "tool_use", "id": "a", "name": "pay", "input": {"n": 1}},
                {"type": "tool_use", "id": "b", "name": "pay", "input": {"n": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "paid"},
                {"type": "tool_result", "tool_use_id": "b", "content": "Tool execution was not approved."},
                text("Quick!"),
            ],
        },
        {"role": "assistant", "content": [text("Done.")]},
        {"role": "user", "content": [text("Hello")]},
    ]


def test_an_output_that_says_that_it_is_none_goes_as_an_error_and_an_empty_one_without_content() -> None:
    [_, _, answer] = messages(
        HELLO,
        function_call("pay", {}, call_id="a"),
        function_call("pay", {}, call_id="b"),
        output_of("a", "broke", status="incomplete"),
        output_of("b", ""),
    )

    assert answer["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "broke", "is_error": True},
        {"type": "tool_result", "tool_use_id": "b"},
    ]


def test_the_system_prompt_is_the_instructions_and_what_developers_and_the_system_say() -> None:
    one = arguments(HELLO, system_instructions="Be brief.")
    two = arguments({"role": "developer", "content": "Be kind."}, HELLO, system_instructions="Be brief.")
    kept = {"type": "input_text", "text": "Long.", "cache_control": {"type": "ephemeral"}}
    cached = arguments({"role": "system", "content": [kept]}, HELLO)

    assert one["system"] == "Be brief."
    assert two["system"] == [text("Be brief."), text("Be kind.")]
    assert cached["system"] == [{**text("Long."), "cache_control": {"type": "ephemeral"}}]
    assert [each["role"] for each in two["messages"]] == ["user"]


def test_parts_of_a_message_become_blocks_and_keep_fields_of_their_own() -> None:
    parts: list[object] = [
        {"type": "input_text", "text": "Look:", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "input_text", "text": " "},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        {
            "type": "input_file",
            "file_data": "data:text/markdown;charset=utf-8;base64,SGk=",
            "citations": {"enabled": True},
        },
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
    ]

    [found] = messages({"role": "user", "content": parts})

    assert found["content"] == [
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            "title": "a.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Hi"},
            "citations": {"enabled": True},
        },
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
    ]


def test_an_output_may_hold_pictures() -> None:
    picture: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}

    [_, _, answer] = messages(
        HELLO,
        function_call("look", {}, call_id="a"),
        output_of("a", [{"type": "input_text", "text": "A chart."}, picture]),
    )

    assert answer["content"][0]["content"] == [
        text("A chart."),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "takes no audio"),
        ({"type": "input_image"}, "An input_image has"),
        ({"type": "input_file", "filename": "a.pdf"}, "An input_file has"),
        ({"type": "input_image", "image_url": "data:image/png,AAAA"}, "must be base64"),
        ({"type": "input_file", "file_data": "data:text/plain;base64,/w=="}, "UTF-8"),
    ],
)
def test_a_part_that_this_api_cannot_take_is_refused_in_words(part: JsonObject, words: str) -> None:
    with pytest.raises(UserError, match=words):
        messages({"role": "user", "content": [part]})


@pytest.mark.parametrize("written", ['{"n": 1,,', "[1]", "12"])
def test_malformed_arguments_in_the_history_are_sent_as_an_object_that_holds_them(written: str) -> None:
    found = messages(HELLO, function_call("pay", written, call_id="a"))

    assert found[1]["content"][0]["input"] == {"malformed_arguments": written}


def test_labels_of_other_providers_are_put_into_letters_that_this_api_takes_and_two_stay_two() -> None:
    found = messages(
        HELLO,
        function_call("pay", {}, call_id="functions.pay:0"),
        function_call("pay", {}, call_id="functions/pay/0"),
        output_of("functions.pay:0", "1"),
        output_of("functions/pay/0", "2"),
    )

    labels = [block["id"] for block in found[1]["content"]]
    assert labels[0] == "functions_pay_0"
    assert len(set(labels)) == 2
    assert [block["tool_use_id"] for block in found[2]["content"]] == labels


def test_a_conversation_that_begins_with_the_model_gets_a_beginning() -> None:
    found = messages(assistant_message("How can I help?"), HELLO)

    assert [each["role"] for each in found] == ["user", "assistant", "user"]


def test_a_conversation_that_ends_with_the_model_lets_it_go_on() -> None:
    found = messages(HELLO, assistant_message("One moment."))

    assert [each["role"] for each in found] == ["user", "assistant", "user"]


def test_what_another_api_made_for_itself_is_left_out() -> None:
    found = messages(
        HELLO,
        reasoning("of the Responses API"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "reasoning", "summary": [], "provider_data": {"api": "openai-chat", "field": "reasoning_content"}},
        {**assistant_message("Hi."), "provider_data": {"api": "openai-chat", "message": {"mood": 1}}},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    )

    assert found[1] == {"role": "assistant", "content": [text("Hi."), text("No.")]}


def test_an_item_that_only_a_server_with_a_memory_could_find_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="item_reference"):
        messages({"type": "item_reference", "id": "msg_1"})


# -- what only this API understands ------------------------------------------------------------------------------------

SAID: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "I must look.", "signature": "sig", "newest": 1},
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "text", "text": "The sky is ", "citations": None},
    {"type": "text", "text": "blue", "citations": [{"type": "char_location", "cited_text": "blue"}]},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "daydream", "dream": "sheep"},
    {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"n": 1.0}, "caller": {"type": "direct"}},
]


def answered(*before: JsonObject, **given: Any) -> list[JsonObject]:
    """What the model answered to these items: with the mark of the request that asked."""
    mark = asked_of("m", ModelRequest(list(before), **given)).mark
    return as_items({"content": SAID, "stop_reason": "tool_use"}, mark)


def test_everything_that_the_model_said_goes_back_as_it_was() -> None:
    given = {"system_instructions": "Be brief.", "tools": [PAY]}
    found = messages(HELLO, *answered(HELLO, **given), output_of("toolu_1", "paid"), **given)

    assert found[1] == {"role": "assistant", "content": SAID}


@pytest.mark.parametrize(
    "later",
    [
        {"system_instructions": "Be kind."},
        {"tools": []},
        {"tools": [PAY, ToolSpec("look", "", {"type": "object"})]},
    ],
    ids=["other instructions", "no tools", "more tools"],
)
def test_thinking_behind_other_words_than_those_before_which_it_was_thought_is_left_out(later: Any) -> None:
    given = {"system_instructions": "Be brief.", "tools": [PAY]}
    items = [HELLO, *answered(HELLO, **given), output_of("toolu_1", "paid")]

    found = messages(*items, **{**given, **later})

    assert found[1]["content"] == SAID[2:]


def test_thinking_behind_a_changed_history_is_left_out_and_so_is_all_thinking_behind_it() -> None:
    first = answered(HELLO, tools=[PAY])
    then: list[JsonObject] = [*first, output_of("toolu_1", "paid"), {"role": "user", "content": "Again"}]
    second = answered(HELLO, *then, tools=[PAY])

    kept = messages(HELLO, *then, *second, tools=[PAY])
    changed = messages({"role": "user", "content": "Hullo"}, *then, *second, tools=[PAY])

    assert [each["content"] for each in kept if each["role"] == "assistant"] == [SAID, SAID]
    assert [each["content"] for each in changed if each["role"] == "assistant"] == [SAID[2:], SAID[2:]]


def test_a_mode_of_thinking_that_wants_its_block_before_a_call_gets_it_in_any_case() -> None:
    settings = ModelSettings(reasoning={"type": "enabled", "budget_tokens": 2000})
    items = [HELLO, *answered(HELLO), output_of("toolu_1", "paid")]

    found = messages(*items, system_instructions="Be kind.", model_settings=settings)

    assert found[1]["content"] == SAID


def test_a_mark_of_caching_changes_nothing_of_what_was_said() -> None:
    parts = [{"type": "input_text", "text": "Hello"}]
    marked = [{"type": "input_text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]
    items = answered({"role": "user", "content": parts}, tools=[PAY])

    found = messages({"role": "user", "content": marked}, *items, tools=[PAY])
    system: list[JsonObject] = [{"role": "system", "content": each} for each in (parts, marked)]
    said = answered(system[0], HELLO, tools=[PAY])
    behind_a_marked_prompt = messages(system[1], HELLO, *said, tools=[PAY])

    assert found[1]["content"] == SAID
    assert behind_a_marked_prompt[1]["content"] == SAID


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_are_sent_under_the_names_of_this_api_and_what_is_not_set_is_not_sent() -> None:
    settings = ModelSettings(
        tool_choice="pay",
        parallel_tool_calls=False,
        max_tokens=100,
        reasoning={"type": "adaptive", "display": "omitted", "effort": "low"},
        metadata={"user_id": "u1", "other": "x"},
        extra_query={"q": "1"},
        extra_body={"top_k": 3},
        extra_headers={"x": "y"},
        extra_args={"cache_control": {"type": "ephemeral"}, "stop_sequences": ["."]},
        timeout=5.0,
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=0.1,
        store=False,
        truncation="auto",
    )

    found = arguments(HELLO, tools=[PAY], model_settings=settings)

    assert found == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [text("Hello")]}],
        "tools": [{"name": "pay", "description": "Pay.", "input_schema": dict(PAY.params_json_schema)}],
        "tool_choice": {"type": "tool", "name": "pay", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "low"},
        "metadata": {"user_id": "u1"},
        "extra_query": {"q": "1"},
        "extra_body": {"top_k": 3},
        "extra_headers": {"x": "y"},
        "cache_control": {"type": "ephemeral"},
        "stop_sequences": ["."],
        "timeout": 5.0,
    }
    assert set(arguments(HELLO)) == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ({"type": "tool", "name": "x"}, None, {"type": "tool", "name": "x"}),
    ],
)
def test_a_choice_of_tools_is_said_in_the_words_of_this_api(choice: Any, parallel: Any, sent: Any) -> None:
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=parallel)

    assert arguments(HELLO, tools=[PAY], model_settings=settings).get("tool_choice") == sent
    assert "tool_choice" not in arguments(HELLO, model_settings=settings)


def test_an_agent_without_tools_declares_those_that_were_called_before_and_may_call_none() -> None:
    found = arguments(HELLO, function_call("pay", {}, call_id="a"), output_of("a", "paid"))

    assert found["tools"] == [{"name": "pay", "input_schema": {"type": "object"}}]
    assert found["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (ModelSettings(), DEFAULT_MAX_TOKENS),
        (ModelSettings(max_tokens=5), 5),
        (ModelSettings(reasoning={"type": "enabled", "budget_tokens": 4000}), DEFAULT_MAX_TOKENS + 4000),
        (ModelSettings(reasoning={"effort": "high"}), DEFAULT_MAX_TOKENS),
    ],
)
def test_there_is_always_a_limit_of_tokens_and_it_leaves_room_for_an_answer(
    settings: ModelSettings, limit: int
) -> None:
    assert arguments(HELLO, model_settings=settings)["max_tokens"] == limit


def test_structured_output_is_asked_for_by_a_schema_that_this_api_takes() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}

    found = arguments(HELLO, output_schema=schema)["output_config"]["format"]

    assert found["type"] == "json_schema"
    assert found["schema"]["additionalProperties"] is False
    assert "minimum" not in found["schema"]["properties"]["n"]
    assert schema["properties"]["n"] == {"type": "integer", "minimum": 1}  # type: ignore[index]


def test_a_tool_that_the_api_hosts_is_declared_beside_ours() -> None:
    search = {"type": "web_search_20260209", "name": "web_search"}

    found = arguments(HELLO, tools=[PAY], hosted_tools=[search])

    assert [tool["name"] for tool in found["tools"]] == ["pay", "web_search"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"previous_response_id": "resp_1"}, "keeps no conversations"),
        ({"conversation_id": "conv_1"}, "keeps no conversations"),
        ({"hosted_tools": [{"type": "file_search"}]}, "no hosted tool of the kind file_search"),
        ({"model_settings": ModelSettings(extra_args={"max_tokens": 2})}, "max_tokens"),
    ],
)
def test_what_this_api_has_not_is_refused_in_words(given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        arguments(HELLO, **given)


@pytest.mark.parametrize(
    ("expires_at", "sent"),
    [("2999-01-01T00:00:00Z", "container_1"), ("2020-01-01T00:00:00Z", None), (None, "container_1")],
)
def test_the_apis_own_tools_go_on_where_they_worked_as_long_as_it_is_there(expires_at: Any, sent: Any) -> None:
    said = {"content": SAID, "container": {"id": "container_1", "expires_at": expires_at}}
    items = [HELLO, *as_response(said, "mark").output, output_of("toolu_1", "paid")]
    code = {"type": "code_execution_20260521", "name": "code_execution"}

    assert arguments(*items, hosted_tools=[code]).get("container") == sent
    assert "container" not in arguments(*items, tools=[PAY])

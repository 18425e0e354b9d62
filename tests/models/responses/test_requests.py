"""What goes over the wire for a request: settings, tools and history, as the API wants them."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.shared import Reasoning

from placet import ModelRequest, ModelSettings, ToolSpec, UserError
from placet.models.responses_wire import create_arguments, input_items

QUESTION: dict[str, Any] = {"role": "user", "content": "hello"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "paid"}


def arguments(settings: ModelSettings | None = None, **request: Any) -> dict[str, Any]:
    return create_arguments("gpt-test", ModelRequest([QUESTION], model_settings=settings or ModelSettings(), **request))


def test_what_nobody_set_is_left_to_the_provider() -> None:
    assert arguments() == {"model": "gpt-test", "input": [QUESTION]}


def test_settings_go_under_the_names_of_the_api() -> None:
    settings = ModelSettings(
        temperature=0.1,
        top_p=0.9,
        max_tokens=100,
        parallel_tool_calls=False,
        truncation="auto",
        metadata={"tenant": "7"},
        store=True,
        prompt_cache_key="shop",
        prompt_cache_retention="24h",
        extra_headers={"x-a": "b"},
        extra_query={"q": "1"},
        extra_body={"new_field": 1},
        extra_args={"service_tier": "flex"},
        timeout=3.0,
    )

    assert arguments(settings) == {
        "model": "gpt-test",
        "input": [QUESTION],
        "temperature": 0.1,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "parallel_tool_calls": False,
        "truncation": "auto",
        "metadata": {"tenant": "7"},
        "store": True,
        "prompt_cache_key": "shop",
        "prompt_cache_retention": "24h",
        "extra_headers": {"x-a": "b"},
        "extra_query": {"q": "1"},
        "extra_body": {"new_field": 1},
        "service_tier": "flex",
        "timeout": 3.0,
    }


@pytest.mark.parametrize("given", [{"effort": "low"}, Reasoning(effort="low")], ids=["dict", "object"])
def test_reasoning_is_a_mapping_or_an_object_of_the_clients(given: Any) -> None:
    assert arguments(ModelSettings(reasoning=given))["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("pay", {"type": "function", "name": "pay"}),
        ("web_search", {"type": "web_search"}),
        ({"type": "mcp", "server_label": "files"}, {"type": "mcp", "server_label": "files"}),
    ],
)
def test_a_tool_is_chosen_by_word_by_name_or_in_the_apis_own_shape(choice: Any, sent: Any) -> None:
    assert arguments(ModelSettings(tool_choice=choice))["tool_choice"] == sent


def test_functions_and_hosted_tools_go_in_one_list() -> None:
    spec = ToolSpec("pay", "Pay.", {"type": "object", "properties": {}}, strict=False)

    found = arguments(tools=[spec], hosted_tools=[{"type": "web_search"}])

    assert found["tools"] == [
        {
            "type": "function",
            "name": "pay",
            "description": "Pay.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
        {"type": "web_search"},
    ]


def test_an_output_schema_and_verbosity_share_the_text_settings() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    text = arguments(ModelSettings(verbosity="low"), output_schema=schema)["text"]

    assert text["verbosity"] == "low"
    assert (text["format"]["type"], text["format"]["strict"]) == ("json_schema", True)
    assert text["format"]["schema"]["additionalProperties"] is False


def test_a_schema_that_strict_mode_cannot_express_is_sent_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}

    found = arguments(output_schema=schema)["text"]["format"]

    assert (found["schema"], found["strict"]) == (schema, False)


def test_what_is_included_is_named_once() -> None:
    settings = ModelSettings(
        store=False, top_logprobs=2, response_include=["reasoning.encrypted_content", "file_search_call.results"]
    )

    assert arguments(settings)["include"] == [
        "reasoning.encrypted_content",
        "file_search_call.results",
        "message.output_text.logprobs",
    ]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (ModelSettings(temperature=0.1, extra_args={"temperature": 0.2}), "temperature"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings: ModelSettings, word: str) -> None:
    with pytest.raises(UserError, match=word):
        arguments(settings)


# -- history


def test_a_history_that_the_server_stored_travels_unchanged() -> None:
    items = [QUESTION, THOUGHT, CALL, OUTPUT, {"type": "new_kind", "id": "x", "field": 1}]

    assert input_items(items, stored=True) == items


def test_where_the_server_stores_nothing_items_go_without_ids_and_thoughts_only_sealed() -> None:
    sealed = {**THOUGHT, "encrypted_content": "gAAAA"}

    assert input_items([QUESTION, THOUGHT, CALL, OUTPUT], stored=False) == [QUESTION, _without_id(CALL), OUTPUT]
    assert input_items([sealed, CALL], stored=False) == [_without_id(sealed), _without_id(CALL)]


def test_what_only_another_provider_can_read_stays_here() -> None:
    thought = {"type": "reasoning", "summary": [], "provider_data": {"signature": "…"}}
    message = {"type": "message", "role": "assistant", "content": "hi", "provider_data": {"blocks": []}}

    assert input_items([thought, message], stored=True) == [{"type": "message", "role": "assistant", "content": "hi"}]


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}

"""What the fake provider knows of the APIs is what the official clients know of them."""

from __future__ import annotations

from typing import Any, get_args

from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import (
    response_create_params,
    response_includable,
    response_input_item_param,
    tool_choice_types_param,
    tool_param,
)
from typing_extensions import get_type_hints

from placet.testing.provider import chat_rules, message_rules, response_items, response_parameters


def kind_of(form: Any) -> str:
    """The `type` that items of this form have."""
    found = get_type_hints(form)["type"]
    words = [word for word in get_args(found) if isinstance(word, str)]
    return words[0] if words else get_args(get_args(found)[0])[0]


def fields_of(form: Any) -> set[str]:
    return form.__required_keys__ | form.__optional_keys__


def test_the_parameters_of_responses_are_those_of_the_client() -> None:
    known = fields_of(response_create_params.ResponseCreateParamsStreaming)

    assert set(response_parameters.PARAMETERS) == known


def test_the_parameters_of_chat_completions_are_those_of_the_client() -> None:
    known = fields_of(completion_create_params.CompletionCreateParamsStreaming)

    assert set(chat_rules.PARAMETERS) == known


def test_the_parameters_of_messages_are_those_of_the_client_and_of_the_older_version() -> None:
    known = fields_of(message_create_params.MessageCreateParamsStreaming)

    assert set(message_rules.PARAMETERS) == known | message_rules.SAMPLING


def test_the_items_of_an_input_are_those_of_the_client() -> None:
    known: dict[str, set[str]] = {}
    for form in get_args(response_input_item_param.ResponseInputItemParam):
        known.setdefault(kind_of(form), {"id", "type"}).update(fields_of(form))

    ours = {kind: form.fields for kind, form in response_items.FORMS.items()}
    known["reasoning"].discard("status")  # the client lists it, the service refuses it
    assert ours == known


def test_the_words_of_responses_are_those_of_the_client() -> None:
    tools = {kind_of(form) for form in get_args(tool_param.ToolParam)}
    choices = get_args(get_type_hints(tool_choice_types_param.ToolChoiceTypesParam)["type"])

    assert set(response_parameters.INCLUDABLE) == set(get_args(response_includable.ResponseIncludable))
    assert tools <= {"function", "custom", *response_parameters.HOSTED_TOOLS}
    assert set(choices) <= set(response_parameters.CHOICES)

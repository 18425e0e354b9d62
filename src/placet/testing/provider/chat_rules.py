"""What `POST /chat/completions` accepts: its parameters, and the order of messages and tool messages.

A test compares the table of parameters with the types of the official client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placet.testing.provider.openai_tools import check_choice, check_function, check_name, check_tool_count
from placet.testing.provider.parameters import (
    check_metadata,
    check_one_of,
    check_parameters,
    check_range,
    check_type,
    missing,
)
from placet.testing.provider.refusal import Refused
from placet.testing.provider.strict_schema import check_strict_schema

PARAMETERS = {
    "messages": "array",
    "model": "string",
    "audio": "object?",
    "frequency_penalty": "decimal?",
    "function_call": "string|object",
    "functions": "array",
    "logit_bias": "object?",
    "logprobs": "boolean?",
    "max_completion_tokens": "integer?",
    "max_tokens": "integer?",
    "metadata": "object?",
    "modalities": "array?",
    "moderation": "object?",
    "n": "integer?",
    "parallel_tool_calls": "boolean",
    "prediction": "object?",
    "presence_penalty": "decimal?",
    "prompt_cache_key": "string?",
    "prompt_cache_options": "object",
    "prompt_cache_retention": "string?",
    "reasoning_effort": "string?",
    "response_format": "object",
    "safety_identifier": "string?",
    "seed": "integer?",
    "service_tier": "string?",
    "stop": "string|array?",
    "store": "boolean?",
    "stream": "boolean?",
    "stream_options": "object?",
    "temperature": "decimal?",
    "tool_choice": "string|object",
    "tools": "array",
    "top_logprobs": "integer?",
    "top_p": "decimal?",
    "user": "string",
    "verbosity": "string?",
    "web_search_options": "object",
}
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def check_body(body: Any) -> None:
    check_type("body", body, "object")
    check_parameters(body, PARAMETERS, ("model", "messages"))
    check_range(body, "temperature", 0, 2)
    check_range(body, "top_p", 0, 1)
    check_range(body, "frequency_penalty", -2, 2)
    check_range(body, "presence_penalty", -2, 2)
    check_range(body, "top_logprobs", 0, 20, "integer")
    check_range(body, "max_tokens", 1, None, "integer")
    check_range(body, "max_completion_tokens", 1, None, "integer")
    check_range(body, "n", 1, 1, "integer")  # one choice is all that this provider has
    check_metadata(body)
    _check_combinations(body)
    _check_tools(body)
    _check_format(body)


def _check_combinations(body: dict[str, Any]) -> None:
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        raise Refused(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            param="max_tokens",
            code="invalid_parameter_combination",
        )
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise Refused(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        raise Refused("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", param="top_logprobs")
    if body.get("reasoning_effort") is not None:
        check_one_of("reasoning_effort", body["reasoning_effort"], EFFORTS)
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        raise Refused(
            f"Invalid 'stop': array too long. Expected at most 4 items, but got {len(stop)} instead.",
            param="stop",
            code="array_above_max_length",
        )


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if tools is None and name in body:
            raise Refused(f"Invalid value for '{name}': it is only allowed when 'tools' are specified.", param=name)
    if tools is not None and not tools:
        raise _empty("tools")
    check_tool_count(tools or [])
    offered = {_checked_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools or [])}
    choice = body.get("tool_choice")
    named = None
    if isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
        check_type(f"tool_choice.{choice['type']}", choice.get(choice["type"]), "object")
        named = choice[choice["type"]].get("name")
    check_choice(choice, offered, ("function", "custom", "allowed_tools"), named)


def _checked_tool(tool: Any, where: str) -> str:
    """The name of a tool that can be offered."""
    check_type(where, tool, "object")
    if tool.get("type") is None:
        raise missing(f"{where}.type")
    check_one_of(f"{where}.type", tool["type"], ("function", "custom"))
    inner = tool.get(tool["type"])
    if inner is None:
        raise missing(f"{where}.{tool['type']}")
    check_function(inner, f"{where}.{tool['type']}")
    return str(inner["name"])


def _check_format(body: dict[str, Any]) -> None:
    form = body.get("response_format")
    if form is None:
        return
    check_one_of("response_format.type", form.get("type"), ("text", "json_object", "json_schema"))
    if form["type"] != "json_schema":
        return
    inner = form.get("json_schema")
    if inner is None:
        raise missing("response_format.json_schema")
    check_type("response_format.json_schema", inner, "object")
    if not inner.get("name"):
        raise missing("response_format.json_schema.name")
    check_name("response_format.json_schema.name", inner["name"])
    if inner.get("strict") is True:
        check_strict_schema(
            inner.get("schema") or {}, inner["name"], param="response_format", code="invalid_json_schema"
        )


# -- messages ---------------------------------------------------------------------------------------------------------


def check_messages(messages: Sequence[Any]) -> None:
    if not messages:
        raise _empty("messages")
    for index, message in enumerate(messages):
        where = f"messages.[{index}]"
        check_type(where, message, "object")
        if message.get("role") is None:
            raise missing(f"{where}.role")
        check_one_of(f"{where}.role", message["role"], ROLES)
        if message["role"] == "assistant":
            _check_assistant(message, where)
        else:
            _check_content(message, where)
    _check_pairs(messages)


def _check_content(message: dict[str, Any], where: str) -> None:
    if "content" not in message:
        raise missing(f"{where}.content")
    content, role = message["content"], message["role"]
    if role == "function":
        return
    check_type(f"{where}.content", content, "string|array")
    if isinstance(content, list):
        _check_parts(content, PARTS[role], f"{where}.content")
    if role == "tool" and not message.get("tool_call_id"):
        raise missing(f"{where}.tool_call_id")
    if role == "tool":
        check_type(f"{where}.tool_call_id", message["tool_call_id"], "string")


def _check_parts(parts: list[Any], allowed: tuple[str, ...], where: str) -> None:
    if not parts:
        raise _empty(where)
    for index, part in enumerate(parts):
        place = f"{where}.[{index}]"
        check_type(place, part, "object")
        check_one_of(f"{place}.type", part.get("type"), allowed)
        if part.get(part["type"]) is None:
            raise missing(f"{place}.{part['type']}")
        if part["type"] == "image_url" and not part["image_url"].get("url"):
            raise missing(f"{place}.image_url.url")


def _check_assistant(message: dict[str, Any], where: str) -> None:
    content, calls = message.get("content"), message.get("tool_calls")
    if (
        content is None
        and calls is None
        and not any(message.get(name) for name in ("refusal", "function_call", "audio"))
    ):
        raise Refused(
            f"Invalid value for '{where}.content': an assistant message has content or tool calls.",
            param=f"{where}.content",
        )
    check_type(f"{where}.content", content, "string|array?")
    if isinstance(content, list):
        _check_parts(content, PARTS["assistant"], f"{where}.content")
    if calls is None:
        return
    check_type(f"{where}.tool_calls", calls, "array")
    if not calls:
        raise _empty(f"{where}.tool_calls")
    for index, call in enumerate(calls):
        _check_call(call, f"{where}.tool_calls.[{index}]")


def _check_call(call: Any, where: str) -> None:
    check_type(where, call, "object")
    for name in ("id", "type"):
        if not call.get(name):
            raise missing(f"{where}.{name}")
    check_type(f"{where}.id", call["id"], "string")
    check_one_of(f"{where}.type", call["type"], ("function", "custom"))
    inner = call.get(call["type"])
    if inner is None:
        raise missing(f"{where}.{call['type']}")
    check_type(f"{where}.{call['type']}", inner, "object")
    text = "input" if call["type"] == "custom" else "arguments"
    for name in ("name", text):
        if inner.get(name) is None:
            raise missing(f"{where}.{call['type']}.{name}")
        check_type(f"{where}.{call['type']}.{name}", inner[name], "string")
    check_name(f"{where}.{call['type']}.name", inner["name"])


def _check_pairs(messages: Sequence[dict[str, Any]]) -> None:
    """Directly after an assistant message with tool calls comes one tool message for each of them."""
    waiting: set[str] = set()
    answered: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message["role"] != "tool":
            _refuse_waiting(waiting, index)
            waiting, answered = _labels_of(message, index), {}
            continue
        label = message["tool_call_id"]
        if label in answered:
            raise Refused(
                f"Duplicate value for 'tool_call_id' of '{label}': messages[{answered[label]}] and messages[{index}].",
                param=f"messages.[{index}].tool_call_id",
            )
        if label not in waiting:
            raise Refused(
                f"Messages with role 'tool' must answer a call in the 'tool_calls' before them: nothing there is "
                f"called '{label}'.",
                param=f"messages.[{index}].role",
            )
        waiting.discard(label)
        answered[label] = index
    _refuse_waiting(waiting, len(messages))


def _labels_of(message: dict[str, Any], index: int) -> set[str]:
    labels = [call["id"] for call in message.get("tool_calls") or []]
    for label in labels:
        if labels.count(label) > 1:
            raise Refused(
                f"Duplicate value for 'id' of '{label}' in the tool calls of messages[{index}].",
                param=f"messages.[{index}].tool_calls",
            )
    return set(labels)


def _refuse_waiting(waiting: set[str], index: int) -> None:
    if waiting:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by a tool message for each 'tool_call_id'. "
            f"These have none: {', '.join(sorted(waiting))}",
            param=f"messages.[{index}].role",
        )


def _empty(where: str) -> Refused:
    return Refused(f"Invalid '{where}': empty array. Expected at least one item.", param=where, code="empty_array")

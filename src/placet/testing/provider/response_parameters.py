"""The parameters of `POST /responses`: names, types, bounds, and which of them exclude each other.

A test compares the table with the types of the official client.
"""

from __future__ import annotations

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
    "access_programs": "object",
    "background": "boolean?",
    "context_management": "array?",
    "conversation": "string|object?",
    "image": "object",
    "include": "array?",
    "input": "string|array",
    "instructions": "string?",
    "max_output_tokens": "integer?",
    "max_tool_calls": "integer?",
    "metadata": "object?",
    "model": "string",
    "moderation": "object?",
    "parallel_tool_calls": "boolean?",
    "previous_response_id": "string?",
    "prompt": "object?",
    "prompt_cache_key": "string?",
    "prompt_cache_options": "object",
    "prompt_cache_retention": "string?",
    "reasoning": "object?",
    "safety_identifier": "string?",
    "service_tier": "string?",
    "store": "boolean?",
    "stream": "boolean?",
    "stream_options": "object?",
    "temperature": "decimal?",
    "text": "object",
    "tool_choice": "string|object",
    "tools": "array",
    "top_logprobs": "integer?",
    "top_p": "decimal?",
    "truncation": "string?",
    "user": "string",
}
INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
HOSTED_TOOLS = (
    "file_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "computer",
    "computer_use_preview",
    "mcp",
    "code_interpreter",
    "image_generation",
    "local_shell",
    "shell",
    "apply_patch",
    "namespace",
    "tool_search",
    "programmatic_tool_calling",
)
CHOICES = (
    "function",
    "custom",
    "mcp",
    "allowed_tools",
    "file_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "computer",
    "computer_use_preview",
    "computer_use",
    "image_generation",
    "code_interpreter",
    "programmatic_tool_calling",
    "apply_patch",
    "shell",
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def check_body(body: Any) -> None:
    check_type("body", body, "object")
    check_parameters(body, PARAMETERS, () if body.get("prompt") else ("model",))
    if body.get("conversation") is not None and body.get("previous_response_id") is not None:
        raise Refused(
            "Mutually exclusive parameters: give only one of 'previous_response_id' and 'conversation'.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    if isinstance(body.get("conversation"), dict) and not body["conversation"].get("id"):
        raise missing("conversation.id")
    if isinstance(body.get("conversation"), dict):
        check_type("conversation.id", body["conversation"]["id"], "string")
    if body.get("background") and body.get("store") is False:
        raise Refused("A response in the background is stored: 'store' cannot be false.", param="background")
    _check_numbers(body)
    _check_enumerations(body)
    check_metadata(body)
    _check_tools(body)
    _check_format(body)


def _check_numbers(body: dict[str, Any]) -> None:
    check_range(body, "temperature", 0, 2)
    check_range(body, "top_p", 0, 1)
    check_range(body, "top_logprobs", 0, 20, "integer")
    check_range(body, "max_output_tokens", 16, None, "integer")
    check_range(body, "max_tool_calls", 1, None, "integer")


def _check_enumerations(body: dict[str, Any]) -> None:
    for index, name in enumerate(body.get("include") or ()):
        check_one_of(f"include[{index}]", name, INCLUDABLE)
    if body.get("truncation") is not None:
        check_one_of("truncation", body["truncation"], ("auto", "disabled"))
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is not None:
        check_one_of("reasoning.effort", effort, EFFORTS)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise Refused(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools") or []
    check_tool_count(tools)
    offered: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        check_type(where, tool, "object")
        if tool.get("type") is None:
            raise missing(f"{where}.type")
        check_one_of(f"{where}.type", tool["type"], ("function", "custom", *HOSTED_TOOLS))
        offered.add(_check_tool(tool, where))
    choice = body.get("tool_choice")
    named = choice.get("name") if isinstance(choice, dict) else None
    check_choice(choice, offered, CHOICES, named)


def _check_tool(tool: dict[str, Any], where: str) -> str:
    """Check a tool and return the name by which it is chosen."""
    if tool["type"] == "function":
        check_function(tool, where)
        return str(tool["name"])
    if tool["type"] == "custom":
        if not tool.get("name"):
            raise missing(f"{where}.name")
        check_name(f"{where}.name", tool["name"])
        return str(tool["name"])
    if tool["type"] == "mcp":
        _check_mcp(tool, where)
    return str(tool["type"])


def _check_mcp(tool: dict[str, Any], where: str) -> None:
    if not tool.get("server_label"):
        raise missing(f"{where}.server_label")
    if not any(tool.get(name) for name in ("server_url", "connector_id", "tunnel_id")):
        raise Refused(
            f"A hosted MCP tool needs one of 'server_url', 'connector_id' or 'tunnel_id' in '{where}'.",
            param=f"{where}.server_url",
            code="missing_required_parameter",
        )
    approval = tool.get("require_approval")
    if isinstance(approval, str):
        check_one_of(f"{where}.require_approval", approval, ("always", "never"))
    elif approval is not None:
        check_type(f"{where}.require_approval", approval, "string|object")


def _check_format(body: dict[str, Any]) -> None:
    form = (body.get("text") or {}).get("format")
    if form is None:
        return
    check_type("text.format", form, "object")
    check_one_of("text.format.type", form.get("type"), ("text", "json_object", "json_schema"))
    if form["type"] != "json_schema":
        return
    for name in ("name", "schema"):
        if form.get(name) is None:
            raise missing(f"text.format.{name}")
    check_name("text.format.name", form["name"])
    if form.get("strict") is True:
        check_strict_schema(form["schema"], form["name"], param="text.format.schema", code="invalid_json_schema")

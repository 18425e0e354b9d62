"""Rules about tools and about the choice among them, which both of OpenAI's APIs share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from placet.testing.provider.parameters import check_length, check_one_of, check_type, missing
from placet.testing.provider.refusal import Refused
from placet.testing.provider.strict_schema import check_strict_schema

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_TOOLS = 128


def check_tool_count(tools: Sequence[Any]) -> None:
    if len(tools) > MAX_TOOLS:
        raise Refused(
            f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS} items, but got {len(tools)} instead.",
            param="tools",
            code="array_above_max_length",
        )


def check_function(function: Mapping[str, Any], where: str) -> None:
    """A function as it is offered: its name, its schema."""
    check_type(where, function, "object")
    if function.get("name") is None:
        raise missing(f"{where}.name")
    check_name(f"{where}.name", function["name"])
    if function.get("description") is not None:
        check_type(f"{where}.description", function["description"], "string")
    parameters = function.get("parameters")
    if parameters is None:
        return
    check_type(f"{where}.parameters", parameters, "object")
    param, code = f"{where}.parameters", "invalid_function_parameters"
    if parameters and parameters.get("type") != "object":
        raise Refused(
            f"Invalid schema for function '{function['name']}': its type must be 'object', "
            f"and is {parameters.get('type')!r}.",
            param=param,
            code=code,
        )
    if function.get("strict") is True:
        check_strict_schema(parameters, function["name"], param=param, code=code)


def check_name(where: str, name: str) -> None:
    check_type(where, name, "string")
    if not _NAME.fullmatch(name):
        raise Refused(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'.",
            param=where,
            code="invalid_value",
        )
    check_length(where, name, 64)


def check_choice(choice: Any, offered: set[str], other_types: Sequence[str], function_name: str | None) -> None:
    """`tool_choice`: a word, or a tool that is among those that are offered."""
    if choice is None:
        return
    if isinstance(choice, str):
        check_one_of("tool_choice", choice, ("none", "auto", "required"))
        if choice == "required" and not offered:
            raise Refused(
                "Invalid 'tool_choice': 'required' is only allowed when 'tools' are specified.", param="tool_choice"
            )
        return
    check_type("tool_choice", choice, "string|object")
    kind = choice.get("type")
    if kind is None:
        raise missing("tool_choice.type")
    check_one_of("tool_choice.type", kind, other_types)
    if kind in ("function", "custom"):
        if function_name is None:
            raise missing("tool_choice.name")
        check_type("tool_choice.name", function_name, "string")
        if function_name not in offered:
            raise Refused(f"Tool choice '{function_name}' not found in 'tools' parameter.", param="tool_choice")

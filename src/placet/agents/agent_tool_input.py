"""What an agent behind a tool reads of the call's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from placet.declare.agent import InputBuilder as StructuredToolInputBuilder
from placet.declare.agent import InputBuilderOptions as StructuredToolInputBuilderOptions
from placet.facts.codec import JsonObject
from placet.runtime.frame import awaited

StructuredToolInputResult: TypeAlias = str | list[JsonObject]


class AgentAsToolInput(BaseModel):
    """The arguments of an agent's tool, unless `parameters=` says otherwise."""

    input: str


@dataclass(frozen=True, slots=True)
class StructuredInputSchemaInfo:
    """What is known of the arguments' shape."""

    summary: str | None = None
    json_schema: JsonObject | None = None


def default_tool_input_builder(options: StructuredToolInputBuilderOptions | Mapping[str, Any]) -> str:
    """The arguments as a text, with what is known of their shape."""
    parts = [f"The input, as JSON:\n{json.dumps(options.get('params'), indent=2)}"]
    if options.get("json_schema") is not None:
        parts.append(f"Its JSON schema:\n{json.dumps(options['json_schema'], indent=2)}")
    elif options.get("summary"):
        parts.append(f"About it: {options['summary']}")
    return "\n\n".join(parts)


async def resolve_agent_tool_input(
    *,
    params: Any,
    schema_info: StructuredInputSchemaInfo | None = None,
    input_builder: Callable[[Any], Any] | None = None,
) -> StructuredToolInputResult:
    """What the agent reads: the builder's text, or the one `input` that there is, or the arguments as JSON."""
    info = schema_info or StructuredInputSchemaInfo()
    if input_builder is not None or info.summary or info.json_schema:
        build = input_builder or default_tool_input_builder
        given = {"params": params, "summary": info.summary, "json_schema": info.json_schema}
        found: StructuredToolInputResult = await awaited(build(given))
        return found
    if is_agent_tool_input(params) and len(params) == 1:
        return str(params["input"])
    return json.dumps(params)


def is_agent_tool_input(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("input"), str)


__all__ = [
    "AgentAsToolInput",
    "StructuredInputSchemaInfo",
    "StructuredToolInputBuilder",
    "StructuredToolInputBuilderOptions",
    "StructuredToolInputResult",
    "default_tool_input_builder",
    "is_agent_tool_input",
    "resolve_agent_tool_input",
]

"""What all adapters do alike with a request's settings: extra arguments, and the schema of a structured answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.declare.tool_schema import strict_schema
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.facts.model_settings import ModelSettings
from placet.ports import ToolSpec


def with_extra_args(found: dict[str, Any], settings: ModelSettings) -> dict[str, Any]:  # Any: the API's own shapes
    """The arguments of a request with those of `extra_args`, without None; nothing may be said twice."""
    given = {name: value for name, value in found.items() if value is not None}
    extra = settings.extra_args or {}
    twice = sorted(set(extra) & set(given))
    if twice:
        raise UserError(f"ModelSettings.extra_args gives {', '.join(twice)}, which another setting gives too.")
    return {**given, **extra}


def strict_if_possible(schema: Mapping[str, object], wanted: bool | None = None) -> JsonObject:
    """The schema within what OpenAI's strict mode accepts; where it cannot be put so, as it is and not strict.

    `wanted`: what an output schema of the user's own says of itself; None, nobody said anything.
    """
    if wanted is False:
        return {"schema": dict(schema), "strict": False}
    try:
        return {"schema": strict_schema(schema, "output_type"), "strict": True}
    except UserError:
        return {"schema": dict(schema), "strict": False}


def without_groups(tools: Sequence[ToolSpec], api: str) -> Sequence[ToolSpec]:
    """The tools, of which none is in a group: only OpenAI's Responses API knows those."""
    grouped = next((tool for tool in tools if tool.namespace is not None), None)
    if grouped is not None:
        raise UserError(f"{api} knows no groups of tools, and '{grouped.name}' is in one (tool_namespace).")
    return tools

"""Schemas that a provider can hold a model to."""

from __future__ import annotations

from typing import Any

from placet.declare.tool_schema import strict_schema


def ensure_strict_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema within what OpenAI's strict mode accepts; UserError where it cannot be put so."""
    return strict_schema(schema, "schema")


__all__ = ["ensure_strict_json_schema"]

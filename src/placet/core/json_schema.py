"""Whether a value fits a JSON schema, for tools and questions that bring a schema and no validator of their own.

A schema is compiled once, at its first use. The library is loaded then, and not with Placet.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from placet.core.schema_cost import BadSchema
from placet.facts.codec import Json, JsonObject, encode

if TYPE_CHECKING:
    from placet.core.schema_validator import CheckedSchema

TOP = "at the top"
"""How messages call the place that has an empty pointer."""
MAX_SCHEMA = 256 * 1024
"""Bytes of a schema's JSON text."""


def problem_with_schema(schema: Mapping[str, Json]) -> str | None:
    """Why values cannot be checked against this schema; None: they can."""
    try:
        _compiled(schema)
    except BadSchema as error:
        return str(error)
    return None


def problems(schema: Mapping[str, Json], value: Json) -> list[str]:
    """What is wrong with the value, one line each, with its place as a JSON pointer; empty when it fits."""
    try:
        return _compiled(schema).problems(value)
    except BadSchema as error:
        return [f"{TOP}: cannot be checked, because the schema cannot be used: {error}"]


def problems_of_property(schema: Mapping[str, Json], name: str, value: Json) -> list[str]:
    """The same for the value of one property of the schema, whatever it says of others."""
    try:
        return _compiled(schema).problems_of_property(name, value)
    except BadSchema:
        return []


def with_defaults(schema: Mapping[str, Json], value: JsonObject) -> JsonObject:
    """The value with the defaults that the schema declares for properties that are missing; itself, if none is.

    The tool's own side would fill them in. So that rules and people see them, it is done before. A default that does
    not fit its own property is only a remark.
    """
    try:
        return _compiled(schema).with_defaults(value)
    except BadSchema:
        return value  # `problems` refuses it


_NAMES = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_VALUES = ("default", "enum", "const", "examples")


def without_prose(schema: object, *, names: bool = False) -> object:
    """A JSON schema without titles and descriptions. `names`: the keys here are names of properties, not keywords."""
    if isinstance(schema, Mapping):
        return {
            key: each if not names and key in _VALUES else without_prose(each, names=not names and key in _NAMES)
            for key, each in schema.items()
            if names or key not in ("title", "description")
        }
    return [without_prose(each) for each in schema] if isinstance(schema, list) else schema


def _compiled(schema: Mapping[str, Json]) -> CheckedSchema:
    try:
        text = encode(schema)
    except (TypeError, ValueError) as error:
        raise BadSchema(f"it cannot be written as JSON: {error}") from error
    if len(text) > MAX_SCHEMA:
        raise BadSchema(f"it has more than {MAX_SCHEMA} bytes")
    return _compiled_text(text)


@functools.lru_cache(maxsize=512)
def _compiled_text(text: bytes) -> CheckedSchema:
    """By its text: a server's tools are new objects at every listing."""
    from placet.core.schema_validator import checked_schema

    return checked_schema(text)

"""Types and bounds of a request's parameters, and how OpenAI's services complain about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placet.testing.provider.refusal import Refused

_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "decimal": "a decimal",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "decimal"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def check_parameters(body: Mapping[str, Any], table: Mapping[str, str], required: Iterable[str]) -> None:
    """Each parameter is known and of its type. A type is written as `string|array`, with `?` where null is allowed."""
    for name in required:
        if body.get(name) is None:
            raise missing(name)
    for name, value in body.items():
        if name not in table:
            raise unknown(name)
        check_type(name, value, table[name])


def check_type(where: str, value: object, wanted: str) -> None:
    kinds = wanted.removesuffix("?").split("|") + (["null"] if wanted.endswith("?") else [])
    given = kind_of(value)
    if given in kinds or (given == "integer" and "decimal" in kinds):
        return
    names = " or ".join(_NAMES[kind] for kind in kinds if kind != "null")
    raise Refused(
        f"Invalid type for '{where}': expected {names}, but got {_NAMES[given]} instead.",
        param=where,
        code="invalid_type",
    )


def missing(where: str) -> Refused:
    return Refused(f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter")


def unknown(where: str) -> Refused:
    return Refused(f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")


def check_one_of(where: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        listed = ", ".join(f"'{each}'" for each in allowed)
        raise Refused(
            f"Invalid value: {value!r} for '{where}'. Supported values are: {listed}.",
            param=where,
            code="invalid_value",
        )


def check_range(
    body: Mapping[str, Any], name: str, least: float | None, most: float | None, kind: str = "decimal"
) -> None:
    value = body.get(name)
    if value is None:
        return
    if most is not None and value > most:
        raise Refused(
            f"Invalid '{name}': {kind} above maximum value. Expected a value <= {most:g}, but got {value} instead.",
            param=name,
            code=f"{kind}_above_max_value",
        )
    if least is not None and value < least:
        raise Refused(
            f"Invalid '{name}': {kind} below minimum value. Expected a value >= {least:g}, but got {value} instead.",
            param=name,
            code=f"{kind}_below_min_value",
        )


def check_metadata(body: Mapping[str, Any]) -> None:
    metadata = body.get("metadata") or {}
    if len(metadata) > 16:
        raise Refused(
            f"Invalid 'metadata': too many properties. Expected at most 16, but got {len(metadata)} instead.",
            param="metadata",
            code="object_above_max_properties",
        )
    for name, value in metadata.items():
        check_type(f"metadata.{name}", value, "string")
        check_length(f"metadata.{name}", name, 64)
        check_length(f"metadata.{name}", value, 512)


def check_length(where: str, text: str, most: int) -> None:
    if len(text) > most:
        raise Refused(
            f"Invalid '{where}': string too long. Expected at most {most} characters, but got {len(text)} instead.",
            param=where,
            code="string_above_max_length",
        )

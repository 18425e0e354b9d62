"""Reading the JSON schemas of tools: references followed, «or nothing» distinguished, one simple kind for each form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = Literal["text", "choice", "integer", "number", "boolean", "object", "array", "json"]
"""What sort of form a schema gets. `json`: none that would fit; it is edited as JSON."""

_SIMPLE: dict[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "object",
    "array": "array",
}
_MAX_STEPS = 20
"""References that lead to references: more than this is a circle."""


@dataclass(frozen=True, slots=True)
class Shape:
    kind: Kind
    schema: Schema
    """Without «or nothing», references followed."""
    nullable: bool = False
    choices: tuple[object, ...] = ()


def resolved(schema: object, root: Schema) -> Schema:
    """The schema itself where it is only a reference; what stands beside the reference wins."""
    found: Schema = schema if isinstance(schema, Mapping) else {}
    for _ in range(_MAX_STEPS):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            only = found.get("allOf")
            if not (isinstance(only, list) and len(only) == 1 and isinstance(only[0], Mapping)):
                return found
            found = {**only[0], **{key: each for key, each in found.items() if key != "allOf"}}
            continue
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        beside = {key: each for key, each in found.items() if key != "$ref"}
        found = {**(target if isinstance(target, Mapping) else {}), **beside}
    return {}


def shape_of(schema: object, root: Schema) -> Shape:
    found, nullable = _without_null(resolved(schema, root), root)
    if "const" in found:
        return Shape("choice", found, nullable, (found["const"],))
    choices = found.get("enum")
    if isinstance(choices, list):
        has_null = None in choices
        return Shape("choice", found, nullable or has_null, tuple(each for each in choices if each is not None))
    if any(found.get(name) for name in ("anyOf", "oneOf", "allOf", "not", "if", "prefixItems")):
        return Shape("json", found, nullable)
    kind = found.get("type")
    simple = _SIMPLE.get(kind, "json") if isinstance(kind, str) else "json"
    if simple == "object" and not isinstance(found.get("properties"), Mapping):
        simple = "json"
    if simple == "array" and not isinstance(found.get("items"), Mapping):
        simple = "json"
    return Shape(simple, found, nullable)


def _without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema without the alternative «null», and whether there was one."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [each for each in kinds if each != "null"]
        return {**schema, "type": others[0] if len(others) == 1 else others}, "null" in kinds
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if not isinstance(options, list):
            continue
        followed = [resolved(each, root) for each in options]
        others = [each for each in followed if each.get("type") != "null"]
        if len(others) == len(followed):
            return schema, False
        beside = {key: each for key, each in schema.items() if key != name}
        return ({**others[0], **beside} if len(others) == 1 else {**beside, name: others}), True
    return schema, False

"""Whether a value fits a JSON schema, for tools that bring a schema and no validator: the keywords that tools use.

A keyword that is not known here is not checked: the tool itself has the last word when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problems(schema: Mapping[str, Any], value: object) -> list[str]:
    """What is wrong with the value, one line each; empty when it fits."""
    return [f"{place}: {text}" for place, text in _check(schema, value, "", schema)]


def with_defaults(schema: Mapping[str, Any], value: dict[str, object]) -> dict[str, object]:
    """The value with the defaults that the schema declares for properties that are missing; itself, if none is.

    Whoever carries the call out would fill them in; so that rules and people see them, it is done before. A default
    that does not fit its own property is only a remark.
    """
    return _filled(schema, value, schema)


def _filled(schema: Any, value: dict[str, object], root: Mapping[str, Any]) -> dict[str, object]:
    known = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    found: dict[str, object] = {}
    for name, part in known.items() if isinstance(known, Mapping) else ():
        if not isinstance(part, Mapping):
            continue
        inside = value.get(name)
        if isinstance(inside, dict):
            filled = _filled(_resolved(str(part["$ref"]), root) if "$ref" in part else part, inside, root)
            if filled is not inside:
                found[name] = filled
        elif name not in value and "default" in part and not list(_check(part, part["default"], name, root)):
            found[name] = part["default"]
    return {**value, **found} if found else value


def _check(schema: Any, value: object, place: str, root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if schema is False:
        yield place or "arguments", "nothing is allowed here"
    if not isinstance(schema, Mapping):
        return
    where = place or "arguments"
    if "$ref" in schema:
        yield from _check(_resolved(str(schema["$ref"]), root), value, place, root)
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if wanted and not any(_is_a(value, kind) for kind in wanted):
        yield where, f"should be {' or '.join(wanted)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield where, f"should be one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield where, f"should be {schema['const']!r}"
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if options and not any(not list(_check(option, value, place, root)) for option in options):
            yield where, "fits none of the allowed forms"
    for option in schema.get("allOf", ()):
        yield from _check(option, value, place, root)
    yield from _check_bounds(schema, value, where)
    if isinstance(value, dict):
        yield from _check_object(schema, value, place, root)
    elif isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from _check(schema["items"], each, f"{place}[{index}]", root)


def _is_a(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":  # to Python True is an int, to JSON it is not
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, (object,)))


def _check_bounds(schema: Mapping[str, Any], value: object, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            yield where, f"should be at least {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            yield where, f"should be at most {schema['maximum']}"
    if isinstance(value, str | list):
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        if len(value) < schema.get(low, 0):
            yield where, f"should have at least {schema[low]} {'characters' if isinstance(value, str) else 'items'}"
        if high in schema and len(value) > schema[high]:
            yield where, f"should have at most {schema[high]} {'characters' if isinstance(value, str) else 'items'}"


def _check_object(
    schema: Mapping[str, Any], value: dict[str, object], place: str, root: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield _inside(place, name), "is required"
    for name, each in value.items():
        if name in known:
            yield from _check(known[name], each, _inside(place, name), root)
        elif schema.get("additionalProperties") is False:
            yield _inside(place, name), "is not a parameter"
        else:
            yield from _check(schema.get("additionalProperties", True), each, _inside(place, name), root)


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step, {}) if isinstance(found, Mapping) else {}
    return found

"""What a JSON schema must be like for a tool or an output in strict mode: closed objects, every property required."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placet.testing.provider.parameters import check_type
from placet.testing.provider.refusal import Refused

FORBIDDEN = frozenset(
    {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties", "oneOf"}
)
"""Keywords that strict mode does not know."""
MAX_DEPTH = 10
MAX_PROPERTIES = 5000


def check_strict_schema(
    schema: Mapping[str, Any], name: str, *, param: str, code: str | None = None, all_required: bool = True
) -> None:
    """Objects are closed; with `all_required`, which is OpenAI's rule alone, they have no optional properties."""
    check_type(param, schema, "object")
    if schema.get("type") != "object":
        raise _refused(name, (), "schema must have type 'object' at its root", param, code)
    if "anyOf" in schema:
        raise _refused(name, (), "schema must not be an 'anyOf' at its root", param, code)
    properties = 0
    for path, each in _schemas(schema, ()):
        complaint = _complaint(each, all_required=all_required)
        if complaint is not None:
            raise _refused(name, path, complaint, param, code)
        properties += len(each.get("properties") or {})
        if sum(step == "properties" for step in path) > MAX_DEPTH:
            raise _refused(name, path, f"objects may be nested {MAX_DEPTH} levels deep at most", param, code)
    if properties > MAX_PROPERTIES:
        raise _refused(name, (), f"a schema may have {MAX_PROPERTIES} properties at most", param, code)


def _complaint(schema: Mapping[str, Any], *, all_required: bool) -> str | None:
    for keyword in sorted(FORBIDDEN & schema.keys()):
        return f"'{keyword}' is not permitted"
    malformed = _malformed(schema)
    if malformed is not None:
        return malformed
    if schema.get("type") == "array" and "items" not in schema:
        return "an array schema needs 'items'"
    if not _is_object(schema):
        return None
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be there and to be false"
    return _complaint_of_required(schema) if all_required else None


def _complaint_of_required(schema: Mapping[str, Any]) -> str | None:
    properties, required = schema.get("properties") or {}, schema.get("required")
    if required is None and properties:
        return "'required' is required to be there and to be a list of every key in properties"
    for name in properties:
        if name not in (required or []):
            return f"'required' is required to be a list of every key in properties. Missing '{name}'"
    for name in required or []:
        if name not in properties:
            return f"'required' names '{name}', which is not in properties"
    return None


def _malformed(schema: Mapping[str, Any]) -> str | None:
    """What is not even a schema."""
    for holder in ("properties", "$defs", "definitions"):
        if not isinstance(schema.get(holder) or {}, Mapping):
            return f"'{holder}' is not an object"
    if not isinstance(schema.get("anyOf") or [], list):
        return "'anyOf' is not a list"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "'required' is not a list of names"
    return None


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _schemas(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The schema and all schemas in it, with their places."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for holder in ("properties", "$defs", "definitions"):
        for name, each in (schema.get(holder) or {}).items():
            yield from _schemas(each, (*path, holder, name))
    if isinstance(schema.get("items"), Mapping):
        yield from _schemas(schema["items"], (*path, "items"))
    for index, each in enumerate(schema.get("anyOf") or ()):
        yield from _schemas(each, (*path, "anyOf", str(index)))


def _refused(name: str, path: tuple[str, ...], complaint: str, param: str, code: str | None) -> Refused:
    return Refused(f"Invalid schema for '{name}': in context={path}, {complaint}.", param=param, code=code)

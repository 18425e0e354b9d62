"""Whether a budget can count what a tool takes: found when a policy is loaded, not when money has moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from placet.core.amounts import Uncountable, amount_of
from placet.facts.budgets import Limit
from placet.facts.codec import Json, JsonObject

_DECIMALS = ("0", "7", "12.5", "0.25")


class FieldFault(msgspec.Struct, frozen=True):
    message: str
    name: str
    known: tuple[str, ...] = ()
    """The arguments that there are, where this one is not among them."""


def budget_faults(tool: str, schema: JsonObject, limits: Sequence[Limit]) -> Iterator[FieldFault]:
    """What is wrong with a budget for calls of this tool."""
    fields = schema.get("properties")
    known: Mapping[str, Json] = fields if isinstance(fields, dict) else {}
    is_open = schema.get("additionalProperties", True) is not False and not known
    for limit in limits:
        for name in (*([limit.sum] if limit.sum is not None else []), *limit.by):
            if name not in known and not is_open:
                yield FieldFault(f"budget: tool '{tool}' has no argument '{name}'.", name, tuple(known))
        if limit.sum is not None and limit.sum in known:
            why = _why_uncountable(known[limit.sum], schema)
            if why is not None:
                yield FieldFault(
                    f"budget: '{limit.sum}' of tool '{tool}' cannot be added up exactly: {why}.", limit.sum
                )


def _why_uncountable(field: Json, schema: JsonObject) -> str | None:
    """Why no value of this field can be counted on; None: its whole numbers or decimals can."""
    kinds = [_resolved(each, schema) for each in _alternatives(_resolved(field, schema))]
    if any(_is_exact(each) for each in kinds):
        return None
    types = {str(each.get("type")) for each in kinds if "type" in each}
    if "number" in types:
        return "it is a float. Use whole numbers (cents), or decimals as text"
    if "string" in types:
        return "it is a text. Use whole numbers (cents), or give it a pattern of decimals"
    if types and types <= {"boolean", "array", "object", "null"}:
        return f"it is of type {', '.join(sorted(types))}"
    return None  # it says nothing of itself: each call is judged by its value


def _alternatives(field: JsonObject) -> Iterator[JsonObject]:
    for word in ("anyOf", "oneOf"):
        found = field.get(word)
        if isinstance(found, list):
            yield from (each for each in found if isinstance(each, dict))
            return
    types = field.get("type")
    if isinstance(types, list):
        yield from ({**field, "type": each} for each in types)
    else:
        yield field


def _resolved(field: Json, schema: JsonObject) -> JsonObject:
    if not isinstance(field, dict):
        return {}
    name = field.get("$ref")
    definitions = schema.get("$defs")
    if isinstance(name, str) and name.startswith("#/$defs/") and isinstance(definitions, dict):
        found = definitions.get(name.removeprefix("#/$defs/"))
        return found if isinstance(found, dict) else {}
    return field


def _is_exact(field: JsonObject) -> bool:
    if field.get("type") == "integer":
        return True
    given = field.get("enum", [field["const"]] if "const" in field else None)
    if isinstance(given, list) and given:
        return all(_counts(each) for each in given)
    return field.get("type") == "string" and isinstance(field.get("pattern"), str) and _takes_decimals(field)


def _counts(value: Json) -> bool:
    try:
        amount_of(value)
    except Uncountable:
        return False
    return True


def _takes_decimals(field: JsonObject) -> bool:
    """Whether a text with this pattern is meant to be a decimal: it takes some, and no word."""
    import jsonschema_rs  # only who checks a policy against tools waits for it

    try:
        takes = jsonschema_rs.validator_for({"pattern": field["pattern"]}, offline=True)
    except ValueError:
        return False
    return any(map(takes.is_valid, _DECIMALS)) and not takes.is_valid("seven")

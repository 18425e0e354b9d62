"""What is wrong with what was sent, in words: where, and what would have been right."""

from __future__ import annotations

import re

import msgspec
from msgspec import inspect

from placet.desk.web.problems import FieldProblem

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<where>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_TIMESTAMP = "write a time with its time zone, like 2030-01-31T18:00:00Z"


def field_problem(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> FieldProblem:
    """msgspec says what is wrong and where in one sentence; what is allowed there is said by the type."""
    found = _PLACE.match(str(error))
    assert found is not None, "every text matches"
    where = (found["where"] or "").lstrip(".")
    message = found["what"].replace("`", "'")
    hint = _hint(message, where, inspect.type_info(kind))
    return FieldProblem(field=where or "body", message=f"{message}: {hint}" if hint else message)


def _hint(message: str, where: str, kind: inspect.Type) -> str:
    if message.startswith("Invalid enum value"):
        return f"it is one of {', '.join(sorted(map(str, allowed_at(kind, where))))}"
    if "RFC3339" in message or "timezone component" in message:
        return _TIMESTAMP
    return ""


def allowed_at(kind: inspect.Type, where: str) -> list[object]:
    """The values that the type allows at a place such as `decisions[0].decision`."""
    return [value for each in _types_at(kind, where) if isinstance(each, inspect.LiteralType) for value in each.values]


def _types_at(kind: inspect.Type, where: str) -> list[inspect.Type]:
    found = _options(kind)
    for name, _ in _STEP.findall(where):
        found = [option for each in found for inner in _inside(each, name) for option in _options(inner)]
    return found


def _options(kind: inspect.Type) -> list[inspect.Type]:
    """The alternatives of a union, notes taken off."""
    if isinstance(kind, inspect.Metadata):
        return _options(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [option for each in kind.types for option in _options(each)]
    return [kind]


def _inside(kind: inspect.Type, name: str) -> list[inspect.Type]:
    if isinstance(kind, inspect.ListType):
        return [kind.item_type]
    fields = kind.fields if isinstance(kind, inspect.StructType) else ()
    return [field.type for field in fields if field.encode_name == name]

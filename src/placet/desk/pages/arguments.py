"""The arguments of a call as a table: one row a value, nested ones indented, long ones cut with a note of size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placet.desk.pages.schemas import Schema, resolved
from placet.desk.pages.words import json_text, shortened
from placet.facts.codec import Json, JsonObject

MAX_ROWS = 200
MAX_TEXT = 800
"""A longer text is cut on the card; the whole is one click away."""
MAX_JSON = 20_000


@dataclass(frozen=True, slots=True)
class ArgumentRow:
    name: str
    depth: int
    kind: str
    """text, number, yes/no, nothing, list, group: what sort of value it is, in words."""
    text: str
    hint: str = ""
    cut: int = 0
    """The number of characters of the whole text, where it was cut."""


@dataclass(frozen=True, slots=True)
class ArgumentTable:
    rows: list[ArgumentRow]
    left_out: bool
    """There are more rows than a card shows."""
    json: str
    json_cut: int = 0
    raw: str | None = None
    """What the model wrote, where it is not one JSON object."""


def argument_table(arguments: JsonObject | str, schema: Schema | None = None) -> ArgumentTable:
    if isinstance(arguments, str):
        return ArgumentTable([], False, "", 0, shortened(arguments, MAX_JSON))
    rows: list[ArgumentRow] = []
    left_out = False
    for row in _rows(arguments, schema or {}, schema or {}, 0):
        if len(rows) == MAX_ROWS:
            left_out = True
            break
        rows.append(row)
    text = json_text(arguments)
    is_cut = len(text) > MAX_JSON
    return ArgumentTable(rows, left_out, text[:MAX_JSON] if is_cut else text, len(text) if is_cut else 0)


def _rows(value: JsonObject, schema: Schema, root: Schema, depth: int) -> Iterator[ArgumentRow]:
    known = schema.get("properties")
    for name, each in value.items():
        inner = resolved(known.get(name) if isinstance(known, Mapping) else None, root)
        yield from _value_rows(name, each, inner, root, depth)


def _value_rows(name: str, value: Json, schema: Schema, root: Schema, depth: int) -> Iterator[ArgumentRow]:
    hint = str(schema.get("description") or "")
    if isinstance(value, dict):
        yield ArgumentRow(name, depth, "group", "" if value else "empty", hint)
        yield from _rows(value, schema, root, depth + 1)
    elif isinstance(value, list):
        yield ArgumentRow(name, depth, "list", f"{len(value)} in a list" if value else "empty list", hint)
        inner = resolved(schema.get("items"), root)
        for index, each in enumerate(value):
            yield from _value_rows(str(index + 1), each, inner, root, depth + 1)
    else:
        text, kind = _leaf(value)
        cut = len(text) if len(text) > MAX_TEXT else 0
        yield ArgumentRow(name, depth, kind, text[:MAX_TEXT] if cut else text, hint, cut)


def _leaf(value: Json) -> tuple[str, str]:
    match value:
        case None:
            return "null", "nothing"
        case bool():
            return ("true" if value else "false"), "yes/no"
        case str():
            return value, "text"
        case _:
            return json_text(value), "number"


def in_parts(arguments: JsonObject | str, limit: int = 160) -> list[tuple[str, str]]:
    """The arguments as a list shows them: names and values apart, so that no value can turn what stands beside it."""
    if isinstance(arguments, str):
        return [("", shortened(arguments, limit))]
    parts: list[tuple[str, str]] = []
    room = limit
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json_text(value, indent=None)
        parts.append((shortened(name, 60), shortened(text, max(20, room))))
        room -= len(name) + len(text)
        if room <= 0:
            break
    return parts


def in_one_line(arguments: JsonObject | str, limit: int = 160) -> str:
    """The same as one text, for labels and messages."""
    parts = [f"{name}: {text}" if name else text for name, text in in_parts(arguments, limit)]
    return shortened(" · ".join(parts), limit)

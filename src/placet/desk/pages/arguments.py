"""The arguments of a call as a table: every top-level name has its row, and what is large folds with its count.

Rule of this file: nothing is left out silently. What is not written out says how much it is, and is one click away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from placet.desk.pages.schemas import Schema, resolved
from placet.desk.pages.text_format import json_text, shortened, size
from placet.facts.codec import Json, JsonObject

MAX_ROWS = 120
"""Values below the top level that a card writes out at once."""
MAX_OPEN = 24
"""A list or an object with more values than this is folded."""
MAX_TOP = 1000
PART = 200
"""Values that unfold at once; the next ones are asked for."""
PART_ROWS = 2000
MAX_TEXT = 800
TAIL = 200
"""Of a longer text a card shows the beginning and the end; the whole is one click away."""
MAX_JSON = 20_000


@dataclass(frozen=True, slots=True)
class ArgumentRow:
    name: str
    at: str
    """Where the value is: a JSON pointer."""
    kind: str
    """text, number, yes/no, nothing, list, group: what sort of value it is, in words."""
    text: str
    hint: str = ""
    cut: int = 0
    """The number of characters of the whole text, where it was cut."""
    tail: str = ""
    """The end of a text that was cut."""
    rows: list[ArgumentRow] = field(default_factory=list)
    is_folded: bool = False
    """It holds more than is written out here."""


@dataclass(frozen=True, slots=True)
class ArgumentTable:
    rows: list[ArgumentRow]
    left_out: int
    """Top-level names for which there is no room on a card."""
    json: str
    json_cut: int = 0
    raw: ArgumentRow | None = None
    """What the model wrote, where it is not one JSON object."""


@dataclass(frozen=True, slots=True)
class ArgumentPart:
    """What unfolds at a place: the whole text, or some of the values."""

    at: str
    rows: list[ArgumentRow]
    text: str | None = None
    following: int = 0
    """Where the next values begin; 0: these were the last."""
    total: int = 0


def argument_table(arguments: JsonObject | str, schema: Schema | None = None) -> ArgumentTable:
    if isinstance(arguments, str):
        return ArgumentTable([], 0, "", 0, _leaf_row("", "", arguments, ""))
    unfolding = _Unfolding(schema or {}, MAX_ROWS)
    rows = [unfolding.row(*each) for each in _children(arguments, "", schema or {}, schema or {}, 0, MAX_TOP)]
    text = json_text(arguments)
    is_cut = len(text) > MAX_JSON
    left_out = max(0, len(arguments) - MAX_TOP)
    return ArgumentTable(rows, left_out, text[:MAX_JSON] if is_cut else text, len(text) if is_cut else 0)


def argument_part(
    arguments: JsonObject | str, at: str, start: int = 0, schema: Schema | None = None
) -> ArgumentPart | None:
    """What is folded at a place; None where there is nothing."""
    root: Schema = schema or {}
    value: Json = arguments
    inner = root
    for step in at.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value, inner = value[name], _schema_of(name, inner, root)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value, inner = value[int(name)], resolved(inner.get("items"), root)
        else:
            return None
    if not isinstance(value, dict | list):
        return ArgumentPart(at, [], _leaf(value)[0])
    unfolding = _Unfolding(root, PART_ROWS)
    rows = [unfolding.row(*each) for each in _children(value, at, inner, root, start, PART)]
    end = start + PART
    return ArgumentPart(at, rows, None, end if end < len(value) else 0, len(value))


class _Unfolding:
    """Writes small values out as long as there is room; the others are folded."""

    def __init__(self, root: Schema, room: int) -> None:
        self._root = root
        self._room = room

    def row(self, name: str, at: str, value: Json, schema: Schema) -> ArgumentRow:
        hint = str(schema.get("description") or "")
        if not isinstance(value, dict | list):
            return _leaf_row(name, at, value, hint)
        kind = "list" if isinstance(value, list) else "group"
        count = _counted(value)
        needed = count_values(value, MAX_OPEN + 1)
        if needed > min(MAX_OPEN, self._room):
            return ArgumentRow(name, at, kind, count, hint, is_folded=True)
        self._room -= needed
        rows = [self.row(*each) for each in _children(value, at, schema, self._root, 0, MAX_OPEN)]
        return ArgumentRow(name, at, kind, count, hint, rows=rows)


def _counted(value: JsonObject | list[Json]) -> str:
    if isinstance(value, list):
        return f"{len(value)} in a list" if value else "empty list"
    return f"{len(value)} {'value' if len(value) == 1 else 'values'}" if value else "empty"


def count_values(value: Json, limit: int) -> int:
    """How many values stand below this one, counted up to a limit."""
    found = 0
    waiting = [value]
    while waiting and found < limit:
        each = waiting.pop()
        inner = list(each.values()) if isinstance(each, dict) else each if isinstance(each, list) else []
        found += len(inner)
        waiting += inner[:limit]
    return min(found, limit)


def _children(
    value: JsonObject | list[Json], at: str, schema: Schema, root: Schema, start: int, limit: int
) -> Iterator[tuple[str, str, Json, Schema]]:
    """The name, place, value and schema of what stands in an object or a list."""
    if isinstance(value, list):
        inner = resolved(schema.get("items"), root)
        for index in range(start, min(len(value), start + limit)):
            yield str(index + 1), f"{at}/{index}", value[index], inner
        return
    for name in list(value)[start : start + limit]:
        place = f"{at}/{name.replace('~', '~0').replace('/', '~1')}"
        yield name, place, value[name], _schema_of(name, schema, root)


def _schema_of(name: str, schema: Schema, root: Schema) -> Schema:
    known = schema.get("properties")
    return resolved(known.get(name) if isinstance(known, Mapping) else None, root)


def _leaf_row(name: str, at: str, value: Json, hint: str) -> ArgumentRow:
    text, kind = _leaf(value)
    if len(text) <= MAX_TEXT + TAIL:
        return ArgumentRow(name, at, kind, text, hint)
    return ArgumentRow(name, at, kind, text[:MAX_TEXT], hint, len(text), text[-TAIL:])


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
    left_out = len(arguments) - len(parts)
    return [*parts, ("", f"and {left_out} more")] if left_out else parts


def in_one_line(arguments: JsonObject | str, limit: int = 160) -> str:
    """The same as one text, for labels and messages."""
    parts = [f"{name}: {text}" if name else text for name, text in in_parts(arguments, limit)]
    return shortened(" · ".join(parts), limit)


def in_a_cell(value: object, limit: int = 300) -> str:
    """One value in a table of many calls; what is cut says how much there is."""
    text = value if isinstance(value, str) else json_text(value, indent=None)
    return text if len(text) <= limit else f"{text[:limit]}… ({size(len(text))} in all: open it to see everything)"

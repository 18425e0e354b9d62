"""A form from a tool's JSON schema, and arguments from the form: what nobody touched comes back as it was.

A field is addressed by its place in the arguments, written as the tool's own messages write it (`items[0].sku`). The
names of inputs say how they are read: `v.` a plain text, `j.` JSON, `nil.` nothing, `has.` an optional value is given,
`item.` one item of a list, `rest.` what the schema does not name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from placet.desk.pages.schemas import Kind, Schema, Shape, shape_of
from placet.desk.pages.text_format import hides_something, json_text
from placet.facts.codec import Json, JsonObject, NotPlain, parse_arguments, plain

MAX_DEPTH = 5
"""What is nested deeper is edited as JSON."""
WHOLE = ""
"""The place of the arguments themselves."""


class _Missing:
    """A value that is not there: an optional one that was left out."""


MISSING: Final = _Missing()


@dataclass(slots=True)
class Field:
    place: str
    label: str
    kind: Kind
    text: str = ""
    hint: str = ""
    nullable: bool = False
    is_null: bool = False
    optional: bool = False
    is_left_out: bool = False
    multiline: bool = False
    choices: list[tuple[str, str, bool]] = field(default_factory=list)
    """Value to send, label, whether it is the chosen one."""
    fields: list[Field] = field(default_factory=list)
    """Of an object its parts, of a list its items."""
    bounds: str = ""
    problem: str = ""

    @property
    def id(self) -> str:
        return "field-" + "".join(each if each.isalnum() else f"-{ord(each):x}-" for each in self.place)

    def family(self) -> list[Field]:
        return [self, *(each for inner in self.fields for each in inner.family())]


class Submitted(Protocol):
    """What a browser sent: names with one or several texts each."""

    def get(self, name: str, /) -> object: ...

    def getlist(self, name: str, /) -> Sequence[object]: ...


@dataclass(slots=True)
class Reading:
    """What a form said: the arguments, what is wrong with them by place, and the texts that were no values."""

    arguments: JsonObject
    problems: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)


# -- from a schema to fields ------------------------------------------------------------------------------------------


class FormBuilder:
    def __init__(self, schema: Schema, raw: Mapping[str, str], problems: Mapping[str, str]) -> None:
        self._root = schema
        self._raw = raw
        self._problems = problems

    def fields(self, arguments: JsonObject) -> list[Field]:
        shape = shape_of(self._root, self._root)
        if shape.kind != "object":
            return [self._json(Field(WHOLE, "arguments", "json"), arguments)]
        return self._parts(shape, WHOLE, arguments, 0)

    def _parts(self, shape: Shape, place: str, value: JsonObject, depth: int) -> list[Field]:
        properties: Mapping[str, object] = shape.schema["properties"]
        required = shape.schema.get("required") or ()
        found = [
            self._field(name, each, inside(place, name), value.get(name, MISSING), depth + 1, name not in required)
            for name, each in properties.items()
        ]
        rest = {name: each for name, each in value.items() if name not in properties}
        if rest or f"rest.{place}" in self._raw:
            other = Field(inside(place, "…"), "everything else", "json", hint="what the tool's schema does not name")
            other.text = self._raw.get(f"rest.{place}", json_text(rest))
            other.problem = self._problems.get(other.place, "")
            found.append(other)
        return found

    def _field(self, label: str, schema: object, place: str, value: object, depth: int, optional: bool) -> Field:
        shape = shape_of(schema, self._root)
        made = Field(place, label, shape.kind, nullable=shape.nullable, optional=optional)
        made.hint = str(shape.schema.get("description") or "")
        made.is_left_out = value is MISSING
        made.is_null = value is None and shape.nullable
        made.problem = self._problems.get(place, "")
        if value is MISSING or made.is_null:
            value = shape.schema.get("default", blank(shape, self._root))
        match shape.kind:
            case "object" if isinstance(value, dict) and depth < MAX_DEPTH:
                made.fields = self._parts(shape, place, value, depth)
            case "array" if isinstance(value, list) and depth < MAX_DEPTH:
                made.fields = self._items(shape, place, value, depth)
            case "object" | "array" | "json":
                return self._json(made, value)
            case "choice":
                self._choose(made, shape.choices, value)
            case _:
                return self._leaf(made, shape, value)
        return made

    def _items(self, shape: Shape, place: str, values: list[object], depth: int) -> list[Field]:
        inner = shape.schema["items"]
        return [
            self._field(str(index + 1), inner, f"{place}[{index}]", each, depth + 1, False)
            for index, each in enumerate(values)
        ]

    def _json(self, made: Field, value: object) -> Field:
        made.kind, made.multiline = "json", True
        made.text = self._raw.get(made.place, json_text(value))
        return made

    def _choose(self, made: Field, choices: Sequence[object], value: object) -> None:
        chosen = next((n for n, each in enumerate(choices) if each == value and type(each) is type(value)), None)
        made.choices = [(str(number), choice_label(each), number == chosen) for number, each in enumerate(choices)]

    def _leaf(self, made: Field, shape: Shape, value: object) -> Field:
        if made.place not in self._raw and value is not None and not _fits(shape.kind, value):
            return self._json(made, value)
        if shape.kind == "text" and isinstance(value, str) and hides_something(value):
            return self._json(made, value)
        if shape.kind == "boolean":
            made.choices = [(word, word, value is flag) for word, flag in (("true", True), ("false", False))]
            return made
        made.text = self._raw.get(made.place, leaf_text(value))
        made.multiline = shape.kind == "text" and ("\n" in made.text or len(made.text) > 60)
        made.bounds = _bounds(shape.schema)
        return made


def _fits(kind: Kind, value: object) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaf_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def choice_label(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "{} characters or more",
    "maxLength": "up to {} characters",
    "pattern": "must match {}",
    "format": "{}",
}


def _bounds(schema: Schema) -> str:
    return ", ".join(text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema)


def blank(shape: Shape, root: Schema, depth: int = 0) -> object:
    """What a new item of a list, or an optional value that is switched on, begins with."""
    match shape.kind:
        case "text":
            return ""
        case "boolean":
            return False
        case "array":
            return []
        case "object" if depth < MAX_DEPTH:
            parts = {name: shape_of(each, root) for name, each in shape.schema["properties"].items()}
            return {name: None if each.nullable else blank(each, root, depth + 1) for name, each in parts.items()}
        case _:
            return None


# -- from a form to arguments -----------------------------------------------------------------------------------------


class FormReader:
    def __init__(self, schema: Schema, submitted: Submitted, change: str = "") -> None:
        self._root = schema
        self._form = submitted
        self._verb, _, self._where = change.partition(":")
        """A button may ask for one more item of a list, or for one item less."""
        self.problems: dict[str, str] = {}
        self.raw: dict[str, str] = {}

    def read(self, original: JsonObject) -> Reading:
        shape = shape_of(self._root, self._root)
        if shape.kind == "object":
            found: object = self._object(shape, WHOLE, WHOLE, original)
        else:
            found = self._value(shape, WHOLE, WHOLE, original)
        if not isinstance(found, dict):
            self.problems.setdefault(WHOLE, "The arguments must be one JSON object: {…}.")
            found = original
        return Reading(found, self.problems, self.raw)

    def _text(self, name: str) -> str | None:
        found = self._form.get(name)
        return found if isinstance(found, str) else None

    def _object(self, shape: Shape, source: str, place: str, original: object) -> JsonObject:
        before = original if isinstance(original, dict) else {}
        properties: Mapping[str, object] = shape.schema["properties"]
        required = shape.schema.get("required") or ()
        found: JsonObject = {}
        for name in [*(each for each in before if each in properties), *(e for e in properties if e not in before)]:
            origin = inside(source, name)
            if name not in required and self._text(f"has.{origin}") is None:
                continue
            inner = shape_of(properties[name], self._root)
            found[name] = self._value(inner, origin, inside(place, name), before.get(name, MISSING))
        return found | self._rest(source, place, set(properties))

    def _rest(self, source: str, place: str, known: set[str]) -> JsonObject:
        text = self._text(f"rest.{source}")
        if text is None:
            return {}
        rest = parse_arguments(text)
        if rest is None or known & rest.keys():
            self.raw[f"rest.{place}"] = text
            self.problems[inside(place, "…")] = "This must be one JSON object, without the names above."
            return {}
        return rest

    def _value(self, shape: Shape, source: str, place: str, original: object) -> object:
        if shape.nullable and self._text(f"nil.{source}") is not None:
            return None
        as_json = self._text(f"j.{source}")
        if as_json is not None:
            return self._json(as_json, place, original)
        match shape.kind:
            case "object":
                return self._object(shape, source, place, original)
            case "array":
                return self._array(shape, source, place, original)
            case "json":
                self.problems[place] = "This value is missing."
                return None
            case "choice":
                return self._choice(shape, source, place)
            case _:
                return self._leaf(shape.kind, source, place, original)

    def _array(self, shape: Shape, source: str, place: str, original: object) -> list[Json]:
        before = original if isinstance(original, list) else []
        inner = shape_of(shape.schema["items"], self._root)
        found: list[Json] = []
        for key in map(str, self._form.getlist(f"item.{source}")):
            origin = f"{source}[{key}]"
            if self._verb == "drop" and self._where == origin:
                continue
            was = before[int(key)] if key.isdecimal() and int(key) < len(before) else MISSING
            found.append(self._value(inner, origin, f"{place}[{len(found)}]", was))
        if self._verb == "add" and self._where == source:
            found.append(None if inner.nullable else blank(inner, self._root))
        return found

    def _json(self, text: str, place: str, original: object) -> Json:
        if original is not MISSING and _same_lines(text, json_text(original)):
            return original
        wrapped = parse_arguments(f'{{"value": {text}\n}}')
        if wrapped is None or wrapped.keys() != {"value"}:
            self.raw[place] = text
            self.problems[place] = "This is not JSON (or a key stands twice in one object)."
            return None
        return wrapped["value"]

    def _choice(self, shape: Shape, source: str, place: str) -> object:
        text = self._text(f"v.{source}") or ""
        if text.isdecimal() and int(text) < len(shape.choices):
            return shape.choices[int(text)]
        self.problems[place] = "Choose one."
        return None

    def _leaf(self, kind: Kind, source: str, place: str, original: object) -> object:
        text = self._text(f"v.{source}")
        if text is None:
            self.problems[place] = "This value is missing."
            return "" if kind == "text" else None
        if original is not MISSING and original is not None and _same_lines(text, leaf_text(original)):
            return original
        if kind == "text":
            return text.replace("\r\n", "\n")
        if kind == "boolean":
            return text == "true"
        return self._number(kind, text.strip(), place)

    def _number(self, kind: Kind, text: str, place: str) -> object:
        what = "a whole number" if kind == "integer" else "a number"
        try:
            found = json.loads(text, parse_constant=_no_constant)
            if isinstance(found, bool) or not isinstance(found, int | float):
                raise ValueError(text)
            if kind == "integer" and not (isinstance(found, int) or found.is_integer()):
                raise ValueError(text)
            return plain(found)
        except NotPlain:
            self.problems[place] = "This number is larger than JSON readers agree about."
        except ValueError:
            self.problems[place] = f"Write {what}, like {'42' if kind == 'integer' else '4.5'}."
        self.raw[place] = text
        return None


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _same_lines(text: str, other: str) -> bool:
    """Browsers send every line break as CR LF: what was not touched must not change by that."""
    return text.replace("\r\n", "\n") == other.replace("\r\n", "\n").replace("\r", "\n")


# -- problems that the tool found -------------------------------------------------------------------------------------


def problems_by_place(text: str, fields: Sequence[Field]) -> tuple[dict[str, str], list[str]]:
    """The lines of a tool's message, each beside the field that it names; and those that name none."""
    places = sorted((each.place for top in fields for each in top.family()), key=len, reverse=True)
    beside: dict[str, str] = {}
    general: list[str] = []
    for line in text.splitlines():
        named, colon, message = line.partition(": ")
        place = next((each for each in places if each and _is_at(named, each)), None)
        if not colon or place is None:
            general.append(line)
        else:
            sentence = f"{message[:1].upper()}{message[1:]}"
            beside[place] = f"{beside[place]}; {message}" if place in beside else sentence
    return beside, general


def _is_at(named: str, place: str) -> bool:
    """Whether a name in a message means this field or a part of it. Tools write `items[1].count`, schemas
    `/items/1/count`."""
    steps = named[1:].replace("/", ".").replace("~1", "/").replace("~0", "~") if named.startswith("/") else named
    return f"{_dotted(steps)}.".startswith(f"{_dotted(place)}.")


def _dotted(place: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", place)

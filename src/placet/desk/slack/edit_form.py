"""A dialogue for the arguments of a call, from the tool's schema: one input for each argument, what is nested as JSON.

It reads as the form of the page does: what nobody touched comes back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placet.channels.slack_blocks import Block, plain
from placet.desk.pages.forms import WHOLE, FormReader, choice_label, leaf_text
from placet.desk.pages.schemas import Schema, Shape, shape_of
from placet.desk.pages.text_format import hides_something, json_text
from placet.facts.codec import JsonObject

MOST_INPUTS = 40
LONGEST = 3000
"""Characters that an input of Slack's takes."""
MOST_CHOICES = 100
PREFIX = "f."


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    shape: Shape
    text: str
    """As it is written into the input."""
    is_json: bool
    is_optional: bool
    """It may be left out of the arguments."""
    was_there: bool

    @property
    def block(self) -> Block:
        hint = str(self.shape.schema.get("description") or "")
        made: Block = {
            "type": "input",
            "block_id": PREFIX + self.name,
            "optional": True,  # an empty text is a text
            "label": plain(f"{self.name} (JSON)" if self.is_json else self.name, 150),
            "element": self._element(),
        }
        return made | {"hint": plain(hint, 300)} if hint else made

    def _element(self) -> Block:
        if self._choices and not self.is_json:
            options = [{"text": plain(label, 75), "value": str(n)} for n, label in enumerate(self._choices)]
            made: Block = {"type": "static_select", "action_id": "value", "options": options}
            return made | {"initial_option": options[int(self.text)]} if self.text else made
        multiline = self.is_json or self.shape.kind == "text"
        element = {"type": "plain_text_input", "action_id": "value", "multiline": multiline, "max_length": LONGEST}
        return element | {"initial_value": self.text} if self.text else element

    @property
    def _choices(self) -> list[str]:
        if self.shape.kind == "boolean":
            return ["true", "false"]
        return [choice_label(each) for each in self.shape.choices] if self.shape.kind == "choice" else []

    def sent(self, said: str | None) -> dict[str, str]:
        """The same as a browser would send it."""
        text = said or ""
        has = {f"has.{self.name}": "on"}
        if not text and not self.is_json and self.shape.kind == "text":
            keeps_empty = not self.is_optional or (self.was_there and not self.text)
            return has | {f"v.{self.name}": ""} if keeps_empty else {}
        if not text and self.shape.nullable:
            return has | {f"nil.{self.name}": "on"}
        if not text and self.is_optional:
            return {}
        if self.is_json:
            return has | {f"j.{self.name}": text}
        if self.shape.kind == "boolean":
            return has | {f"v.{self.name}": self._choices[int(text)] if text in ("0", "1") else ""}
        return has | {f"v.{self.name}": text}


class EditForm:
    def __init__(self, schema: Schema, original: JsonObject, inputs: Sequence[Input], rest: JsonObject) -> None:
        self._schema = schema
        self._original = original
        self._inputs = inputs
        self._rest = rest

    def blocks(self) -> list[Block]:
        return [each.block for each in self._inputs]

    def read(self, said: Mapping[str, str | None]) -> tuple[JsonObject, dict[str, str]]:
        """The arguments, and what is wrong, by the input's block."""
        sent: dict[str, str] = {f"rest.{WHOLE}": json_text(self._rest)} if self._rest else {}
        for each in self._inputs:
            sent |= each.sent(said.get(PREFIX + each.name))
        reading = FormReader(self._schema, _Sent(sent)).read(self._original)
        return reading.arguments, {place_of(place): text for place, text in reading.problems.items()}


def place_of(place: str) -> str:
    """The input in which a place of the arguments stands, such as `items[0].sku`."""
    return PREFIX + place.partition(".")[0].partition("[")[0]


class _Sent:
    """What a browser would have sent."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str, /) -> object:
        return self._values.get(name)

    def getlist(self, name: str, /) -> Sequence[object]:
        return ()


def edit_form(schema: Schema, arguments: JsonObject | str) -> EditForm | str:
    """The form; or why there is none that would fit."""
    whole = shape_of(schema, schema)
    if isinstance(arguments, str) or whole.kind != "object":
        return "These arguments are not one JSON object: edit them at the desk."
    properties: Mapping[str, object] = whole.schema["properties"]
    required = whole.schema.get("required") or ()
    inputs = [
        _input(name, shape_of(each, schema), arguments, is_optional=name not in required)
        for name, each in properties.items()
    ]
    too_long = any(len(each.text) > LONGEST or len(each.name) > 200 or "." in each.name for each in inputs)
    if len(inputs) > MOST_INPUTS or too_long or not inputs:
        return "These arguments are too many or too long for a chat: edit them at the desk."
    rest = {name: each for name, each in arguments.items() if name not in properties}
    return EditForm(schema, arguments, inputs, rest)


def _input(name: str, shape: Shape, arguments: JsonObject, *, is_optional: bool) -> Input:
    was_there = name in arguments
    value = arguments.get(name)
    text, is_json = _text(shape, value) if was_there else ("", not _is_simple(shape))
    return Input(name, shape, text, is_json, is_optional, was_there)


def _is_simple(shape: Shape) -> bool:
    if shape.kind == "choice":
        return 0 < len(shape.choices) <= MOST_CHOICES
    return shape.kind in ("text", "integer", "number", "boolean")


def _text(shape: Shape, value: object) -> tuple[str, bool]:
    """How a value is written, and whether as JSON."""
    if value is None and shape.nullable:
        return "", not _is_simple(shape)
    match shape.kind:
        case "text" if isinstance(value, str) and not hides_something(value):
            return value, False
        case "integer" | "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return leaf_text(value), False
        case "boolean" if isinstance(value, bool):
            return ("0" if value else "1"), False
        case "choice" if _is_simple(shape):
            found = [n for n, each in enumerate(shape.choices) if each == value and type(each) is type(value)]
            return (str(found[0]), False) if found else (json_text(value), True)
        case _:
            return json_text(value), True

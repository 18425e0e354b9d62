"""Forms from schemas, and arguments from forms: what nobody touched comes back as it was."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from placet import function_tool
from placet.desk.pages.form_data import Form
from placet.desk.pages.forms import Field, FormBuilder, FormReader, Reading, problems_by_place
from placet.desk.pages.schemas import shape_of
from placet.facts.codec import canonical


class Item(BaseModel):
    sku: str
    count: int
    note: str | None = None


@function_tool
def order(
    name: str,
    items: list[Item],
    kind: Literal["gift", "sale"],
    express: bool,
    price: float | None,
    both: int | str,
    tags: list[str],
) -> str:
    """Order something."""
    return ""


SCHEMA = order.params_json_schema
ARGUMENTS: dict[str, Any] = {
    "name": "Zoë\r\nand a second line",
    "items": [{"sku": "a", "count": 2, "note": None}, {"sku": "b", "count": 1, "note": "blue"}],
    "kind": "sale",
    "express": False,
    "price": 4.50,
    "both": "x",
    "tags": ["one", "\u202etwo"],
}


def as_sent(fields: list[Field]) -> list[tuple[str, str]]:
    """What a browser sends of these fields if nobody touches them: line breaks as CR LF."""
    pairs: list[tuple[str, str]] = []
    for each in fields:
        if each.optional and not each.is_left_out:
            pairs.append((f"has.{each.place}", "on"))
        if each.is_null:
            pairs.append((f"nil.{each.place}", "on"))
        if each.kind == "array":
            pairs += [(f"item.{each.place}", str(index)) for index in range(len(each.fields))]
        if each.kind in ("object", "array"):
            pairs += as_sent(each.fields)
        elif each.kind in ("choice", "boolean"):
            chosen = [value for value, _, is_chosen in each.choices if is_chosen]
            pairs.append((f"v.{each.place}", chosen[0] if chosen else ""))
        elif each.label == "everything else":
            pairs.append((f"rest.{each.place.rpartition('…')[0].removesuffix('.')}", each.text))
        else:
            lines = each.text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
            pairs.append((f"{'j' if each.kind == 'json' else 'v'}.{each.place}", lines))
    return pairs


def sent(arguments: dict[str, Any], schema: Any = SCHEMA, **changes: str | None) -> Form:
    """The form of these arguments as a browser sends it, with some fields changed (None: not sent)."""
    pairs = as_sent(FormBuilder(schema, {}, {}).fields(arguments))
    found = [(name, changes.get(name, text)) for name, text in pairs]
    found += [(name, text) for name, text in changes.items() if name not in dict(pairs)]
    kept = [(name, text) for name, text in found if text is not None]
    return Form(parse_qsl(urlencode(kept), keep_blank_values=True))


def read(form: Form, original: dict[str, Any] = ARGUMENTS, schema: Any = SCHEMA, change: str = "") -> Reading:
    return FormReader(schema, form, change).read(original)


def test_a_form_that_nobody_touched_gives_the_arguments_as_they_were() -> None:
    reading = read(sent(ARGUMENTS))

    assert (reading.arguments, reading.problems) == (ARGUMENTS, {})
    assert canonical(reading.arguments) == canonical(ARGUMENTS)
    assert list(reading.arguments) == list(ARGUMENTS)


def test_each_type_of_the_schema_has_its_kind_of_field() -> None:
    fields = {each.label: each for each in FormBuilder(SCHEMA, {}, {}).fields(ARGUMENTS)}

    assert {name: each.kind for name, each in fields.items()} == {
        "name": "json",  # it holds a carriage return, which a field would lose
        "items": "array",
        "kind": "choice",
        "express": "boolean",
        "price": "number",
        "both": "json",
        "tags": "array",
    }
    assert [each.kind for each in fields["tags"].fields] == ["text", "json"]
    assert [each.label for each in fields["items"].fields[0].fields] == ["sku", "count", "note"]
    assert fields["items"].fields[0].fields[2].is_null


def test_changes_of_every_kind_arrive() -> None:
    changes = {
        "v.items[0].count": "3",
        "v.kind": "0",
        "v.express": "true",
        "nil.price": "on",
        "j.both": "7",
        "v.tags[0]": "first\r\nsecond",
    }

    reading = read(sent(ARGUMENTS, **changes))

    assert reading.problems == {}
    assert reading.arguments == ARGUMENTS | {
        "items": [{"sku": "a", "count": 3, "note": None}, ARGUMENTS["items"][1]],
        "kind": "gift",
        "express": True,
        "price": None,
        "both": 7,
        "tags": ["first\nsecond", "\u202etwo"],
    }


@pytest.mark.parametrize(
    ("name", "text", "place", "words"),
    [
        ("v.items[0].count", "two", "items[0].count", "Write a whole number, like 42."),
        ("v.items[0].count", "1.5", "items[0].count", "Write a whole number, like 42."),
        ("v.items[0].count", "NaN", "items[0].count", "Write a whole number, like 42."),
        ("v.items[0].count", "true", "items[0].count", "Write a whole number, like 42."),
        ("v.items[0].count", "9" * 40, "items[0].count", "This number is larger than JSON readers agree about."),
        ("v.price", "cheap", "price", "Write a number, like 4.5."),
        ("v.kind", "", "kind", "Choose one."),
        ("v.kind", "99", "kind", "Choose one."),
        ("j.both", "{", "both", "This is not JSON (or a key stands twice in one object)."),
        ("j.both", '1, "more": 2', "both", "This is not JSON (or a key stands twice in one object)."),
        ("v.express", None, "express", "This value is missing."),
    ],
)
def test_what_cannot_be_read_is_told_beside_its_field_and_kept_as_it_was_typed(
    name: str, text: str | None, place: str, words: str
) -> None:
    reading = read(sent(ARGUMENTS, **{name: text}))

    fields = FormBuilder(SCHEMA, reading.raw, reading.problems).fields(reading.arguments)
    shown = {each.place: each for top in fields for each in top.family()}
    assert reading.problems == {place: words}
    assert shown[place].problem == words
    if text and not name.startswith("v.kind"):
        assert shown[place].text == text


def test_a_list_grows_and_shrinks_and_what_was_typed_moves_along() -> None:
    form = sent(ARGUMENTS, **{"v.items[1].count": "many"})

    grown = read(form, change="add:items")
    shrunk = read(form, change="drop:items[0]")

    assert grown.arguments["items"] == [
        ARGUMENTS["items"][0],
        {"sku": "b", "count": None, "note": "blue"},
        {"sku": "", "count": None, "note": None},
    ]
    assert shrunk.arguments["items"] == [{"sku": "b", "count": None, "note": "blue"}]
    assert shrunk.raw == {"items[0].count": "many"}


def test_optional_values_are_left_out_or_given() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "default": 5}},
        "required": ["a"],
    }

    left_out = read(sent({"a": "x"}, schema), {"a": "x"}, schema)
    given = read(sent({"a": "x"}, schema, **{"has.b": "on"}), {"a": "x"}, schema)

    assert left_out.arguments == {"a": "x"}
    assert given.arguments == {"a": "x", "b": 5}


def test_what_the_schema_does_not_name_is_kept_and_can_be_changed_as_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    arguments = {"a": "x", "more": [1, 2]}

    same = read(sent(arguments, schema), arguments, schema)
    changed = read(sent(arguments, schema, **{"rest.": '{"other": true}'}), arguments, schema)
    wrong = read(sent(arguments, schema, **{"rest.": '{"a": "twice"}'}), arguments, schema)

    assert same.arguments == arguments
    assert changed.arguments == {"a": "x", "other": True}
    assert wrong.problems == {"…": "This must be one JSON object, without the names above."}


def test_values_that_do_not_fit_their_schema_are_edited_as_json_and_lose_nothing() -> None:
    arguments = ARGUMENTS | {"items": "not a list", "express": "yes", "name": 7}

    fields = {each.label: each for each in FormBuilder(SCHEMA, {}, {}).fields(arguments)}

    assert {fields[name].kind for name in ("items", "express", "name")} == {"json"}
    assert read(sent(arguments), arguments).arguments == arguments


def test_a_schema_that_refers_to_itself_ends_in_json() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
    }
    arguments: dict[str, Any] = {"next": {"next": {"next": {"next": {"next": {"next": {}}}}}}}

    assert read(sent(arguments, schema), arguments, schema).arguments == arguments
    assert shape_of({"$ref": "#/$defs/A"}, {"$defs": {"A": {"$ref": "#/$defs/A"}}}).kind == "json"


def test_the_lines_of_a_tools_message_go_to_the_fields_that_they_name() -> None:
    fields = FormBuilder(SCHEMA, {}, {}).fields(ARGUMENTS)
    message = "items[1].count: should be at most 3\nboth.int: not a number\nboth.str: too long\nthe order is closed"

    beside, general = problems_by_place(message, fields)

    assert beside == {"items[1].count": "Should be at most 3", "both": "Not a number; too long"}
    assert general == ["the order is closed"]


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "object":
            inner = {name: _values(each) for name, each in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: inner[name] for name in schema["required"]},
                optional={name: each for name, each in inner.items() if name not in schema["required"]},
            )
        case "array":
            return st.lists(_values(schema["items"]), max_size=3)
        case "string":
            return st.text(max_size=12)
        case "integer":
            return st.integers(-(2**63), 2**63)
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return st.none() | st.text(max_size=5) | st.lists(st.integers(-5, 5), max_size=2)


_leaves = st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean")] + [{}])
_names = st.sampled_from(["a", "b", "c.d", "e[0]", "ü", "…"])


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def made(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        kept = [name for name in required if name in properties]
        return {"type": "object", "properties": properties, "required": kept}

    return st.builds(made, st.dictionaries(_names, inner, max_size=3), st.lists(_names, unique=True, max_size=3))


_schemas = _objects(
    st.recursive(
        _leaves,
        lambda inner: _objects(inner) | st.builds(lambda of: {"type": "array", "items": of}, inner),
        max_leaves=5,
    )
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_whatever_the_schema_and_the_arguments_an_untouched_form_changes_nothing(data: st.DataObject) -> None:
    schema = data.draw(_schemas)
    arguments = data.draw(_values(schema))

    reading = read(sent(arguments, schema), arguments, schema)

    assert reading.problems == {}
    assert canonical(reading.arguments) == canonical(arguments)

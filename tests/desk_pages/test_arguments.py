"""Arguments as a table."""

from __future__ import annotations

from placet.desk.pages.arguments import MAX_JSON, MAX_ROWS, MAX_TEXT, argument_table, in_one_line, in_parts

SCHEMA = {
    "properties": {
        "to": {"$ref": "#/$defs/Person"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"description": "which"}}}},
    },
    "$defs": {"Person": {"description": "who gets it", "type": "object", "properties": {"name": {}}}},
}


def test_each_value_has_a_row_with_its_depth_its_kind_and_the_words_of_the_schema() -> None:
    arguments = {
        "to": {"name": "Ana"},
        "items": [{"sku": "a1"}, {"sku": "b2"}],
        "express": True,
        "cents": 4900,
        "note": None,
        "empty": [],
    }

    table = argument_table(arguments, SCHEMA)

    assert [(row.name, row.depth, row.kind, row.text, row.hint) for row in table.rows] == [
        ("to", 0, "group", "", "who gets it"),
        ("name", 1, "text", "Ana", ""),
        ("items", 0, "list", "2 in a list", ""),
        ("1", 1, "group", "", ""),
        ("sku", 2, "text", "a1", "which"),
        ("2", 1, "group", "", ""),
        ("sku", 2, "text", "b2", "which"),
        ("express", 0, "yes/no", "true", ""),
        ("cents", 0, "number", "4900", ""),
        ("note", 0, "nothing", "null", ""),
        ("empty", 0, "list", "empty list", ""),
    ]
    assert not table.left_out


def test_what_is_too_long_is_cut_and_says_how_long_it_is() -> None:
    table = argument_table({"text": "x" * 50_000})

    (row,) = table.rows
    assert (len(row.text), row.cut) == (MAX_TEXT, 50_000)
    assert (len(table.json), table.json_cut) == (MAX_JSON, 50_000 + len('{\n  "text": ""\n}'))


def test_of_too_many_rows_some_are_left_out() -> None:
    table = argument_table({f"n{number}": number for number in range(MAX_ROWS + 1)})

    assert (len(table.rows), table.left_out) == (MAX_ROWS, True)


def test_what_is_no_json_object_is_shown_as_it_was_written() -> None:
    table = argument_table('{"order": 7')

    assert (table.rows, table.raw) == ([], '{"order": 7')


def test_a_list_shows_names_and_values_apart_and_stops_when_there_is_no_room() -> None:
    assert in_parts({"a": "x", "b": {"c": 1}}) == [("a", "x"), ("b", '{"c": 1}')]
    assert in_parts({"a": "x" * 500, "b": 1}) == [("a", "x" * 159 + "…")]
    assert in_one_line({"a": "x", "b": 2}) == "a: x · b: 2"
    assert in_one_line("not json") == "not json"

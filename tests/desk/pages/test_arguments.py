"""Arguments as a table: every top-level name in sight, what is large folded with its count, nothing left out."""

from __future__ import annotations

import pytest

from placet.desk.pages.arguments import (
    MAX_JSON,
    MAX_OPEN,
    MAX_ROWS,
    MAX_TEXT,
    MAX_TOP,
    PART,
    TAIL,
    ArgumentRow,
    argument_part,
    argument_table,
    in_a_cell,
    in_one_line,
    in_parts,
)

SCHEMA = {
    "properties": {
        "to": {"$ref": "#/$defs/Person"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"description": "which"}}}},
    },
    "$defs": {"Person": {"description": "who gets it", "type": "object", "properties": {"name": {}}}},
}


def flat(rows: list[ArgumentRow], depth: int = 0) -> list[tuple[int, ArgumentRow]]:
    return [each for row in rows for each in [(depth, row), *flat(row.rows, depth + 1)]]


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

    assert [(depth, row.name, row.at, row.kind, row.text, row.hint) for depth, row in flat(table.rows)] == [
        (0, "to", "/to", "group", "1 value", "who gets it"),
        (1, "name", "/to/name", "text", "Ana", ""),
        (0, "items", "/items", "list", "2 in a list", ""),
        (1, "1", "/items/0", "group", "1 value", ""),
        (2, "sku", "/items/0/sku", "text", "a1", "which"),
        (1, "2", "/items/1", "group", "1 value", ""),
        (2, "sku", "/items/1/sku", "text", "b2", "which"),
        (0, "express", "/express", "yes/no", "true", ""),
        (0, "cents", "/cents", "number", "4900", ""),
        (0, "note", "/note", "nothing", "null", ""),
        (0, "empty", "/empty", "list", "empty list", ""),
    ]
    assert not any(row.is_folded for _, row in flat(table.rows))


@pytest.mark.promise("P22")
def test_what_stands_behind_hundreds_of_records_is_in_sight() -> None:
    table = argument_table({"records": [{"id": n, "name": "x"} for n in range(330)], "truncate_first": True})

    assert [(row.name, row.text, row.is_folded) for row in table.rows] == [
        ("records", "330 in a list", True),
        ("truncate_first", "true", False),
    ]


def test_many_small_groups_unfold_until_there_is_no_room_and_then_fold_with_their_count() -> None:
    table = argument_table({f"group{n}": list(range(MAX_OPEN)) for n in range(20)})

    assert len(table.rows) == 20
    assert sum(not row.is_folded for row in table.rows) == MAX_ROWS // MAX_OPEN
    assert {row.text for row in table.rows} == {f"{MAX_OPEN} in a list"}


def test_a_thousand_names_are_all_in_sight_and_of_more_the_number() -> None:
    assert len(argument_table({f"n{n}": n for n in range(MAX_TOP)}).rows) == MAX_TOP
    table = argument_table({f"n{n}": n for n in range(MAX_TOP + 7)})
    rest = argument_part({f"n{n}": n for n in range(MAX_TOP + 7)}, "", MAX_TOP)

    assert (len(table.rows), table.left_out) == (MAX_TOP, 7)
    assert rest is not None
    assert ([row.text for row in rest.rows], rest.following) == ([str(MAX_TOP + n) for n in range(7)], 0)


def test_what_is_folded_unfolds_in_pages_until_all_of_it_was_shown() -> None:
    arguments = {"a/b~": {"records": list(range(2 * PART + 5))}}
    found: list[str] = []
    start = 0
    while True:
        part = argument_part(arguments, "/a~1b~0/records", start)
        assert part is not None
        found += [row.text for row in part.rows]
        start = part.following
        if not start:
            break

    assert found == [str(n) for n in range(2 * PART + 5)]
    assert argument_part(arguments, "/nothing") is None
    assert argument_part(arguments, "/a~1b~0/records/999") is None


def test_of_a_long_text_the_beginning_and_the_end_are_shown_with_its_size_and_the_whole_unfolds() -> None:
    text = "x" * 49_990 + "the very end"[:10]
    table = argument_table({"text": text})

    (row,) = table.rows
    part = argument_part({"text": text}, "/text")
    assert (len(row.text), len(row.tail), row.cut) == (MAX_TEXT, TAIL, 50_000)
    assert row.tail.endswith("the very e")
    assert (len(table.json), table.json_cut) == (MAX_JSON, 50_000 + len('{\n  "text": ""\n}'))
    assert part is not None
    assert part.text == text


def test_what_is_no_json_object_is_shown_as_it_was_written() -> None:
    table = argument_table('{"order": 7')
    long = argument_table("x" * 50_000)

    assert table.rows == []
    assert table.raw is not None
    assert (table.raw.text, table.raw.cut) == ('{"order": 7', 0)
    assert long.raw is not None
    assert long.raw.cut == 50_000


def test_a_cell_that_is_cut_says_how_much_there_is() -> None:
    assert in_a_cell({"a": 1}) == '{"a": 1}'
    assert in_a_cell("x" * 5000).endswith("x… (5,000 characters in all: open it to see everything)")


def test_a_list_shows_names_and_values_apart_and_stops_when_there_is_no_room() -> None:
    assert in_parts({"a": "x", "b": {"c": 1}}) == [("a", "x"), ("b", '{"c": 1}')]
    assert in_parts({"a": "x" * 500, "b": 1}) == [("a", "x" * 159 + "…"), ("", "and 1 more")]
    assert in_one_line({"a": "x", "b": 2}) == "a: x · b: 2"
    assert in_one_line("not json") == "not json"

"""Schemas that tools and questions bring: what they say of values, and that none can stop the process."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from placet import FunctionTool, NeedsInput, UserError
from placet.core import json_schema
from placet.core.json_schema import problem_with_schema, problems, problems_of_property, with_defaults

PATIENCE = 60.0
"""Seconds. Without bounds, what is tried here takes hours."""


async def _unused(_ctx: Any, _text: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("schema", "right", "wrong", "words"),
    [
        ({"pattern": "^[A-Z]{2}$"}, "AB", "abc", "/x: should match the pattern ^[A-Z]{2}$"),
        ({"pattern": "^(?!.*\\.\\.)[a-z./]+$"}, "a/b", "a/../b", "/x: should match the pattern"),
        ({"format": "email"}, "a@b.org", "nobody", "/x: should be a valid email"),
        ({"format": "date"}, "2026-01-31", "2026-02-31", "/x: should be a valid date"),
        ({"exclusiveMinimum": 3}, 4, 3, "/x: should be more than 3"),
        ({"exclusiveMaximum": 3}, 2, 3, "/x: should be less than 3"),
        ({"multipleOf": 5}, 10, 11, "/x: should be a multiple of 5"),
        ({"not": {"const": "root"}}, "ana", "root", '/x: should not fit {"const":"root"}'),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, "ab", "a", "/x: should have at least 2 characters"),
        ({"type": "array", "uniqueItems": True}, [1, 2], [1, 1], "/x: should have no item twice"),
        ({"prefixItems": [{"type": "integer"}]}, [1], ["a"], "/x/0: should be integer"),
        ({"contains": {"const": 1}}, [1], [2], "/x: has too few"),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, "/x: has a name that does not fit"),
        ({"patternProperties": {"^n": {"type": "integer"}}}, {"n1": 1}, {"n1": "a"}, "/x/n1: should be integer"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}, "/x/b: is required"),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, {"a": 1}, {"b": 1}, "/x/b: is not a parameter"),
        ({"minProperties": 1}, {"a": 1}, {}, "/x: should have at least 1 properties"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 9}]}, 0, 5, "/x: fits more than one of the forms"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "a", "should be integer; or should be null"),
        ({"type": "integer"}, 1, True, "/x: should be integer"),
        ({"$ref": "#/$defs/a~1b%20c"}, 7, 1, "/x: should be at least 5"),
    ],
)
def test_every_keyword_counts(schema: Any, right: Any, wrong: Any, words: str) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"a/b c": {"minimum": 5}}}

    assert problems(whole, {"x": right}) == []
    (found,) = problems(whole, {"x": wrong})
    assert words in found


def test_several_problems_are_told_at_once_and_their_number_and_length_are_bounded() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"enum": ["x" * 5000]}}, "required": ["c"]}

    few = problems(schema, {"a": "no", "b": "no"})
    many = problems({"items": {"type": "integer"}}, ["no"] * 50)
    very_many = problems({"items": {"type": "integer"}}, ["no"] * 100_000)

    assert {line.partition(":")[0] for line in few} == {"/a", "/b", "/c"}
    assert max(map(len, few)) < 500
    assert (len(many), many[-1]) == (11, "… and 40 more")
    assert very_many == ["/0: should be integer"]


def test_the_schemas_own_draft_is_respected() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}

    assert problems(old, ["a"]) == ["/0: should be integer"]
    assert problems(older, 3) == ["at the top: should be more than 3"]
    assert problem_with_schema({"minimum": 3, "exclusiveMinimum": True}) is not None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "strin"}, "/type"),
        ({"properties": []}, "/properties: should be object"),
        ({"properties": {"a": {"pattern": "("}}}, "no regular expression"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "too large"),
        ({"patternProperties": {"(?=a)": {}}}, "valid regex"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}}, "nothing is fetched"),
        ({"$defs": {"unused": {"$ref": "file:///etc/hostname"}}}, "nothing is fetched"),
        ({"$ref": "other.json"}, "nothing is fetched"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#"}, "comes back to itself"),
        ({"$schema": "http://127.0.0.1:9/mine"}, "Unknown meta-schema"),
        ({"description": "x" * 300_000}, "bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_where_the_tool_or_the_question_is_declared(
    schema: Any, words: str
) -> None:
    with pytest.raises(UserError, match="Tool 'pay': arguments cannot be checked") as tool:
        FunctionTool("pay", "", schema, _unused)
    with pytest.raises(UserError, match="the question 'q' has a schema that cannot be used") as question:
        NeedsInput({"q": {"mode": "form", "message": "?", "requestedSchema": schema}})

    assert words in str(tool.value)
    assert words in str(question.value)
    assert len(str(tool.value)) < 500


def test_names_and_values_that_look_like_references_are_none() -> None:
    schema = {"properties": {"$ref": {"type": "string"}, "a": {"enum": [{"$ref": "http://x"}]}}}

    assert problem_with_schema(schema) is None
    assert problems(schema, {"$ref": "http://x", "a": {"$ref": "http://x"}}) == []


EVIL = ["^(a+)+$", "^(?=a)(a|aa)+\\1?$", "(?=(a+)+$)b", "^(a|b)*a(a|b){2000}c$", "(?=(a|b)*a(a|b){40}c)x"]


@pytest.mark.parametrize("pattern", EVIL)
@pytest.mark.parametrize("letters", [40, 900, 1_000_000])
def test_a_pattern_that_takes_for_ever_is_refused_in_time(pattern: str, letters: int) -> None:
    began = time.monotonic()

    found = problems({"properties": {"x": {"pattern": pattern}}}, {"x": "ab" * (letters // 2) + "a" * 40 + "!"})

    assert len(found) == 1
    assert time.monotonic() - began < PATIENCE


def test_a_long_text_is_not_matched_with_a_large_pattern() -> None:
    schema = {"properties": {"x": {"pattern": "^(a|b)*a(a|b){501}$"}}}

    assert problems(schema, {"x": "ab" * 400}) == []
    assert "too long to be checked" in problems(schema, {"x": "ab" * 10_000})[0]


@pytest.mark.parametrize("letters", [40, 1_000_000])
@pytest.mark.parametrize("form", ["not", "if"])
def test_what_could_not_be_checked_does_not_pass_where_a_mismatch_would_be_right(form: str, letters: int) -> None:
    evil = {"pattern": "^(a|aa)+\\1?$"}
    schema = {"not": evil} if form == "not" else {"if": evil, "then": False}

    (found,) = problems({"properties": {"x": schema}}, {"x": "a" * letters + "!"})

    assert "too long to be checked" in found


def test_definitions_that_multiply_are_refused_in_time() -> None:
    names = [f"d{number}" for number in range(41)]
    twice = {one: {"allOf": [{"$ref": f"#/$defs/{two}"}] * 2} for one, two in itertools.pairwise(names)}
    within: Any = {"c": {"allOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}]}}
    deep: Any = {}
    for _ in range(60):
        deep = {"c": deep}
    began = time.monotonic()

    refused = problem_with_schema({"$defs": {**twice, "d40": {}}, "$ref": "#/$defs/d0"})
    tree = {"$defs": {"t": {"properties": within}}, "$ref": "#/$defs/t"}

    assert "refer to each other so often" in str(refused)
    assert problems(tree, {"c": {"c": {}}}) == []
    assert "nested too deeply" in problems(tree, deep)[0]
    assert time.monotonic() - began < PATIENCE


def test_forms_that_have_themselves_as_parts_are_taken_at_any_depth_of_a_log() -> None:
    parts = [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/j"}}]
    schema = {"$defs": {"j": {"anyOf": [*parts, {"additionalProperties": {"$ref": "#/$defs/j"}}]}}, "$ref": "#/$defs/j"}
    deep: Any = "end"
    for _ in range(90):
        deep = {"c": [deep]}

    assert problems(schema, deep) == []


def test_defaults_are_filled_in_through_references_and_one_that_does_not_fit_is_a_remark() -> None:
    part = {"properties": {"k": {"type": "integer", "default": 3}, "bad": {"type": "integer", "default": "x"}}}
    schema = {"$defs": {"p": part}, "properties": {"o": {"$ref": "#/$defs/p"}, "m": {"default": "EUR"}}}
    complete: Any = {"o": {"k": 1, "bad": 2}, "m": "CHF"}

    assert with_defaults(schema, {"o": {}}) == {"o": {"k": 3}, "m": "EUR"}
    assert with_defaults(schema, complete) is complete
    assert problems_of_property({**schema, "required": ["z"]}, "o", {"k": "x"}) == ["/k: should be integer"]


def test_a_schema_is_compiled_once_for_however_many_calls_and_tools() -> None:
    schema = {"type": "object", "properties": {"only_here": {"type": "integer"}}}
    before = json_schema._compiled_text.cache_info().misses

    tools = [FunctionTool("pay", "", dict(schema), _unused) for _ in range(3)]
    found = [tool.problem_with({"only_here": number}) for tool in tools for number in range(5)]

    assert found == [None] * 15
    assert json_schema._compiled_text.cache_info().misses == before + 1

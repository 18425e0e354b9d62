"""The sentence of a tool about a call: names alone are looked up, and what fails keeps nobody from being asked."""

from __future__ import annotations

from typing import Any

import pytest

from placet import UserError, function_tool
from placet.declare.description import MAX_SUMMARY, summary_of


@pytest.mark.parametrize(
    ("describe", "expected"),
    [
        ("Refund {cents} of {order}", "Refund 4900 of A-7"),
        ("Refund { order }", "Refund A-7"),
        (lambda arguments: f"{arguments['cents'] / 100:.2f} €", "49.00 €"),
        ("two\nlines   in one", "two lines in one"),
        ("{order.__class__}", None),
        ("{missing}", None),
        ("", None),
        (lambda arguments: arguments["no"], None),
        (lambda _arguments: 7, None),
        (None, None),
    ],
)
def test_a_sentence_is_made_of_the_arguments_or_there_is_none(describe: Any, expected: str | None) -> None:
    assert summary_of("refund", describe, {"order": "A-7", "cents": 4900}) == expected


def test_a_sentence_is_short_and_says_where_it_was_cut() -> None:
    found = summary_of("note", lambda _: "x" * 1000, {})

    assert found is not None
    assert (len(found), found[-1]) == (MAX_SUMMARY, "…")


def test_arguments_that_are_no_object_have_no_sentence() -> None:
    assert summary_of("refund", "Refund", "{broken") is None


@pytest.mark.parametrize("wrong", [{"describe": 7}, {"irreversible": "yes"}])
def test_what_is_neither_text_nor_function_is_refused_where_it_is_written(wrong: Any) -> None:
    async def refund(order: str) -> str:
        return order

    with pytest.raises(UserError, match="refund"):
        function_tool(**wrong)(refund)

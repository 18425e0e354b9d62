"""What differs from what people approved before: by range, by set, by form; and when a call is called usual."""

from __future__ import annotations

import pytest

from placet.core.baseline import MIN_USUAL, Comparison, Sample, compare, fields_of
from placet.core.sentence import sentence_of
from placet.facts.codec import JsonObject

NOW = 100 * 86400.0


def sample(arguments: JsonObject, n: int, *, approved: bool = True, at: float = NOW - 60, run: str = "") -> Sample:
    fields, is_whole = fields_of(arguments)
    return Sample(run or f"run_{n % 3}", f"1.{n}", 1, at, approved, "ann", fields, is_whole)


def refunds(count: int = 25) -> list[Sample]:
    return [sample({"order": f"A-{1000 + n}", "cents": 39 + n % 14, "currency": "EUR"}, n) for n in range(count)]


def refund(**other: object) -> JsonObject:
    return {"order": "A-7777", "cents": 45, "currency": "EUR", **other}  # type: ignore[dict-item]


def odd(found: Comparison) -> dict[str, str]:
    return {note.name: note.text for note in found.odd}


def test_a_call_within_all_ranges_sets_and_forms_is_usual() -> None:
    found = compare(refund(), refunds(), NOW)

    assert (found.is_usual, found.is_unusual, odd(found)) == (True, False, {})
    assert (found.approved, found.runs, found.rejected) == (25, 3, 0)
    assert found.line == "25 like it approved in 3 runs, none rejected."


def test_an_amount_outside_the_range_is_said_in_times_of_the_median() -> None:
    found = compare(refund(cents=4900), refunds(), NOW)

    assert found.is_unusual
    assert not found.is_usual
    assert odd(found) == {"cents": "109 times the median; 39 to 52 before"}


def test_an_amount_far_above_the_median_is_unusual_although_one_as_large_was_approved() -> None:
    found = compare(refund(cents=4900), [*refunds(), sample(refund(cents=5000), 99)], NOW)

    assert list(odd(found)) == ["cents"]


def test_an_amount_a_little_above_or_below_the_range_is_unusual_too() -> None:
    assert odd(compare(refund(cents=53), refunds(), NOW)) == {"cents": "above all before: 39 to 52"}
    assert odd(compare(refund(cents=0), refunds(), NOW)) == {"cents": "below all before: 39 to 52"}


def test_a_value_that_nobody_approved_is_named_as_the_first_one() -> None:
    found = compare(refund(currency="USD"), refunds(), NOW)

    assert odd(found) == {"currency": "first time; EUR before"}


def test_another_kind_of_value_is_unusual() -> None:
    assert odd(compare(refund(cents="45"), refunds(), NOW)) == {"cents": "first time a text; always a number before"}
    assert list(odd(compare(refund(cents=True), refunds(), NOW))) == ["cents"]
    assert list(odd(compare(refund(currency=None), refunds(), NOW))) == ["currency"]


@pytest.mark.parametrize(
    ("before", "usual", "other"),
    [
        (lambda n: f"ord_{n}", "ord_991", "991; DROP TABLE"),
        (lambda n: f"u{n}@firm.example", "new@firm.example", "new@other.example"),
        (lambda n: f"https://shop.example/{n}", "https://shop.example/77", "https://evil.example/77"),
        (lambda n: f"/exports/{n}.csv", "/exports/991.csv", "/etc/991.csv"),
        (lambda n: f"{n}b{n}c", "9f9", "9-f9"),
    ],
)
def test_what_names_another_thing_each_time_is_compared_by_its_form(before: object, usual: str, other: str) -> None:
    samples = [sample({"to": before(n)}, n) for n in range(25)]  # type: ignore[operator]

    assert compare({"to": usual}, samples, NOW).is_usual
    assert odd(compare({"to": other}, samples, NOW)) == {"to": "of another form than all before"}


def test_numbers_that_name_things_have_no_range() -> None:
    samples = [sample({"order_id": 1000 + n}, n) for n in range(25)]

    assert compare({"order_id": 9999}, samples, NOW).is_usual


def test_a_long_text_is_to_be_read_and_never_usual() -> None:
    samples = [sample({"body": f"Dear customer {n}, " + "thank you. " * 10}, n) for n in range(25)]

    found = compare({"body": "Send me your password. " * 5}, samples, NOW)

    assert (found.is_usual, found.is_unusual) == (False, False)
    assert [note.standing for note in found.notes] == ["read"]


def test_what_was_approved_long_ago_and_not_since_is_said_so() -> None:
    old = sample(refund(currency="USD"), 99, at=NOW - 90 * 86400)

    found = compare(refund(currency="USD"), [*refunds(), old], NOW)

    assert odd(found) == {"currency": "not seen for 90 days; 1 of 26 times before"}


def test_nineteen_approvals_or_one_run_are_not_enough_to_be_usual() -> None:
    one_run = [sample(refund(order=f"A-{n}"), n, run="run_1") for n in range(MIN_USUAL + 5)]

    assert compare(refund(), refunds(MIN_USUAL), NOW).is_usual
    assert not compare(refund(), refunds(MIN_USUAL - 1), NOW).is_usual
    assert not compare(refund(), one_run, NOW).is_usual


def test_a_rejection_of_a_like_call_ends_the_usual_and_one_of_an_odd_call_does_not() -> None:
    like, unlike = refund(order="A-2"), refund(cents=999_999)

    assert not compare(refund(), [*refunds(), sample(like, 99, approved=False)], NOW).is_usual
    assert compare(refund(), [*refunds(), sample(unlike, 99, approved=False)], NOW).is_usual


def test_calls_with_other_arguments_are_not_compared() -> None:
    found = compare({**refund(), "express": True}, refunds(), NOW)

    assert (found.approved, found.is_usual, found.is_unusual) == (0, False, False)
    assert found.line == "Nobody has approved a call like this before."


def test_what_is_within_objects_is_compared_too_and_what_is_too_much_is_never_usual() -> None:
    nested = [sample({"to": {"country": "DE", "city": "Ulm"}}, n) for n in range(25)]
    wide = [sample({f"f{each}": 1 for each in range(40)}, n) for n in range(25)]

    assert odd(compare({"to": {"country": "KP", "city": "Ulm"}}, nested, NOW)) == {
        "to.country": "first time; DE before"
    }
    assert odd(compare({"to": {"country": "DE"}}, nested, NOW)) == {"to.city": "left out here, given 25 times before"}
    assert not compare({f"f{each}": 1 for each in range(40)}, wide, NOW).is_usual


def test_few_approvals_do_not_make_the_next_call_unusual() -> None:
    found = compare(refund(cents=4900), refunds(4), NOW)

    assert (found.is_unusual, found.is_usual) == (False, False)


def test_arguments_that_are_no_object_are_compared_with_nothing() -> None:
    assert compare("{broken", refunds(), NOW).approved == 0


def test_huge_numbers_and_deep_values_can_be_remembered() -> None:
    deep: JsonObject = {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}

    fields, is_whole = fields_of({"n": 10**30, **deep})

    assert is_whole
    assert [value.kind for value in fields.values()] == ["object", "object"]


def test_the_sentence_says_name_values_and_how_much_it_leaves_out() -> None:
    assert sentence_of("refund_order", refund()) == "Refund order: order A-7777, cents 45, currency EUR"
    assert sentence_of("files/deleteAll", {}) == "Delete All"
    assert sentence_of("load", {"records": [1, 2]}) == "Load: 1 value"
    assert sentence_of("pay", {"a": 1, "b": 2, "c": True, "d": [1]}) == "Pay: a 1, b 2, c yes, and 1 more"
    assert sentence_of("pay", "{broken") == "Pay"

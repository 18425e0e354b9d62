"""What a deck offers: bounds around what people approved, never around what somebody rejected."""

from __future__ import annotations

from placet.core.baseline import Sample, fields_of
from placet.desk.pages.offers import Offer, offer_of
from placet.facts.codec import JsonObject

NOW = 1_800_000_000.0


def sample(number: int, arguments: JsonObject, *, approved: bool = True) -> Sample:
    fields, is_whole = fields_of(arguments)
    return Sample(f"run_{number % 3}", f"1.{number}", 1, NOW - 100 - number, approved, "ana", fields, is_whole)


def usual(count: int = 24) -> list[Sample]:
    given: list[JsonObject] = [{"order": f"{n}-a", "cents": 4000 + n, "currency": "EUR"} for n in range(count)]
    return [sample(n, each) for n, each in enumerate(given)]


def offered(samples: list[Sample], arguments: JsonObject | None = None) -> Offer | None:
    fields, _ = fields_of(arguments or {"order": "7-a", "cents": 4005, "currency": "EUR"})
    return offer_of("Support", "refund", fields, samples, NOW)


def test_the_bounds_are_the_range_and_the_sets_that_were_approved() -> None:
    offer = offered(usual())

    assert offer is not None
    assert offer.matching == {"cents": {"min": 4000, "max": 4023}, "currency": {"one_of": ["EUR"]}}
    assert offer.free == ["order"]
    assert (offer.would_have, offer.of) == (24, 24)


def test_too_few_decisions_or_only_one_run_are_no_reason_for_an_offer() -> None:
    one_run = [sample(3 * n, {"order": f"{n}-a", "cents": 4000, "currency": "EUR"}) for n in range(24)]

    assert offered(usual(19)) is None
    assert offered(one_run) is None


def test_a_rejection_within_the_bounds_is_no_offer_and_one_outside_of_them_is_no_hindrance() -> None:
    inside = sample(90, {"order": "quite another form", "cents": 4010, "currency": "EUR"}, approved=False)
    outside = sample(91, {"order": "1-a", "cents": 400_000, "currency": "EUR"}, approved=False)

    assert offered([inside, *usual()]) is None
    found = offered([outside, *usual()])
    assert found is not None
    assert (found.would_have, found.of) == (24, 25)


def test_a_call_that_the_bounds_would_not_reach_is_offered_nothing() -> None:
    assert offered(usual(), {"order": "7-a", "cents": 9999, "currency": "EUR"}) is None

"""How wide a standing decision is, the bounds that a form begins with, and what it would have decided so far."""

from __future__ import annotations

import pytest

from placet.core.grant_bounds import bounds_for
from placet.core.grant_width import NOBODY, wider_than
from placet.core.policy import Subject
from placet.declare.terms_shape import budget_shape, limits_of, matchers_of, matching_shape
from placet.facts.budgets import GrantTerms
from placet.facts.codec import JsonObject
from placet.policy.backtest import Case, Said
from placet.service.like_calls import trial

APPROVED: list[JsonObject] = [
    {
        "cents": 100 * n,
        "currency": "EUR",
        "order": f"A{n}",
        "path": f"/srv/app/{n}.txt",
        "command": f"git push origin b{n}",
    }
    for n in range(1, 9)
]
NARROW: JsonObject = {
    "cents": {"min": 100, "max": 800},
    "currency": {"one_of": ["EUR"]},
    "path": {"prefix": "/srv/app/"},
    "command": {"shell": ["git push origin *"]},
}


def wide(**changed: JsonObject) -> list[str]:
    return wider_than(APPROVED, None, matchers_of({**NARROW, **changed}))


def test_the_form_begins_with_bounds_that_are_no_wider_than_what_people_approved() -> None:
    found = bounds_for(APPROVED[3], APPROVED)

    assert found == {**NARROW, "order": {"pattern": "[A-Za-z0-9_-]{1,2}"}}
    assert wider_than(APPROVED, None, matchers_of(found)) == []


def test_the_call_at_hand_is_within_the_bounds_also_where_it_is_outside_of_what_was_approved() -> None:
    call: JsonObject = {**APPROVED[0], "cents": 90_000, "command": "git push && rm -rf /"}

    found = bounds_for(call, APPROVED)

    assert found["cents"] == {"min": 100, "max": 90_000}
    assert "shell" not in str(found.get("command"))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"cents": {"min": 100, "max": 801}}, "cents may be 100 to 801; people approved 100 to 800"),
        ({"cents": {"min": 100}}, "cents may be 100 to any"),
        ({"currency": {"one_of": ["EUR", "USD"]}}, '"USD", which nobody has approved'),
        ({"path": {"prefix": "/"}}, None),
        ({"path": {"prefix": "/etc/"}}, "fewer than 5"),
        ({"path": {"prefix": "/srv/app/1"}}, "fewer than 5"),
        ({"command": {"shell": ["git push *"]}}, "fewer than 5"),
        ({"command": {"shell": ["git push origin b1"]}}, None),
    ],
)
def test_what_reaches_further_is_named(changed: dict[str, JsonObject], word: str | None) -> None:
    found = wide(**changed)

    assert found == [] if word is None else len(found) == 1 and word in found[0]


def test_an_argument_that_may_be_anything_is_wide_where_people_approved_a_few_values() -> None:
    without = {name: bound for name, bound in NARROW.items() if name not in ("currency", "cents")}

    found = wider_than(APPROVED, None, matchers_of(without))

    assert [each.split()[0] for each in found] == ["cents", "currency"]
    assert wider_than([], None, []) == [NOBODY]
    assert wider_than(APPROVED, {"currency": "USD"}, matchers_of({"cents": {"max": 800, "min": 100}}))[0].startswith(
        'currency is "USD", which nobody has approved'
    )


def case(number: int, said: Said, cents: int) -> Case:
    subject = Subject(tool="pay", agent="Bank", arguments={"cents": cents})
    return Case(request_id=f"r{number}", run_id="run", subject=subject, said=said, by="ana", at=number * 3600.0)


def test_what_it_would_have_decided_names_what_a_person_said_otherwise_and_what_its_budget_would_not_cover() -> None:
    cases = [case(n, "no" if n == 3 else "yes", 100) for n in range(6, 0, -1)] + [case(0, "yes", 9000)]
    terms = GrantTerms(matchers_of({"cents": {"max": 500}}), list(limits_of({"sum": "cents", "most": 400})))

    found = trial(cases, "approve", None, terms)

    assert (found.tried, found.decided, found.over_budget) == (7, 4, 2)
    assert found.calls == ["r4", "r3", "r2", "r1"]
    assert found.contradicts == ["r3"]
    assert found.line == (
        "Of the last 7 calls like it, it would have decided 4, 1 of them against what a person said; its budget would "
        "not have covered 2."
    )


def test_a_budget_of_a_day_begins_anew_and_a_standing_no_contradicts_approvals() -> None:
    daily = GrantTerms([], list(limits_of({"uses": 1, "every": "day"})))
    cases = [case(24 * n, "yes", 1) for n in range(5, 0, -1)]

    assert trial(cases, "approve", None, daily).decided == 5
    assert trial(cases, "reject", None, None).contradicts == [each.request_id for each in cases]


def test_terms_are_given_back_as_they_were_written() -> None:
    written: JsonObject = {"cents": {"min": 1, "max": 5}, "path": {"prefix": ["/srv/"]}}
    budget: JsonObject = {"sum": "cents", "most": "50", "by": ["who"], "every": "day", "zone": "Europe/Berlin"}

    assert matching_shape(matchers_of(written)) == written
    assert budget_shape(limits_of([budget, {"uses": 3, "within": 60.0}])) == [budget, {"uses": 3, "within": 60.0}]

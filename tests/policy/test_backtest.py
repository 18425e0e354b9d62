"""A policy, tried on what people decided."""

from __future__ import annotations

from placet.policy import parse_policy
from placet.policy.backtest import LET_THROUGH, Backtest, Difference, as_enforced, tried
from tests.policy.decisions import case

SMALL = """
[[rule]]
name = "small"
tool = "refund"
args.cents = { at_most = 500 }
allow = true
relax = true
"""


def test_the_table_counts_what_people_said_by_what_the_policy_says() -> None:
    table = Backtest(parse_policy(SMALL + '[[rule]]\nname = "huge"\nargs.cents = { above = 9000 }\ndeny = true\n'))
    for number, (said, cents) in enumerate(
        [("yes", 100), ("yes", 500), ("yes", 501), ("no", 400), ("edited", 9001), ("answered", 600)]
    ):
        table.take(case(number, said, cents=cents))  # type: ignore[arg-type]  # words of the table

    assert dict(table.counts) == {
        ("yes", "allow"): 2,
        ("yes", "ask"): 1,
        ("no", "allow"): 1,
        ("edited", "deny"): 1,
        ("answered", "ask"): 1,
    }
    assert next(cell for cell, _ in table.cells()) == LET_THROUGH
    assert [each.case.request_id for each in table.calls[LET_THROUGH]] == ["req3"]
    assert (table.spared, table.let_through, table.replayed) == (2, 1, 6)
    assert table.by_rule["small", "yes"] == 2


def test_what_cannot_be_replayed_is_counted_and_not_judged() -> None:
    table = Backtest(parse_policy(SMALL))
    table.take(case(1, cents=5, _cannot="erased"))
    table.take(case(2, cents=5, _cannot="other schema"))

    assert (table.replayed, table.seen) == (0, 2)
    assert dict(table.cannot) == {"erased": 1, "other schema": 1}


def test_an_allow_without_relax_spares_nothing_and_nothing_lifts_what_was_asked_because_something_was_wrong() -> None:
    plain = parse_policy(SMALL.replace("relax = true", ""))

    assert tried(plain, case(1, cents=5)).verdict == "ask"
    assert tried(parse_policy(SMALL), case(1, cents=5, _is_lifted=False)).verdict == "ask"


def test_rules_in_shadow_count_when_they_are_tried_as_if_they_were_enforced() -> None:
    shadow = parse_policy(SMALL + '[rollout]\nsmall = "shadow"\n')

    assert tried(shadow, case(1, cents=5)).verdict == "ask"
    assert tried(as_enforced(shadow), case(1, cents=5)).verdict == "allow"


def test_a_call_that_a_rule_cannot_judge_would_be_asked_about() -> None:
    assert tried(parse_policy(SMALL), case(1, cents="a lot")).verdict == "ask"


def test_two_policies_differ_in_the_calls_that_change_their_verdict() -> None:
    found = Difference(parse_policy(SMALL), parse_policy(SMALL.replace("500", "300")))
    for number, cents in enumerate((100, 300, 301, 500, 501)):
        found.take(case(number, cents=cents))
    found.take(case(9, cents=1, _cannot="erased"))

    assert found.changed == 2
    assert [each.after.case.request_id for each in found.changes["allow", "ask"]] == ["req2", "req3"]
    assert found.counts["ask", "ask"] == 1

"""What a policy costs, in function calls: a thousand rules are no more to ask than the few that are about the tool."""

from __future__ import annotations

from placet.core.policy import Policy, Subject
from placet.policy import parse_policy
from tests.bench.test_counts import FunctionCalls

MATCHING = 5
SUBJECT = Subject(tool="refund", agent="Support", arguments={"cents": 100, "currency": "EUR"})


def policy_of(rules: int) -> Policy:
    """So many rules, of which five are about refunds and match."""
    lines = [
        f'[[rule]]\nname = "r{number}"\ntool = "{"refund" if number < MATCHING else f"tool_{number}"}"\n'
        f"args.cents = {{ at_most = {5000 + number} }}\nif = \"args.currency == 'EUR'\"\nallow = true\nrelax = true\n"
        for number in range(rules)
    ]
    return parse_policy("\n".join(lines))


def calls_of_judging(policy: Policy) -> int:
    policy.judge(SUBJECT)  # the index of this tool is made once
    with FunctionCalls() as calls:
        found = policy.judge(SUBJECT)
    assert len(found.heard) == MATCHING
    return calls.count


def test_a_thousand_rules_cost_what_the_five_that_match_cost() -> None:
    few, many = calls_of_judging(policy_of(MATCHING)), calls_of_judging(policy_of(1000))

    assert many == few
    assert many <= 250  # by hand: 0.07 ms on a shared core

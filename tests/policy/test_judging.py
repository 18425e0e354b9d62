"""What rules say about a call: matchers, expressions, and how several verdicts are combined."""

from __future__ import annotations

from typing import Any

import pytest

from placet.core.policy import Ruling, Subject
from placet.core.policy_asks import united
from placet.core.votes import Electorate, Person, Vote, tally
from placet.facts.requirements import Needs, Requirement
from placet.policy import Policy, parse_policy


def policy(*bodies: str, rollout: str = "") -> Policy:
    text = "".join(f'[[rule]]\nname = "r{n}"\n{body}\n' for n, body in enumerate(bodies))
    return parse_policy(text + rollout)


def judged(found: Policy, **given: Any) -> Ruling:
    return found.judge(Subject(**{"tool": "refund", "agent": "Clerk", "arguments": {}, **given}))


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("args.n = 5", {"n": 5}, {"n": 6}),
        ("args.n = 'x'", {"n": "x"}, {}),
        ("args.n = { at_most = 5 }", {"n": 5}, {"n": 6}),
        ("args.n = { at_least = 5 }", {"n": 5}, {"n": 4}),
        ("args.n = { above = 5 }", {"n": 6}, {"n": 5}),
        ("args.n = { below = 5 }", {"n": 4}, {"n": 5}),
        ("args.n = { at_least = 2, at_most = 5 }", {"n": 3}, {"n": 1}),
        ("args.s = { one_of = ['a', 'b'] }", {"s": "b"}, {"s": "c"}),
        ("args.s = { not_one_of = ['a', 'b'] }", {"s": "c"}, {"s": "a"}),
        ("args.s = { prefix = 'a/' }", {"s": "a/b"}, {"s": "b/a/"}),
        ("args.s = { like = '*.txt' }", {"s": "a.txt"}, {"s": "a.txt.exe"}),
        ("args.s = { pattern = '[a-z]+' }", {"s": "abc"}, {"s": "abc1"}),
        ("args.s = { present = true }", {"s": None}, {}),
        ("args.s = { present = false }", {}, {"s": 1}),
        ('args."o.id" = "7"', {"o": {"id": "7"}}, {"o": {"id": "8"}}),
        ("args.c = { words = ['git', 'status'] }", {"c": "git status -s"}, {"c": "git push"}),
        ("args.c = { words = ['git', 'st*'] }", {"c": "git 'stash'"}, {"c": "git"}),
        ('if = "args.n <= 5 && has(args.m)"', {"n": 1, "m": 1}, {"n": 1}),
        ("if = \"args.s.startsWith('a') || size(args.s) > 5\"", {"s": "ab"}, {"s": "b"}),
        ('if = "args.l.all(x, x > 1)"', {"l": [2, 3]}, {"l": [1]}),
        ("if = \"agent == 'Clerk' && weekday == 'thu' && hour == 0\"", {}, None),
    ],
)
def test_a_rule_matches_what_its_condition_says(condition: str, yes: object, no: object) -> None:
    rules = policy(f"{condition}\nask = true")

    assert judged(rules, arguments=yes).verdict == "ask"
    assert no is None or judged(rules, arguments=no).verdict is None


@pytest.mark.parametrize(
    ("condition", "arguments", "said"),
    [
        ("args.n = { at_most = 5 }", {"n": "4"}, "a number was expected"),
        ("args.n = { at_most = 5 }", {"n": True}, "a number was expected"),
        ("args.c = { words = ['git', 'push'] }", {"c": "git push && rm -rf /"}, "more than one plain command"),
        ("args.c = { words = ['git', 'push'] }", {"c": "git push $(rm x)"}, "more than one plain command"),
        ("args.c = { words = ['git'] }", {"c": "git 'x"}, "quotes do not end"),
        ('if = "args.n <= 5"', {}, "needs 'n'"),
        ('if = "args.n"', {"n": 3}, "gave int, not true or false"),
        ('if = "args.n / 0 == 1"', {"n": 3}, "failed"),
        ('if = "args.n <= 5"', {"n": 2**64}, "too large to be compared exactly"),
        ('if = "args.l.all(x, args.l.all(y, x + y > 0))"', {"l": list(range(2000))}, "too long"),
        ("args.n = 4", None, "not one JSON object"),
        ('if = "true || args.n == 1"', None, "not one JSON object"),
    ],
)
@pytest.mark.parametrize("verdict", ["allow = true\nrelax = true", "deny = true"])
def test_what_cannot_be_judged_asks_a_person_and_says_why(
    condition: str, arguments: object, said: str, verdict: str
) -> None:
    ruling = judged(policy(f"{condition}\n{verdict}"), arguments=arguments)

    assert ruling.verdict == "ask"
    assert said in (ruling.why or "")
    assert "rule «r0» (policy.toml, line 1) cannot be judged" in (ruling.why or "")


def test_an_expression_about_another_schema_asks() -> None:
    rules = policy('if = "args.cent <= 5"\nallow = true\nrelax = true')

    ruling = judged(rules, arguments={"cents": 4}, schema={"properties": {"cents": {"type": "integer"}}})

    assert (ruling.verdict, "no argument 'cent'" in (ruling.why or "")) == ("ask", True)


def test_a_condition_that_clearly_does_not_hold_settles_it_whatever_the_others_are() -> None:
    rules = policy("agent = 'Other'\nargs.n = { at_most = 5 }\ndeny = true")

    assert judged(rules, arguments={"n": "text"}).verdict is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_deny_beats_ask_beats_allow_in_any_order(order: tuple[int, ...]) -> None:
    bodies = ["allow = true\nrelax = true", "ask = true", "deny = 'Never.'"]

    everything = judged(policy(*(bodies[n] for n in order)))
    without_deny = judged(policy(*(bodies[n] for n in order if n != 2)))

    assert (everything.verdict, everything.message) == ("deny", "Never.")
    assert (without_deny.verdict, without_deny.relaxes) == ("ask", False)
    assert len(everything.heard) == 3


def test_all_matching_asks_have_to_be_fulfilled_with_the_earliest_deadline_and_the_highest_assurance() -> None:
    ruling = judged(
        policy(
            "ask = { approve = 2, from = 'finance', within = '4h', at_deadline = 'escalate' }",
            "ask = { assurance = 'sso', within = '1h' }",
        )
    )

    needed = ruling.question.requirement
    assert needed is not None
    assert needed.alternatives == ((*Needs(2, group="finance", assurance="sso").requirement.alternatives[0],),)
    assert (ruling.question.within, ruling.question.at_deadline) == (3600.0, "reject")


FIN, BOARD = Needs(1, group="finance").requirement, Needs(1, group="board").requirement
PEOPLE = {
    "ana": Person("ana", frozenset({"finance"})),
    "bo": Person("bo", frozenset({"board"})),
    "cy": Person("cy", frozenset({"finance", "board"})),
}


def said(needed: Requirement | None, *names: str) -> str | None:
    assert needed is not None
    votes = [Vote("approve", name, assurance="password", at=float(n + 1)) for n, name in enumerate(names)]
    return tally(needed, votes, Electorate(PEOPLE, {})).verdict


def test_one_vote_may_serve_two_asks_and_otherwise_both_are_needed_in_any_order() -> None:
    both = united(FIN, BOARD)

    assert said(both, "ana") is None
    assert said(both, "bo") is None
    assert said(both, "ana", "bo") == said(both, "bo", "ana") == said(both, "cy") == "approve"


def test_asks_of_which_one_includes_the_other_become_the_larger_one() -> None:
    assert united(Needs(1).requirement, Needs(2, group="finance").requirement) == Needs(2, group="finance").requirement
    assert united(None, FIN) == FIN
    assert said(united(Needs(2).requirement, FIN), "bo", "ana") == "approve"
    assert said(united(Needs(2).requirement, FIN), "ana") is None


def test_rules_in_shadow_or_that_warn_are_heard_and_do_not_count() -> None:
    rules = policy("deny = true", "ask = true", rollout='[rollout]\nr0 = "shadow"\nr1 = "warn"\n')

    ruling = judged(rules)

    assert ruling.verdict is None
    assert [(each.name, each.verdict, each.mode) for each in ruling.heard] == [
        ("r0", "deny", "shadow"),
        ("r1", "ask", "warn"),
    ]
    assert ruling.notes == "rule «r1» would have said ask"


def test_the_rollouts_default_is_for_all_rules_that_it_does_not_name() -> None:
    rules = policy("deny = true", "ask = true", rollout='[rollout]\ndefault = "shadow"\nr1 = "enforce"\n')

    assert judged(rules).verdict == "ask"


def test_tools_agents_sources_and_servers_are_matched_by_name_and_pattern() -> None:
    rules = policy("tool = ['delete_*', 'drop']\nagent = 'Sup*'\nserver = 'files'\nsource = 'placet'\ndeny = true")

    def denied(**given: Any) -> bool:
        return judged(rules, **{"tool": "delete_all", "agent": "Support", "server": "files", **given}).verdict == "deny"

    assert denied()
    assert denied(tool="drop")
    assert not denied(tool="dropped")
    assert not denied(agent="Clerk")
    assert not denied(server=None)
    assert not denied(source="langchain")

"""Why a policy says what it says about a call."""

from __future__ import annotations

from placet.core.policy import Subject
from placet.policy import parse_policy
from placet.policy.explaining import explain

TEXT = """
[[rule]]
name = "small"
tool = "refund"
args.cents = { at_most = 500 }
allow = true
relax = true

[[rule]]
name = "abroad"
tool = "refund"
if = "args.country != 'DE'"
ask = { because = "Look at the address." }

[[rule]]
name = "night"
ask = true

[[rule]]
name = "drops"
tool = "drop_*"
deny = "Never."

[rollout]
night = "shadow"
"""


def about(**arguments: object) -> list[tuple[str, str, str | None, bool]]:
    found = explain(parse_policy(TEXT), Subject(tool="refund", agent="Support", arguments=arguments))  # type: ignore[arg-type]
    return [(each.name, each.outcome, each.why, each.decided) for each in found.rules]


def test_every_rule_says_whether_it_matched_and_why_and_which_decided() -> None:
    assert about(cents=900, country="FR") == [
        ("small", "does not match", "not so: cents at_most 500", False),
        ("abroad", "matches", "args.country != 'DE'", True),
        ("night", "matches", "it is about every call of this tool", False),
        ("drops", "another tool", "it is about drop_*", False),
    ]


def test_a_rule_that_cannot_be_judged_says_why_and_is_what_asks() -> None:
    assert about(cents=100)[1] == (
        "abroad",
        "cannot be judged",
        "its expression needs 'country', which is not there",
        True,
    )


def test_the_whole_is_one_sentence() -> None:
    policy = parse_policy(TEXT)

    def why(**arguments: object) -> str:
        return explain(policy, Subject(tool="refund", agent="S", arguments=arguments)).why  # type: ignore[arg-type]

    assert why(cents=9, country="DE").startswith("It runs without a question, by «small» (line 2)")
    assert "Look at the address." in why(cents=9, country="FR")
    assert why(cents=999, country="DE") == "No rule speaks: what the tool itself says counts."
    denied = explain(policy, Subject(tool="drop_all", agent="S", arguments={}))
    assert denied.why == "It is denied by «drops» (line 19): Never."


def test_what_the_library_says_of_a_fault_is_cut_between_words_and_says_so() -> None:
    policy = parse_policy('[[rule]]\nname = "one"\nif = "args.order.id == 3"\nask = true\n')

    found = explain(policy, Subject(tool="refund", agent="Support", arguments={"order": "seven"}))

    why = found.rules[0].why
    assert why is not None
    assert why.startswith("its expression failed: ")
    assert why.endswith("indexing into a …")
    assert found.why.endswith(why)

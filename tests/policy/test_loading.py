"""A policy's text: what loads, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from placet.policy import Policy, PolicyFile, PolicyRefused, Problem, Subject, load_policy, parse_policy
from placet.policy.matchers import TESTS
from placet.policy.shape import ASK_KEYS, RULE_KEYS, SCHEMA, TEST_KEYS

REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer"},
        "order": {"$ref": "#/$defs/order"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {"order": {"type": "object", "properties": {"id": {"type": "string"}}}},
}
TOOLS = {"refund": [REFUND]}


def problems(text: str, tools: dict[str, list[dict[str, Any]]] | None = None) -> list[Problem]:
    with pytest.raises(PolicyRefused) as refused:
        parse_policy(text, tools=tools)
    return [each for each in refused.value.problems if isinstance(each, Problem)]


def rule(body: str, name: str = "one") -> str:
    return f'[[rule]]\nname = "{name}"\n{body}\n'


def verdict(policy: Policy, tool: str = "refund", /, agent: str = "Clerk", **arguments: object) -> str | None:
    return policy.judge(Subject(tool=tool, agent=agent, arguments=arguments)).verdict


def test_a_misspelt_key_is_refused_with_line_column_and_a_suggestion() -> None:
    (found,) = problems('\n[[rule]]\nname = "one"\nallow = true\n  tol = "refund"\n')

    assert (found.line, found.column) == (5, 3)
    assert str(found) == "policy.toml:5:3: 'tol' is unknown here. Did you mean 'tool'?"


def test_a_misspelt_argument_in_an_expression_is_an_error_at_load() -> None:
    (found,) = problems(rule('tool = "refund"\nif = "args.cent <= 5000"\nallow = true'), TOOLS)

    assert found.line == 4
    assert "no argument 'cent'. Did you mean 'cents'?" in str(found)


def test_a_misspelt_argument_deep_inside_is_found_behind_a_reference() -> None:
    (found,) = problems(rule('tool = "refund"\nif = "args.order.idd == \'7\'"\nallow = true'), TOOLS)

    assert "order.idd" in found.message
    assert found.suggestion == "Did you mean 'order.id'?"


def test_a_misspelt_argument_of_a_matcher_is_found() -> None:
    (found,) = problems(rule('tool = "refund"\nargs.cent = { at_most = 5 }\nask = true'), TOOLS)

    assert (found.line, "Did you mean 'cents'?") == (4, found.suggestion)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("allow = true\ndeny = true", "one of allow, deny and ask"),
        ("", "says nothing"),
        ("allow = false", "allow takes true"),
        ("deny = 3", "deny takes true"),
        ("ask = { from = 3 }", "ask:"),
        ("ask = { approve = 0 }", "at least 1"),
        ("ask = { assurance = 'strong' }", "'strong' is not known"),
        ("ask = { within = 'soon' }", "a time is a number"),
        ("ask = { needs = [{ aprove = 2 }] }", "'aprove' is unknown"),
        ("ask = true\nrelax = true", "belongs to an allow"),
        ("ask = true\nargs.cents = { at_mots = 4 }", "no test 'at_mots'"),
        ("ask = true\nargs.cents = { at_most = '4' }", "takes a number"),
        ("ask = true\nargs.cents = { at_most = 4, at_least = 9 }", "no call can match"),
        ("ask = true\nargs.cents = { above = 4, at_most = 4 }", "no call can match"),
        ("ask = true\nargs.x = { one_of = ['a'], not_one_of = ['a'] }", "no call can match"),
        ('ask = true\nif = "false"', "never true"),
        ("ask = true\nargs.x = { pattern = '(a' }", "no regular expression"),
        ("ask = true\nargs.x = { pattern = 'a)|(b' }", "no regular expression"),
        ("ask = true\nargs.x = { pattern = '(a)\\1' }", "bounded time"),
        ("ask = true\nargs.x = { pattern = '(a{1000}){1000}' }", "bounded time"),
        ('ask = true\nif = "args.cents <="', "no expression"),
        ('ask = true\nif = "cents <= 5"', "'cents' is unknown"),
        ('ask = true\nif = "sise(args.x) < 4"', "Did you mean 'size'?"),
        ('ask = true\nif = "args.x.matches(args.y)"', "has to be written out"),
        ("ask = true\nif = \"args.x.matches('(a{1000}){1000}')\"", "bounded time"),
        ("ask = true\ntool = []", "tool takes a text"),
        ("ask = true\nmatch = [3]", "table of arguments"),
    ],
)
def test_what_is_written_wrongly_is_refused_with_its_reason(body: str, said: str) -> None:
    found = problems(rule(body))

    assert said in "\n".join(map(str, found))


def test_text_that_is_no_toml_is_refused_with_its_place() -> None:
    (found,) = problems("[[rule]]\nname = \n")

    assert (found.line, "no TOML" in found.message) == (2, True)


def test_all_faults_are_told_at_once_in_their_order() -> None:
    found = problems(rule("alow = true", "a") + rule("deny = 4", "b") + rule("ask = true", "b"))

    assert [each.line for each in found] == sorted(each.line for each in found)
    assert len(found) == 4


def test_examples_that_the_rule_does_not_fulfil_keep_it_from_loading() -> None:
    body = 'tool = "refund"\nargs.cents = { at_most = 5000 }\nallow = true\n'

    (match,) = problems(rule(body + "match = [{ cents = 5001 }]"))
    (unless,) = problems(rule(body + "unless = [{ cents = 4 }]"))

    assert "example 1 of match does not match, and has to: not so: cents at_most 5000" in match.message
    assert "example 1 of unless matches, and must not" in unless.message


def test_examples_that_are_fulfilled_load() -> None:
    policy = parse_policy(
        rule(
            'tool = "refund"\nagent = "Clerk"\nif = "args.cents <= 5000"\nallow = true\n'
            'match = [{ cents = 1 }]\nunless = [{ cents = 9000 }, { args = { cents = 1 }, agent = "Other" }]'
        )
    )

    assert verdict(policy, cents=5000) == "allow"


def test_the_words_of_the_schema_are_those_that_the_loader_takes() -> None:
    assert set(TEST_KEYS) == {*TESTS, "present"}
    validator = jsonschema_rs.validator_for(SCHEMA)
    good = {"rule": [{"name": "a", "tool": "x", "args": {"n": {"at_most": 4}, "m": 3}, "ask": {"approve": 2}}]}

    assert validator.is_valid(good)
    assert not validator.is_valid({"rule": [{"name": "a", "allow": True, "deny": True}]})
    assert {"if", "match", "unless", "relax"} <= set(RULE_KEYS)
    assert "within" in ASK_KEYS


def test_ten_thousand_rules_load_and_one_more_is_refused() -> None:
    many = "".join(rule(f'tool = "tool-{n}"\nargs.n = {{ at_most = {n} }}\nask = true', f"r{n}") for n in range(10_000))

    policy = parse_policy(many)
    found = problems(many + rule("ask = true", "one more"))

    assert verdict(policy, "tool-7", n=3) == "ask"
    assert verdict(policy, "tool-7", n=8) is None
    assert "10001 rules" in found[0].message


def test_an_allow_without_relax_is_warned_of() -> None:
    policy = parse_policy(rule("allow = true"))

    assert "allows without relax" in policy.warnings[0]


def test_a_rule_about_an_unknown_tool_is_reported_by_name() -> None:
    policy = parse_policy(rule('tool = "refnd"\nask = true'), tools=TOOLS)

    assert policy.warnings == ("policy.toml:1: rule 'one': no tool 'refnd' is known here. Did you mean 'refund'?",)


def test_a_changed_file_is_read_again_and_one_that_does_not_load_leaves_the_old_one_in_force(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(rule("deny = true"))
    source = PolicyFile(file, look_seconds=0)
    first = source.current().version

    file.write_text(rule("dney = true"))
    after_fault, problem = source.current().version, source.problem
    file.unlink()
    after_removal, gone = source.current().version, source.problem
    file.write_text(rule("ask = true", "other"))
    mended = source.current()

    assert after_fault == first == after_removal
    assert problem is not None
    assert "'dney' is unknown" in problem.message
    assert gone is not None
    assert verdict(mended) == "ask"
    assert source.problem is None


def test_the_log_says_in_its_fields_what_is_wrong_first_and_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(rule("deny = true"))
    source = PolicyFile(file, look_seconds=0)

    file.write_text(rule("dney = true\ntol = 'x'"))
    source.look()
    file.unlink()
    source.look()

    broken, gone = (vars(each) for each in caplog.records)
    assert (broken["action"], broken["place"], broken["more_problems"]) == ("policy_refused", "1:1", "2")
    assert broken["problem"] == "a rule says one of allow, deny and ask; this one says nothing."
    assert "cannot be read" in gone["problem"]


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("[[rules]]", "Did you mean [[rule]]?"),
        ("[rolout]", "Did you mean [rollout]?"),
        ("[something.deeper]", "There are: [[rule]], [rollout], [change]."),
    ],
)
def test_an_unknown_table_is_refused_where_it_stands_with_the_one_that_was_meant(header: str, hint: str) -> None:
    name = header.strip("[]").split(".")[0]
    (found,) = problems(f"{rule('deny = true')}\n\n  {header}\nname = 'b'\n")

    assert str(found) == f"policy.toml:6:3: '{name}' is unknown here. {hint}"


def test_a_file_that_does_not_load_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyRefused, match="cannot be read"):
        load_policy(tmp_path / "nothing.toml")


def test_more_than_ten_thousand_rules_are_refused_with_the_limit() -> None:
    with pytest.raises(PolicyRefused, match="there are 10001 rules: 10000 is the limit"):
        parse_policy("".join(f'[[rule]]\nname = "r{n}"\nask = true\n' for n in range(10_001)))

"""Rules that people's own decisions suggest."""

from __future__ import annotations

import random

from placet.policy import parse_policy
from placet.policy.backtest import Backtest
from placet.policy.suggest import suggest
from tests.policy.decisions import case


def test_the_box_around_what_was_approved_is_suggested_with_examples_and_evidence() -> None:
    found = [case(n, cents=100 * (n + 1), currency="EUR", order=f"A{n}") for n in range(10)]
    found.append(case(50, "no", cents=20_000, currency="EUR", order="A9"))

    (made,) = suggest(found)

    assert made.text == (
        '[[rule]]\nname = "usual-refund"\ntool = "refund"\nagent = "Support"\n'
        "args.cents = { at_least = 100, at_most = 1000 }\n"
        'args.currency = "EUR"\n'
        'args.order = { pattern = "[A-Za-z0-9_-]{1,2}" }\n'
        "allow = true\nrelax = true\n"
        'match = [{ cents = 1000, currency = "EUR", order = "A0" }]\n'
        'unless = [{ cents = 20000, currency = "EUR", order = "A9" }]\n'
    )
    assert (made.spares, made.asked, made.people, made.nearest) == (10, 11, ["ana"], "req50")
    assert parse_policy(made.text).rules[0].name == "usual-refund"


def test_a_rejection_inside_of_the_box_cuts_it_and_what_is_left_contradicts_nothing() -> None:
    found = [case(n, cents=100 * (n + 1), kind="goods") for n in range(12)]
    found += [case(20 + n, "no", cents=900 + n, kind="goods") for n in range(3)]

    (made,) = suggest(found)

    assert "at_most = 800" in made.text
    assert made.spares == 8


def test_a_value_that_only_rejected_calls_have_is_kept_out() -> None:
    found = [case(n, cents=100, country="DE" if n % 2 else "AT") for n in range(10)]
    found += [case(20 + n, "no", cents=100, country="XX") for n in range(2)]

    (made,) = suggest(found)

    assert 'args.country = { one_of = ["AT", "DE"] }' in made.text


def test_an_argument_that_only_rejected_calls_have_must_not_be_there() -> None:
    found = [case(n, path="notes") for n in range(8)]
    found.append(case(20, "no", path="notes", force=True))

    (made,) = suggest(found)

    assert "args.force = { present = false }" in made.text


def test_commands_are_put_together_by_their_first_words_and_not_by_their_text() -> None:
    found = [case(n, tool="Bash", command=f"git status --short part{n}") for n in range(8)]
    found += [case(20 + n, tool="Bash", command=f"npm test file{n}") for n in range(6)]
    found += [case(40, "no", tool="Bash", command="git push origin main")]
    found += [case(41, "no", tool="Bash", command="git status && rm -rf /")]

    made = suggest(found)

    assert [each.spares for each in made] == [8, 6]
    assert 'args.command = { words = ["git", "status", "--short"] }' in made[0].text
    assert 'args.command = { words = ["npm", "test"] }' in made[1].text


def test_free_text_is_never_let_through_unread() -> None:
    found = [case(n, tool="mail", to="a@b.de", text=f"Dear {n}, all is well.") for n in range(30)]

    assert suggest(found) == []


def test_what_cannot_be_undone_or_needs_several_people_is_not_suggested() -> None:
    assert suggest([case(n, cents=5, _is_special=True) for n in range(30)]) == []


def test_edited_and_answered_calls_speak_against_a_rule_as_rejected_ones_do() -> None:
    assert suggest([case(n, cents=5) for n in range(9)] + [case(20, "edited", cents=5)]) == []


def test_agents_are_kept_apart_and_what_a_policy_decides_already_is_not_suggested_again() -> None:
    found = [case(n, cents=5, _agent="A") for n in range(9)] + [case(20 + n, cents=5, _agent="B") for n in range(9)]
    known = parse_policy('[[rule]]\nname = "a"\nagent = "A"\nallow = true\nrelax = true\n')

    assert {each.agent for each in suggest(found)} == {"A", "B"}
    assert [each.agent for each in suggest(found, known)] == ["B"]


def test_texts_that_toml_writes_otherwise_come_back_as_they_were() -> None:
    odd = 'a "quoted" \\ line\nand \u007f 🙂'
    found = [case(n, note=odd, order={"id": n, "kind": "x"}) for n in range(9)]

    (made,) = suggest(found)

    rule = parse_policy(made.text)
    assert Backtest(rule).take(found[0]).verdict == "allow"  # type: ignore[union-attr]  # it can be replayed
    assert 'args."order.id"' in made.text


def test_no_suggestion_ever_contradicts_a_rejection_whatever_was_decided() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        found = [
            case(
                n,
                chance.choice(["yes", "yes", "yes", "no", "edited"]),
                tool=chance.choice(["a", "b"]),
                cents=chance.randint(0, 20) * 10,
                kind=chance.choice(["x", "y", "z"]),
                **({"extra": chance.choice([True, False])} if chance.random() < 0.5 else {}),
            )
            for n in range(60)
        ]
        for made in suggest(found, least=2):
            table = Backtest(parse_policy(made.text))
            for each in found:
                table.take(each)
            wrong = [count for (said, verdict), count in table.counts.items() if verdict == "allow" and said != "yes"]
            assert (seed, made.text, wrong) == (seed, made.text, [])
            assert table.spared >= made.spares

"""`placet policy`, on a store in which people decided."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from placet.cli.main import main
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.gate import Gate
from placet.stores.opening import open_store
from placet.testing import ManualClock

SMALL = """
[[rule]]
name = "small"
tool = "refund"
args.cents = { at_most = 500 }
allow = true
relax = true
match = [{ cents = 5 }]
unless = [{ cents = 501 }]
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('decided') / 'placet.db'}"
    asyncio.run(_decide(url))
    return url


async def _decide(url: str) -> None:
    clock = ManualClock()
    opened = open_store(url, clock=clock)
    async with opened, Desk(opened, run=False, clock=clock) as desk, Gate(opened, guest="jobs", clock=clock) as gate:
        for number in range(12):
            said = "reject" if number == 11 else "approve"
            call = await gate.propose("refund", {"cents": 100 * (number + 1)}, session="s", call_id=f"c{number}")
            await desk.decide(call.request_id or "", said, by="ana" if number % 2 else "ben")  # type: ignore[arg-type]
            clock.advance(60)
        edited = await gate.propose("refund", {"cents": 200}, session="s", call_id="e")
        await desk.decide(edited.request_id or "", "edit", by="ana", arguments={"cents": 150})
        gone = await gate.propose("refund", {"cents": 1}, session="gone", call_id="g")
        await desk.decide(gone.request_id or "", "reject", by="ana")
        await gate.close("gone")
        await desk.erase(gone.id.rpartition("_")[0], by="ana")
        await gate.propose("refund", {"cents": 3}, session="s", call_id="waits")


def file(tmp_path: Path, text: str, name: str = "policy.toml") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, object]]]:
    code = main([*arguments, "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_check_says_what_is_wrong_with_line_column_and_a_suggestion_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = file(tmp_path, SMALL.replace("at_most", "at_mots"))

    code, (found,) = answers(capsys, "policy", "check", wrong)
    spoken = main(["policy", "check", wrong])

    assert (code, spoken) == (1, 1)
    assert found["problems"] == [
        {
            "file": "policy.toml",
            "line": 5,
            "column": 16,
            "message": "there is no test 'at_mots'.",
            "suggestion": "Did you mean 'at_most'?",
        }
    ]
    assert "policy.toml:5:16" in capsys.readouterr().err


def test_check_knows_the_tools_of_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, (found,) = answers(
        capsys, "policy", "check", file(tmp_path, SMALL.replace("cents", "cent")), "--agents", "tests.cli.shop:agents"
    )

    assert code == 1
    assert "has no argument 'cent'" in str(found["problems"])


def test_test_counts_examples_and_is_strict_where_one_kind_is_lacking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = file(tmp_path, SMALL.replace("unless = [{ cents = 501 }]", ""))

    assert main(["policy", "test", lacking]) == 0
    assert "1 of 1 rules lack an example" in capsys.readouterr().out
    assert main(["policy", "test", lacking, "--strict"]) == 1
    assert main(["policy", "test", file(tmp_path, SMALL.replace("501", "499"))]) == 1
    assert "example 1 of unless matches, and must not" in capsys.readouterr().err


def test_backtest_says_what_is_spared_and_ends_with_1_when_a_rejection_would_be_let_through(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine, wide = file(tmp_path, SMALL), file(tmp_path, SMALL.replace("500", "5000").replace("501", "5001"), "wide.toml")

    code, found = answers(capsys, "policy", "backtest", fine, "--store", store)
    failed, contradicted = answers(capsys, "policy", "backtest", wide, "--store", store)

    assert (code, failed) == (0, 1)
    last = found[-1]
    assert (last["replayed"], last["spared"], last["let_through"]) == (13, 5, 0)
    assert last["not_replayed"] == {"erased": 1}
    assert [(each["people"], each["policy"], each["count"]) for each in contradicted[:2]] == [
        ("no", "allow", 1),
        ("yes", "allow", 11),
    ]


def test_backtest_shows_rejections_that_would_be_let_through_first(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = file(tmp_path, SMALL.replace("500", "5000").replace("501", "5001"))

    main(["policy", "backtest", wide, "--store", store])
    said = capsys.readouterr().out

    assert said.splitlines()[0].endswith("It would have let through 1 call that people rejected:")
    assert "people said  policy: allow  policy: ask  policy: deny" in said
    assert "It would have spared 11 of 13 questions (85%) and contradicted 1 rejections." in said
    assert "7% cannot be replayed: 1 erased." in said


def test_backtest_looks_back_as_far_as_it_is_told(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = answers(capsys, "policy", "backtest", file(tmp_path, SMALL), "--store", store, "--since", "2100-01-01")

    assert found[-1]["replayed"] == 0


def test_diff_names_the_calls_that_change_and_ends_with_1(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = file(tmp_path, SMALL), file(tmp_path, SMALL.replace("500", "300"), "new.toml")

    code, found = answers(capsys, "policy", "diff", old, new, "--store", store)
    same, _ = answers(capsys, "policy", "diff", old, old, "--store", store)

    assert (code, same) == (1, 0)
    assert (found[0]["before"], found[0]["after"], found[0]["count"]) == ("allow", "ask", 2)
    assert found[-1]["changed"] == 2


def test_explain_shows_every_rule_for_a_call_that_is_written_out_and_for_one_that_waits(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = file(tmp_path, SMALL)

    code, (found,) = answers(capsys, "policy", "explain", 'refund {"cents": 700}', "--policy", policy, "--store", store)
    waiting = json.loads(_output(capsys, "pending", "--store", store, "--json"))
    _, (asked,) = answers(capsys, "policy", "explain", waiting["id"], "--policy", policy, "--store", store)

    assert code == 0
    assert found["verdict"] is None
    assert [(each["outcome"], each["why"]) for each in found["rules"]] == [  # type: ignore[attr-defined]  # a list
        ("does not match", "not so: cents at_most 500")
    ]
    assert asked["verdict"] == "allow"


def test_explain_takes_a_call_in_two_words_and_the_file_in_both_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = file(tmp_path, SMALL, "mine.toml")
    arguments = '{"cents": 70}'
    forms = (
        ["refund " + arguments, policy],
        ["refund " + arguments, "--policy", policy],
        ["refund", arguments, "--policy", policy],
    )

    found = [answers(capsys, "policy", "explain", *words) for words in forms]
    monkeypatch.setenv("PLACET_POLICY", policy)
    by_environment = answers(capsys, "policy", "explain", "refund", arguments)

    assert [(code, each["verdict"]) for code, (each,) in (*found, by_environment)] == [(0, "allow")] * 4
    assert main(["policy", "explain", "refund {}", policy, "--policy", policy]) != 0
    assert "name one file" in capsys.readouterr().err


def test_explain_says_how_a_call_without_arguments_is_written(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = file(tmp_path, SMALL)

    for place in (store, f"sqlite:///{tmp_path / 'nothing.db'}"):
        assert main(["policy", "explain", "drop_users", policy, "--store", place]) != 0
        assert "written with its arguments: 'drop_users {}'" in capsys.readouterr().err.replace("\n", " ")


ASKS = """
[[rule]]
name = "large"
tool = "refund"
ask = { approve = 2, from = ["finanse", "legal"], break_glass = "nobody-at-all" }

[change]
from = "on-call.payments"
"""


def test_check_warns_of_groups_that_nobody_is_in_where_the_people_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, policy = f"sqlite:///{tmp_path / 'people.db'}", file(tmp_path, ASKS)
    asyncio.run(_with_people(url))
    _, (nobody_known,) = answers(capsys, "policy", "check", policy)

    code, (found,) = answers(capsys, "policy", "check", policy, "--store", url)
    monkeypatch.setenv("PLACET_STORE", url)
    _, (by_environment,) = answers(capsys, "policy", "check", policy)

    assert code == 0
    assert nobody_known["warnings"] == []
    assert found["warnings"] == by_environment["warnings"]
    assert found["warnings"] == [
        "policy.toml:2: rule 'large': nobody is in a group 'finanse'. Did you mean 'finance'?",
        "policy.toml:2: rule 'large': nobody is in a group 'nobody-at-all'. There are: finance, legal.",
        "policy.toml: [change]: nobody is in a group 'on-call.payments'. There are: finance, legal.",
    ]


async def _with_people(url: str) -> None:
    async with open_store(url) as opened:
        accounts = Accounts(opened)
        await accounts.add_user("ana", "reviewer", groups=["finance"])
        await accounts.add_user("ben", "reviewer", groups=["legal"])


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_suggest_prints_rules_that_load_and_contradict_nothing(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _output(capsys, "policy", "suggest", "--store", store)
    pasted = file(tmp_path, text)

    code, found = answers(capsys, "policy", "backtest", pasted, "--store", store)

    assert "args.cents = { at_least = 300, at_most = 1100 }" in text
    assert code == 0
    assert found[-1]["let_through"] == 0
    assert found[-1]["spared"] == 9


def test_the_schema_is_one_that_editors_can_use(capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    from placet.core.json_schema import problem_with_schema, problems

    schema = json.loads(_output(capsys, "policy", "schema"))

    assert problem_with_schema(schema) is None
    assert problems(schema, tomllib.loads(SMALL)) == []
    assert problems(schema, tomllib.loads(SMALL.replace("allow", "alow"))) != []

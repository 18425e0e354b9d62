"""The demo without a terminal: options decide, and everything that happened is printed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from placet.cli.main import main
from tests.cli.running import placet


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def refunds(folder: Path) -> dict[str, int]:
    """What the shop really paid: cents by order."""
    receipts = [json.loads(path.read_text()) for path in (folder / ".placet-demo/shop/refunds").glob("*.json")]
    assert len({receipt["order_id"] for receipt in receipts}) == len(receipts), "an order was refunded twice"
    return {receipt["order_id"]: receipt["cents"] for receipt in receipts}


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


# -- processes of their own ------------------------------------------------------------------------------------------


def test_without_options_it_prints_what_waits_and_how_to_decide_and_keeps_the_run(tmp_path: Path) -> None:
    found = placet("demo", "--terminal", cwd=tmp_path)

    assert (found.returncode, found.stderr) == (0, "")
    assert "3 in stock" in found.stdout
    assert "2 calls wait for a decision." in found.stdout
    assert "│ cents     4900 " in found.stdout
    assert "│ cents     24800 " in found.stdout
    assert "Pays 248.00 EUR to the customer of order 1077." in found.stdout
    assert "--decide" in found.stdout
    assert "\x1b" not in found.stdout
    assert refunds(tmp_path) == {}
    assert (tmp_path / ".placet-demo/state.json").exists()


def test_decisions_may_come_one_by_one_from_different_processes(tmp_path: Path) -> None:
    first = placet("demo", "--decide", "2=edit:cents=12400", "--by", "mia", cwd=tmp_path)
    after_first = refunds(tmp_path)
    second = placet("demo", "--decide", "1=reject:ask for a photo, first", "--by", "noah", cwd=tmp_path)

    assert (first.returncode, first.stderr, after_first) == (0, "", {"1077": 12400})
    assert "1 call waits for a decision." in first.stdout
    assert (second.returncode, second.stderr, refunds(tmp_path)) == (0, "", {"1077": 12400})
    assert "edited by mia «cents=12400»" in second.stdout
    assert "rejected by noah «ask for a photo, first»" in second.stdout
    assert "I made no refund. I was told: «ask for a photo, first»" in second.stdout
    assert "Refunded 124.00 EUR for order 1077. A reviewer corrected" in second.stdout


# -- one process, the same command -----------------------------------------------------------------------------------


def test_the_lines_of_the_output_fit_into_80_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--terminal"])
    main(["demo", "--decide", "1=approve,2=edit:cents=12400", "--by", "mia"])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 60
    assert [line for line in lines if len(line) > 80] == []


def test_yes_approves_all_and_the_answer_tells_what_was_paid(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--yes"])

    said = capsys.readouterr().out
    assert (code, refunds(here)) == (0, {"1042": 4900, "1077": 24800})
    assert "Refunded 49.00 EUR for order 1042." in said
    assert "Refunded 248.00 EUR for order 1077." in said
    assert "ended · 2 turns, 3 calls" in said


def test_no_rejects_all_and_the_model_reads_the_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--no", "the till is closed"])

    said = capsys.readouterr().out
    assert (code, refunds(here)) == (0, {})
    assert said.count("I was told: «the till is closed»") == 2


def test_no_without_a_message_lets_the_model_read_that_it_was_not_approved(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--no", "--json"])

    assert (code, refunds(here)) == (0, {})
    assert "«Tool execution was not approved.»" in str(report(capsys)["final_output"])


def test_decide_names_some_calls_and_yes_or_no_the_rest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--decide", "1=respond:Paid by phone, receipt 7", "--yes", "--json"])

    assert (code, refunds(here)) == (0, {"1077": 24800})
    assert "I was told: «Paid by phone, receipt 7»" in str(report(capsys)["final_output"])


def test_an_edit_may_be_a_json_object_beside_other_decisions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--decide", '2=edit:{"cents": 12400, "reason": "One of two, as asked"},1=approve'])

    assert (code, refunds(here)) == (0, {"1042": 4900, "1077": 12400})
    assert "edited by" in capsys.readouterr().out


def test_an_edit_that_the_tool_refuses_is_told_and_decides_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--decide", "1=approve,2=edit:cents=-5"])
    said = capsys.readouterr().err
    main(["demo", "--json"])

    assert code == 1
    assert "cents: Input should be greater than 0" in said
    assert "Nothing was decided." in said
    assert [call["decisions"] for call in report(capsys)["calls"]] == [[], [], []]
    assert refunds(here) == {}


def test_what_the_shop_refuses_is_data_for_the_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--decide", "1=edit:order_id=9999", "--no", "no", "--json"])

    found = report(capsys)
    assert (code, refunds(here)) == (0, {})
    assert found["calls"][0]["outcome"] == "failed"
    assert "there is no order 9999" in found["final_output"]


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ("1=aprove", "cannot be understood"),
        ("1", "is no decision"),
        ("1=edit", "cannot be understood"),
        ("1=approve:yes", "cannot be understood"),
        ("1=approve,1=reject", "decided twice"),
        ("1=edit:cents", "changes nothing"),
        ("1=edit:{nonsense}", "is not JSON"),
    ],
)
def test_decisions_that_cannot_be_meant_are_wrong_usage_and_decide_nothing(
    decisions: str, problem: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--decide", decisions])

    assert code == 2
    assert problem in capsys.readouterr().err
    assert not list(here.glob(".placet-demo/shop/refunds/*"))


def test_a_decision_about_a_call_that_does_not_wait_fails_and_names_those_that_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--decide", "1=approve,3=approve"])

    assert code == 2
    assert "Call 3 does not wait (what waits: 1, 2). Nothing was decided." in capsys.readouterr().err
    assert refunds(here) == {}


def test_the_report_for_programs_tells_what_waits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--json"])

    found = report(capsys)
    assert (code, found["status"], found["final_output"], found["refunds"]) == (0, "waiting", None, [])
    assert [(each["number"], each["tool"], each["arguments"]["cents"]) for each in found["waiting"]] == [
        (1, "refund", 4900),
        (2, "refund", 24800),
    ]
    assert [call["outcome"] for call in found["calls"]] == [None, "finished", None]


def test_the_report_for_programs_tells_who_decided_what(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--json", "--decide", "1=approve,2=edit:cents=12400", "--by", "mia"])

    found = report(capsys)
    kettle, _stock, lamp = found["calls"]
    assert (code, found["status"], found["waiting"], found["turns"]) == (0, "ended", [], 2)
    assert [(each["verdict"], each["by"]) for each in kettle["decisions"]] == [("approve", "mia")]
    assert lamp["decisions"][0]["arguments"] == {"order_id": "1077", "cents": 12400, "reason": "Charged twice"}
    assert lamp["arguments"]["cents"] == 24800
    assert [refund["key"] for refund in found["refunds"]] == [f"{found['run']}:1.0", f"{found['run']}:1.2"]


def test_after_an_end_that_was_shown_the_next_demo_is_a_new_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--yes", "--json"])
    first = report(capsys)
    main(["demo", "--json"])
    second = report(capsys)

    assert first["run"] != second["run"]
    assert second["status"] == "waiting"
    assert refunds(here) == {}
    assert json.loads((here / ".placet-demo/last.json").read_text())["run"] == first["run"]


def test_reset_forgets_the_run_that_waits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--json", "--decide", "1=approve"])
    first = report(capsys)
    main(["demo", "--json", "--reset"])
    second = report(capsys)

    assert first["run"] != second["run"]
    assert [each["number"] for each in second["waiting"]] == [1, 2]
    assert refunds(here) == {}


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b'{"placet": 99}'])
def test_a_state_file_that_cannot_be_read_is_named_with_the_way_out(
    content: bytes, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / ".placet-demo").mkdir()
    (here / ".placet-demo/state.json").write_bytes(content)

    code = main(["demo", "--yes"])

    said = capsys.readouterr().err
    assert code == 1
    assert "state.json" in said
    assert "--reset" in said
    assert (here / ".placet-demo/state.json").read_bytes() == content
    assert main(["demo", "--yes", "--reset"]) == 0


def test_two_demos_do_not_work_on_one_folder_at_a_time(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--json"])
    capsys.readouterr()
    with (here / ".placet-demo/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code = main(["demo", "--yes"])

    assert code == 1
    assert "Another demo is using .placet-demo/" in capsys.readouterr().err
    assert refunds(here) == {}


def test_a_folder_that_cannot_be_made_is_a_plain_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("")

    code = main(["demo", "--terminal", "--dir", "file"])

    assert code == 1
    said = capsys.readouterr().err
    assert "cannot keep anything in file: a file stands in its way" in said
    assert "--dir" in said


def test_the_folder_may_stand_elsewhere_and_hides_itself_from_git(here: Path) -> None:
    code = main(["demo", "--json", "--dir", "some/where"])

    assert code == 0
    assert (here / "some/where/state.json").exists()
    assert (here / "some/where/.gitignore").read_text() == "*\n"
    assert not (here / ".placet-demo").exists()

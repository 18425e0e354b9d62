"""The demo in the terminal: cards and prompts, options without a terminal, and a process that may be killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import main
from tests.cli.running import at_a_terminal, placet

MENU = "[q]uit\n"
STORE = "sqlite:///.placet-demo/placet.db"


def effects(folder: Path) -> list[str]:
    """What was really done, in the order in which it was done."""
    file = folder / ".placet-demo/effects.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line.partition("\t")[2] for line in lines]


KETTLE = "refunded 49.00 EUR for order 1042 by card"
LAMP_TWICE = "refunded 248.00 EUR for order 1077 by card"
LAMP = "refunded 124.00 EUR for order 1077 by card"


# -- without a terminal -----------------------------------------------------------------------------------------------


def test_without_options_it_prints_what_waits_and_how_to_decide_and_keeps_the_run(tmp_path: Path) -> None:
    found = placet("demo", "--terminal", cwd=tmp_path)

    assert (found.returncode, found.stderr) == (0, "")
    assert "Order 1042: kettle, 49.00 EUR" in found.stdout
    assert "2 calls wait for a decision." in found.stdout
    assert "│ cents     4900 " in found.stdout
    assert "│ cents     24800 " in found.stdout
    assert "placet approve 'run_" in found.stdout
    assert "\x1b" not in found.stdout
    assert effects(tmp_path) == []


def test_the_other_commands_decide_about_the_same_run_and_the_demo_goes_on(tmp_path: Path) -> None:
    waiting = json.loads(placet("demo", "--json", cwd=tmp_path).stdout)["pending"]
    first, second = (each["id"] for each in waiting)
    edited = placet("edit", second, "--set", "cents=12400", "--store", STORE, cwd=tmp_path, env={"LOGNAME": "mia"})
    rejected = placet("reject", first, "--message", "ask for a photo, first", "--store", STORE, cwd=tmp_path)

    ended = placet("demo", "--terminal", cwd=tmp_path)

    assert (edited.returncode, rejected.returncode, ended.returncode) == (0, 0, 0)
    assert effects(tmp_path) == [LAMP]
    assert "edited by mia «cents=12400»" in ended.stdout
    assert "ask for a photo, first" in ended.stdout
    assert "ended · 3 turns, 4 calls" in ended.stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def report(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_yes_approves_all_and_every_line_fits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--yes", "--by", "mia"])

    lines = capsys.readouterr().out.splitlines()
    assert (code, sorted(effects(here))) == (0, [LAMP_TWICE, KETTLE])  # both run at once
    assert any("approved by mia" in line for line in lines)
    assert [line for line in lines if len(line) > 80] == []


def test_no_rejects_all_and_the_model_reads_the_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--no", "the till is closed", "--json"])

    found = report(capsys)
    assert (code, effects(here), found["run"]["status"], found["pending"]) == (0, [], "ended", [])
    assert found["run"]["final_output"].count("refund: the till is closed") == 2


def test_no_without_a_message_lets_the_model_read_that_it_was_not_approved(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--json", "--no"])

    assert (code, effects(here)) == (0, [])
    assert "Tool execution was not approved." in report(capsys)["run"]["final_output"]


def test_the_report_for_programs_tells_what_waits_and_what_was_done(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["demo", "--json"])
    waiting = report(capsys)
    main(["demo", "--json", "--yes"])
    ended = report(capsys)
    main(["demo", "--json"])
    anew = report(capsys)

    assert [each["arguments"]["cents"] for each in waiting["pending"]] == [4900, 24800]
    assert (waiting["run"]["status"], waiting["effects"]) == ("waiting", [])
    assert (ended["run"]["id"], ended["run"]["status"]) == (waiting["run"]["id"], "ended")
    assert sorted(ended["effects"]) == [LAMP_TWICE, KETTLE]  # both run at once
    assert (anew["run"]["id"] != ended["run"]["id"], anew["run"]["status"]) == (True, "waiting")


def test_reset_forgets_what_was_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--json", "--yes"])
    main(["demo", "--json"])
    capsys.readouterr()
    main(["demo", "--json", "--reset"])

    assert (report(capsys)["effects"], effects(here)) == ([], [])


def test_a_folder_that_cannot_be_made_is_a_plain_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("")

    code = main(["demo", "--terminal", "--dir", "file"])

    said = capsys.readouterr().err
    assert code == 1
    assert "cannot keep anything in file: a file stands in its way" in said
    assert "--dir" in said


def test_the_folder_may_stand_elsewhere_and_hides_itself_from_git(here: Path) -> None:
    code = main(["demo", "--json", "--dir", "some/where"])

    assert code == 0
    assert (here / "some/where/placet.db").exists()
    assert (here / "some/where/.gitignore").read_text() == "*\n"
    assert not (here / ".placet-demo").exists()


# -- in a terminal ----------------------------------------------------------------------------------------------------


def test_somebody_approves_one_call_and_rejects_the_other_with_a_message(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as demo:
        before = demo.expect(MENU)
        demo.type("a")
        between = demo.expect(MENU)
        demo.type("r")
        demo.expect("What should the model read?")
        demo.type("only one charge")
        code = demo.end()

    assert code == 0
    assert "2 calls wait for a decision." in before
    assert '"1042"' in before
    assert KETTLE in between
    assert '"1077"' in between
    assert effects(tmp_path) == [KETTLE]
    assert "rejected by mia «only one charge»" in demo.screen.replace("\n", " ").replace("│", "")
    assert "\x1b[32m✓" in demo.raw


def test_an_edit_that_does_not_fit_is_told_and_asked_for_again(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("a")
        for cents in ("much", "12400"):
            demo.expect(MENU)
            demo.type("e")
            for name, typed in [("order_id", ""), ("cents", cents), ("reason", ""), ("method", "")]:
                demo.expect(f"  {name} [")
                demo.type(typed)
        code = demo.end()

    assert code == 0
    assert "The edited arguments do not fit tool 'refund':\ncents: " in demo.screen
    assert effects(tmp_path) == [KETTLE, LAMP]


def test_somebody_answers_in_the_tools_place_and_mistypes_before(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("x")
        demo.expect("Type one of the letters in brackets, and Enter.")
        demo.type("s")
        demo.expect("tool's place ›")
        demo.type("Sent a voucher")
        demo.expect(MENU)
        demo.type("r")
        demo.expect("not approved) ›")
        demo.type("")
        code = demo.end()

    assert (code, effects(tmp_path)) == (0, [])
    assert "answered by mia" in demo.screen
    assert "refund: Sent a voucher" in demo.screen
    assert "refund: Tool execution was not approved." in demo.screen


def test_a_demo_that_was_killed_goes_on_where_it_was_and_pays_once(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as killed:
        killed.expect(MENU)
        killed.type("a")
        killed.expect(MENU)
        killed.kill()
    paid_before = effects(tmp_path)
    with at_a_terminal("demo", "--by", "noah", cwd=tmp_path) as demo:
        again = demo.expect(MENU)
        demo.type("a")
        code = demo.end()

    assert paid_before == [KETTLE]
    assert "Going on with run_" in again
    assert "1 call waits for a decision." in again
    assert (code, effects(tmp_path)) == (0, [KETTLE, LAMP_TWICE])
    assert "approved by mia" in demo.screen
    assert "approved by noah" in demo.screen


@pytest.mark.parametrize("sigint", ["SIG_DFL", "SIG_IGN"])
@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"\x04", 0), (b"q\n", 0)], ids=["Ctrl-C", "Ctrl-D", "quit"])
def test_whoever_leaves_is_told_how_to_go_on(key: bytes, code: int, sigint: str, tmp_path: Path) -> None:
    with at_a_terminal("demo", "--terminal", cwd=tmp_path, sigint=sigint) as demo:
        demo.expect(MENU)
        demo.expect("›")
        demo.press_until(key, "The run waits. Run the command again to go on.")
        ended = demo.end()

    assert (ended, effects(tmp_path)) == (code, [])
    assert "Traceback" not in demo.screen


def test_an_edit_may_be_abandoned_or_change_nothing(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--terminal", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("e")
        demo.expect("order_id [")
        demo.press_until(b"\x04", MENU)
        demo.type("e")
        for name in ("order_id", "cents", "reason", "method"):
            demo.expect(f"  {name} [")
            demo.type("")
        demo.expect("Nothing was changed.")
        demo.expect(MENU)
        demo.type("q")
        code = demo.end()

    assert (code, effects(tmp_path)) == (0, [])


def test_no_color_and_a_narrow_window_are_respected(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--yes", cwd=tmp_path, env={"NO_COLOR": "1"}, width=60) as demo:
        code = demo.end()

    assert code == 0
    assert "\x1b" not in demo.raw
    assert [line for line in demo.screen.splitlines() if len(line) > 60 and "run_" not in line] == []

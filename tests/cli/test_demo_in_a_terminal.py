"""The demo as a person meets it: cards and prompts in a terminal, and a process that may be killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placet.cli.main import main
from tests.cli.running import at_a_terminal

MENU = "[q]uit\n"


def refunds(folder: Path) -> dict[str, int]:
    receipts = [json.loads(path.read_text()) for path in (folder / ".placet-demo/shop/refunds").glob("*.json")]
    assert len({receipt["order_id"] for receipt in receipts}) == len(receipts), "an order was refunded twice"
    return {receipt["order_id"]: receipt["cents"] for receipt in receipts}


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
    assert "3 in stock" in before
    assert "2 calls wait for a decision." in before
    assert '"1042"' in before
    assert "Refunded 49.00 EUR for order 1042" in between
    assert '"1077"' in between
    assert refunds(tmp_path) == {"1042": 4900}
    assert "I made no refund. I was told: «only one charge»" in demo.screen
    assert "rejected by mia «only one charge»" in demo.screen
    assert "\x1b[32m✓" in demo.raw


def test_an_edit_that_does_not_fit_is_told_and_asked_for_again(tmp_path: Path) -> None:
    main(["demo", "--dir", str(tmp_path / ".placet-demo"), "--decide", "1=approve"])
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("e")
        for name, typed in [("order_id", ""), ("cents", "much"), ("reason", "")]:
            demo.expect(f"  {name} [")
            demo.type(typed)
        problem = demo.expect("  order_id [")
        demo.type("")
        demo.expect('cents ["much"] ›')
        demo.type("12400")
        demo.expect("reason [")
        demo.type("One of two")
        code = demo.end()

    assert code == 0
    assert "The edited arguments do not fit tool 'refund':\ncents: " in problem
    assert refunds(tmp_path) == {"1042": 4900, "1077": 12400}
    assert 'edited by mia «cents=12400 reason="One of two"»' in demo.screen


def test_somebody_answers_in_the_tools_place_and_mistypes_before(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("x")
        demo.expect("Type one of a, r, e, s, q and Enter.")
        demo.type("s")
        demo.expect("tool's place ›")
        demo.type("Sent a voucher")
        demo.expect(MENU)
        demo.type("r")
        demo.expect("not approved) ›")
        demo.type("")
        code = demo.end()

    assert (code, refunds(tmp_path)) == (0, {})
    assert "answered by mia" in demo.screen
    assert "I was told: «Sent a voucher»" in demo.screen
    assert "I was told: «Tool execution was not approved.»" in demo.screen


def test_a_demo_that_was_killed_while_it_waited_goes_on_where_it_was(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--by", "mia", cwd=tmp_path) as killed:
        killed.expect(MENU)
        killed.type("a")
        killed.expect(MENU)
        killed.kill()
    paid_before = refunds(tmp_path)
    with at_a_terminal("demo", "--by", "noah", cwd=tmp_path) as demo:
        again = demo.expect(MENU)
        demo.type("a")
        code = demo.end()

    assert paid_before == {"1042": 4900}
    assert "Going on with run_" in again
    assert "approved by mia" in again
    assert "1 call waits for a decision." in again
    assert (code, refunds(tmp_path)) == (0, {"1042": 4900, "1077": 24800})
    assert "approved by noah" in demo.screen


@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"\x04", 0), (b"q\n", 0)], ids=["Ctrl-C", "Ctrl-D", "quit"])
def test_whoever_leaves_is_told_how_to_go_on(key: bytes, code: int, tmp_path: Path) -> None:
    with at_a_terminal("demo", "--terminal", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.expect("›")
        demo.press_until(key, "The run waits in .placet-demo/state.json. Run the command again to go on.")
        ended = demo.end()

    assert (ended, refunds(tmp_path)) == (code, {})
    assert "Traceback" not in demo.screen


def test_an_edit_may_be_abandoned(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--terminal", cwd=tmp_path) as demo:
        demo.expect(MENU)
        demo.type("e")
        demo.expect("order_id [")
        demo.press(b"\x04")
        demo.expect("Type one of a, r, e, s, q and Enter.")
        demo.type("q")
        code = demo.end()

    assert (code, refunds(tmp_path)) == (0, {})


def test_no_color_and_a_narrow_window_are_respected(tmp_path: Path) -> None:
    with at_a_terminal("demo", "--yes", cwd=tmp_path, env={"NO_COLOR": "1"}, width=60) as demo:
        code = demo.end()

    assert code == 0
    assert "\x1b" not in demo.raw
    assert [line for line in demo.screen.splitlines() if len(line) > 60 and "run_" not in line] == []

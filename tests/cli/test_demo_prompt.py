"""Asking a person about a card."""

from __future__ import annotations

import io

import pytest

from placet import Agent, ToolApprovalItem
from placet.cli.cards import Card
from placet.cli.demo_prompt import ask_decision
from placet.cli.terminal import Terminal
from placet.cli.verdicts import Approve, Decision, Edit
from placet.testing import function_call


def asked(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object], **more: object
) -> tuple[Decision | None, str]:
    item = ToolApprovalItem(Agent(name="Support"), function_call("refund", arguments), id="run_1:1.0", **more)
    screen = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    return ask_decision(Card(1, item), Terminal(screen), lambda _: None), screen.getvalue()


def test_a_call_in_doubt_can_be_run_again_but_not_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    decision, screen = asked(["e", "a"], monkeypatch, {"cents": 1}, kind="in_doubt")

    assert decision == Approve()
    assert "[a]gain: run it" in screen
    assert "[e]dit" not in screen
    assert "Type one of a, r, s, q and Enter." in screen


def test_an_edit_that_changes_nothing_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decision, screen = asked(["e", "", "q"], monkeypatch, {"cents": 1})

    assert decision is None
    assert "Nothing was changed." in screen


def test_what_is_typed_takes_the_kind_of_what_stood_there(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"text": "7", "number": 7, "list": [1], "nothing": None, "empty": "x"}

    decision, _ = asked(["e", "8", "8", "[2]", "word", '""'], monkeypatch, present)

    assert decision == Edit({"text": "8", "number": 8, "list": [2], "nothing": "word", "empty": ""})


def test_an_answer_of_nothing_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    decision, _ = asked(["s", " ", "q"], monkeypatch, {"cents": 1})

    assert decision is None

"""`placet approvers`, `delegate`, `oncall` and `reviews`, straight on a store, as people run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import placet

STORE = ("--store", "sqlite:///desk.db")
pytestmark = pytest.mark.promise("P24")


def said(folder: Path, *arguments: str) -> str:
    found = placet(*arguments, *STORE, cwd=folder)
    assert found.returncode == 0, found.stderr
    return found.stdout


def refused(folder: Path, *arguments: str) -> str:
    found = placet(*arguments, *STORE, cwd=folder)
    assert found.returncode != 0, found.stdout
    return found.stderr


@pytest.fixture
def office(tmp_path: Path) -> Path:
    for name, group in (("ana", "finance"), ("ben", "finance"), ("dan", "board")):
        said(tmp_path, "users", "add", name, "--group", group)
    return tmp_path


def test_who_has_to_approve_is_set_listed_recorded_and_removed(office: Path) -> None:
    said(office, "oncall", "set", "payments", "ana", "ben", "--since", "2026-01-05T09:00", "--zone", "Europe/Berlin")
    too_many = refused(office, "approvers", "set", "Support:refund", "--approve", "3", "--from", "finance")
    unknown = refused(office, "approvers", "set", "Support:refund", "--on-call", "nights@20m")
    made = said(
        office, "approvers", "set", "Support:refund", "--approve", "2", "--from", "finance", "--then", "1:board",
        "--distinct-from", "starter", "--remind", "10m", "--on-call", "payments@20m", "--escalate", "board@1h",
        "--reject-after", "1d",
    )  # fmt: skip
    listed = said(office, "approvers")
    audit = said(office, "audit", "--json")
    gone = said(office, "approvers", "remove", "Support:refund")
    after = said(office, "approvers")

    assert "not enough people" in too_many
    assert "no such rotation" in unknown
    assert "2 of finance, not the starter · then 1 of board" in made
    assert "reminded after 10 min, who is on call (payments) told after 20 min, board told after 1 h" in made
    assert "rejected after 1 d" in listed
    assert "approvers set" in [json.loads(line)["what"] for line in audit.splitlines()]
    assert "no rule for Support:refund" in gone
    assert "No rules" in after


def test_a_vote_is_delegated_and_ended(office: Path) -> None:
    no_end = refused(office, "delegate", "to", "ben", "--vote-of", "ana")
    made = json.loads(said(office, "delegate", "to", "ben", "--vote-of", "ana", "--for", "5d", "--json"))
    listed = said(office, "delegate")
    ended = said(office, "delegate", "end", made["id"])

    assert "say how long" in no_end
    assert (made["principal"], made["delegate"]) == ("ana", "ben")
    assert "ana" in listed
    assert "is ended" in ended
    assert "Nobody votes for anybody else" in said(office, "delegate")


def test_who_is_on_call_is_shown_with_the_shifts_to_come(office: Path) -> None:
    made = said(office, "oncall", "set", "payments", "ana", "ben", "--since", "2026-01-05T09:00", "--days", "1")
    strange = refused(office, "oncall", "set", "nights", "ana", "--since", "2026-01-05T09:00", "--zone", "Mars/Olympus")
    listed = said(office, "oncall")
    shifts = [json.loads(line)["person"] for line in said(office, "oncall", "show", "payments", "--json").splitlines()]

    assert "On call in payments now: " in made
    assert "no time zone" in strange
    assert "ana, ben" in listed
    assert sorted(shifts[:2]) == ["ana", "ben"]
    assert len(shifts) >= 42


def test_where_nobody_went_ahead_alone_no_review_is_owed(office: Path) -> None:
    assert "No review is owed" in said(office, "reviews")
    assert "right or --wrong" in refused(office, "reviews", "give", "req_1").replace("--right or", "right or")

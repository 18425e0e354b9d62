"""`placet channels` over HTTP with a token, and straight on the store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.test_desk_commands import Place, Run, place, run

__all__ = ["place", "run"]


def listed(run: Run) -> list[Any]:
    return [json.loads(line) for line in run("webhooks", "--json").splitlines()]


def test_a_webhook_is_added_listed_changed_and_removed(run: Run) -> None:
    added = run("channels", "add", "ops", "https://hooks.example.com/x", "--event", "request.waiting", "--tool", "re*")
    table = run("webhooks")
    (made,) = listed(run)
    run("webhooks", "change", "ops", "--all-events", "--tool", "refund", "--arguments")
    (changed,) = listed(run)
    rotated = run("webhooks", "rotate", "ops")
    suspended = run("webhooks", "suspend", made["id"][-6:], "--reason", "holidays")
    resumed = run("webhooks", "resume", "ops", "--from-now")
    letters = run("webhooks", "letters", "ops")
    sent = run("webhooks", "send", "ops")
    removed = run("webhooks", "remove", "ops")

    assert added.startswith("whsec_")
    assert rotated.startswith("whsec_")
    assert added.split()[0] != rotated.split()[0]
    assert "request.waiting; tools re*" in table
    assert (made["events"], made["tools"], made["shows_arguments"]) == (["request.waiting"], ["re*"], False)
    assert (changed["events"], changed["tools"], changed["shows_arguments"]) == ([], ["refund"], True)
    assert "suspended: holidays" in suspended
    assert "told again" in resumed
    assert "Everything got through" in letters
    assert "0 dead letters" in sent
    assert made["id"] in removed
    assert listed(run) == []


def test_slips_are_told(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run("webhooks", "add", "ops", "http://hooks.example.com/", fails=True)
    unknown = run("webhooks", "add", "ops", "https://hooks.example.com/", "--event", "nothing", fails=True)
    missing = run("webhooks", "remove", "hook_x", fails=True)
    both = run("webhooks", "change", "x", "--all-events", "--event", "run.ended", fails=True)
    run("webhooks", "add", "ops", "https://127.0.0.1:1/")
    tested = run("webhooks", "test", "ops", fails=True)

    assert "https://" in plain
    assert "request.waiting" in unknown
    assert "«placet channels» lists them" in missing
    assert "contradict" in both
    assert "private address" in tested

"""Wherever an id is typed, what it begins or ends with is enough; what cannot be taken back is confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from placet.cli.main import main
from placet.cli.naming import NothingNamed, the_one
from placet.core.short_ids import is_part
from tests.cli.running import at_a_terminal
from tests.support.desk_server import in_thread


class Place:
    """Two runs that wait, and a store on which commands are run."""

    def __init__(self, options: list[str], runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        self.options = options
        self.runs = runs
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main([*words, *self.options])
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err

    def json(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*words, "--json")[1].splitlines()]


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.delenv("PLACET_DESK", raising=False)
    with in_thread(tmp_path) as server:
        runs = [server.do(server.running.waiting_run()).id for _ in range(2)]
        yield Place(["--store", f"sqlite:///{tmp_path / 'placet.db'}"], runs, capsys)


@pytest.mark.parametrize(
    ("typed", "is_meant"),
    [("run_01ab", True), ("01ab", True), ("yz", True), ("run_", False), ("", False), ("b", False), ("cd9yz", True)],
)
def test_an_id_is_meant_by_its_beginning_or_end_with_its_kind_or_without(typed: str, is_meant: bool) -> None:
    assert is_part(typed, "run_01abcd9yz") is is_meant


def test_what_fits_several_or_nothing_is_said() -> None:
    ids = ["tok-ab1", "tok-ab2", "tok-ab"]

    assert the_one(ids, "1", "token", ".") == "tok-ab1"
    assert the_one(ids, "tok-ab", "token", ".") == "tok-ab"  # it is that very id, although others begin so
    with pytest.raises(NothingNamed, match="there is no token 'x'"):
        the_one(ids, "x", "token", ".")
    with pytest.raises(click.ClickException, match="'a' fits 3 tokens: write more of it"):
        the_one(ids, "a", "token", ".")


def test_a_run_is_shown_listed_and_resumed_by_the_end_of_its_id(place: Place) -> None:
    first, _ = place.runs

    shown = place.run("show", first[-6:])
    (row, other) = place.json("pending", "--run", first[-6:])
    watched = place.json("watch", "--run", first[-6:], "--after", "0", "--count", "1")
    resumed = place.run("runs", "resume", first[-6:])
    listed = place.run("audit", "list", first[-6:])

    assert shown[1].startswith(f"{first}  Support  waits")
    assert (row["run_id"], other["run_id"]) == (first, first)
    assert [event["run_id"] for event in watched] == [first]
    assert "'" not in resumed[2] or first in resumed[2]
    assert listed[0] == 0


def test_a_request_that_was_decided_is_shown_by_the_end_of_its_id(place: Place) -> None:
    (row,) = [each for each in place.json("pending", "--run", place.runs[0]) if each["arguments"]["order_id"] == "1042"]
    place.run("grants", "hold", "tool", "refund")
    place.run("reject", row["id"])

    (shown,) = place.json("show", row["id"].removeprefix(place.runs[0][:-6]))

    assert (shown["id"], shown["status"]) == (row["id"], "rejected")


def test_the_beginning_of_a_runs_id_means_the_run_and_not_one_of_its_requests(place: Place) -> None:
    first, second = place.runs
    both = 0
    while first[:both] == second[:both]:
        both += 1

    code, told, _ = place.run("show", first[:both])
    _, _, several = place.run("show", first[: both - 1])

    assert (code, told.split()[0]) == (0, first)
    assert "fits 2 runs" in several


@pytest.mark.promise("P22")
@pytest.mark.parametrize("words", [["runs", "cancel"], ["audit", "erase"]])
def test_what_cannot_be_taken_back_needs_the_whole_id_where_nobody_can_be_asked(words: list[str], place: Place) -> None:
    code, _, said = place.run(*words, place.runs[0][-6:])

    assert code == 2
    assert f"is short for {place.runs[0]}, and nobody is here to confirm it: write the whole id." in said
    assert {row["status"] for row in place.json("runs")} == {"waiting"}


@pytest.mark.promise("P22")
@pytest.mark.parametrize(("answer", "status"), [("n", "waiting"), ("y", "ended")])
def test_in_a_terminal_a_run_is_cancelled_by_a_short_id_after_somebody_confirmed_which(
    answer: str, status: str, place: Place, tmp_path: Path
) -> None:
    first, second = place.runs

    with at_a_terminal("runs", "cancel", first[-6:], *place.options, cwd=tmp_path, width=100) as terminal:
        terminal.expect(f"Cancel {first}? [y/N]")
        terminal.type(answer)
        terminal.end()

    found = {row["id"]: row["status"] for row in place.json("runs")}
    assert (found[first], found[second]) == (status, "waiting")


def test_grants_holds_tokens_and_links_are_named_in_short(place: Place) -> None:
    agents = ("--agents", "tests.desk.api.agents_here:agents")
    (grant,) = place.json("grants", "add", "Support", "look_up", "--confirm", "look_up", *agents)
    (made,) = place.json("users", "add", "bob")
    (token,) = place.json("tokens", "add", "ci", "--owner", "bob")
    (link,) = place.json("users", "links")

    done = [
        place.run("grants", "revoke", grant["id"][-6:]),
        place.run("grants", "hold", "run", place.runs[0][-6:]),
        place.run("grants", "lift", "run", place.runs[0][-6:]),
        place.run("tokens", "revoke", token["id"][-6:]),
        place.run("users", "unlink", link["id"][-6:]),
    ]

    assert [code for code, _, _ in done] == [0, 0, 0, 0, 0], done
    assert done[0][1] == f"revoked: {grant['id']}\n"
    assert done[1][1] == f"held: run {place.runs[0]}\n"
    assert (place.json("grants"), place.json("tokens"), place.json("users", "links")) == ([], [], [])
    assert made["user"]["name"] == "bob"

"""Commands over a desk: each of them over HTTP with a token, and straight on the store."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import main
from tests.support.desk_server import in_thread, support_agents

Run = Callable[..., Any]
PATIENCE = 50


class Place:
    """A store with a run that waits with two refunds, and how commands reach it."""

    def __init__(self, options: list[str], run_id: str, who: str) -> None:
        self.options = options
        self.run_id = run_id
        self.who = who


@pytest.fixture(params=["store", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PLACET_TOKEN", raising=False)
    with in_thread(tmp_path) as server:
        run_id = server.do(server.running.waiting_run()).id
        if request.param == "store":
            monkeypatch.setenv("LOGNAME", "ops")
            yield Place(["--store", f"sqlite:///{tmp_path / 'placet.db'}"], run_id, "ops")
            return
        server.do(server.running.web.accounts.add_user("ana", "admin"))
        token, _ = server.do(server.running.web.accounts.add_token("ana", "cli"))
        monkeypatch.setenv("PLACET_TOKEN", token)
        yield Place(["--desk", server.url], run_id, "ana")


@pytest.fixture
def run(place: Place, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*words: str, fails: bool = False) -> str:
        code = main([*words, *place.options])
        shown = capsys.readouterr()
        assert (code != 0) == fails, shown.err
        return shown.err if fails else shown.out

    return run_it


def pending(run: Run) -> list[Any]:
    return [json.loads(line) for line in run("pending", "--json").splitlines()]


def test_what_waits_is_listed_and_shown_whole(place: Place, run: Run) -> None:
    listed = run("pending")
    first, second = pending(run)
    shown = run("show", first["id"])

    assert first["id"] in listed
    assert 'order_id="1042" cents=4900' in listed
    assert (first["tool"], second["arguments"]["cents"]) == ("refund", 24800)
    for words in ('"1042"', "4900", "broken", first["digest"]):
        assert words in shown


def test_each_word_is_said_by_who_is_asking_and_the_run_goes_on(place: Place, run: Run) -> None:
    first, second = pending(run)

    approved = run("approve", first["id"].removeprefix(place.run_id), "--reason", "checked")
    rejected = run("reject", second["id"], "--message", "too much", "--json")

    assert approved.startswith("approved: refund")
    told = json.loads(rejected)
    assert (told["status"], told["decided_by"]) == ("rejected", place.who)
    assert until_ended(run, place.run_id)["final_output"] == "Both orders are settled."
    picture = run("show", place.run_id)
    assert f"approved by {place.who} «checked»" in picture
    assert f"rejected by {place.who} «too much»" in picture
    assert "call_held" in run("show", place.run_id, "--log")


def until_ended(run: Run, run_id: str) -> Any:
    for _ in range(PATIENCE * 10):
        found = json.loads(run("show", run_id, "--json"))
        if found["status"] == "ended":
            return found
        threading.Event().wait(0.1)
    raise AssertionError(f"the run does not end: {found}")


def test_arguments_are_changed_by_options_and_in_an_editor(
    place: Place, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pending(run)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import json, sys\np = sys.argv[1]\nd = json.load(open(p))\nd['cents'] = 5\njson.dump(d, open(p, 'w'))\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")

    run("edit", first["id"], "--set", "cents=1", "--set", "reason=only one")
    run("edit", second["id"])

    until_ended(run, place.run_id)
    shown = run("show", place.run_id)
    assert "refunded 1 for 1042" in shown
    assert "refunded 5 for 1077" in shown


def test_an_edit_that_changes_nothing_or_does_not_fit_decides_nothing(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pending(run)
    monkeypatch.setenv("EDITOR", "true")

    unchanged = run("edit", first["id"], fails=True)
    no_json = run("edit", first["id"], "--arguments", "{", fails=True)

    assert "nothing was changed" in unchanged
    assert "not JSON" in no_json
    if "--desk" in place.options:
        assert "cents" in run("edit", first["id"], "--set", "cents=-1", fails=True)
    assert len(pending(run)) == 2


def test_an_answer_is_given_in_the_tools_place(place: Place, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pending(run)
    monkeypatch.setattr(sys, "stdin", io.StringIO("paid by hand"))

    run("respond", first["id"])
    run("respond", second["id"], "--output", '{"paid": 2}', "--as-json")

    until_ended(run, place.run_id)
    shown = run("show", place.run_id)
    assert "«paid by hand»" in shown
    assert '«{"paid":2}»' in shown


def test_a_contradicting_word_is_refused_and_names_who_decided(place: Place, run: Run) -> None:
    first, second = pending(run)
    run("approve", first["id"])

    again = run("reject", first["id"], second["id"], fails=True)

    assert place.who in again
    assert {row["status"] for row in map(json.loads, [run("show", second["id"], "--json")])} == {"rejected"}


def test_an_id_that_fits_several_or_none_is_refused_in_words(place: Place, run: Run) -> None:
    several = run("approve", place.run_id, fails=True)
    none = run("approve", "nothing", fails=True)

    assert "fits 2 requests" in several
    assert "there is no request 'nothing'" in none
    assert len(pending(run)) == 2


def test_runs_are_listed_cancelled_and_their_events_watched(place: Place, run: Run) -> None:
    listed = run("runs", "--status", "waiting")
    watched = run("watch", "--after", "0", "--count", "3")
    run("runs", "cancel", place.run_id, "--reason", "not needed")

    assert place.run_id in listed
    assert "run_started" in watched
    until_ended(run, place.run_id)
    assert "No runs." in run("runs", "--status", "waiting")


def test_standing_decisions_and_holds_are_made_listed_and_ended(place: Place, run: Run) -> None:
    first, _ = pending(run)
    run("approve", first["id"], "--always", "agent")
    (grant,) = map(json.loads, run("grants", "--json").splitlines())
    run("grants", "hold", "tool", "refund", "--reason", "audit")

    assert (grant["agent"], grant["by"]) == ("Support", place.who)
    assert "audit" in run("grants", "holds")
    run("grants", "lift", "tool", "refund")
    run("grants", "revoke", grant["id"])
    assert "Nothing is held." in run("grants", "holds")
    assert "No standing decisions." in run("grants")


def test_people_and_their_tokens_are_managed(place: Place, run: Run) -> None:
    added = run("users", "add", "bob", "--role", "viewer", "--decides", "Support:refund")
    token = json.loads(run("tokens", "add", "ci", "--owner", "bob", "--json"))
    run("users", "change", "bob", "--role", "reviewer")

    assert "/invitation?key=" in added
    assert token["token"].startswith("placet_")
    assert "Support:refund" in run("users")
    assert token["id"] in run("tokens")
    run("tokens", "revoke", token["id"])
    run("users", "remove", "bob")
    assert "bob" not in run("users")


def test_a_desk_that_is_not_there_or_does_not_know_us_says_what_to_do(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--desk" not in place.options:
        assert main(["pending", "--store", "nonsense://x"]) == 1
        assert "not the URL of a store" in capsys.readouterr().err
        return
    monkeypatch.setenv("PLACET_TOKEN", "placet_wrong")
    unknown = main(["pending", *place.options])
    words = capsys.readouterr().err
    nowhere = main(["pending", "--desk", "http://127.0.0.1:1"])

    assert (unknown, nowhere) == (1, 1)
    assert "PLACET_TOKEN" in words
    assert "placet serve" in capsys.readouterr().err


def test_a_run_is_started_and_driven_here_until_it_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_of_the_test.py").write_text(
        "from tests.support.desk_server import support_agents\nall_of_them = support_agents()\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["--store", f"sqlite:///{tmp_path / 'p.db'}", "--json"]

    unclear = main(["run", "shop_of_the_test:all_of_them", "hello", *words])
    capsys.readouterr()
    code = main(["run", "shop_of_the_test:all_of_them", "hello", "--agent", "Support", *words])
    found = json.loads(capsys.readouterr().out)

    assert (unclear, code) == (2, 0)
    assert found["run"]["status"] == "waiting"
    assert len(found["pending"]) == 2
    assert support_agents()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", shell])

    script = capsys.readouterr().out
    for word in ("approve", "tokens", "reason", "store"):
        assert word in script


def test_what_is_written_beats_what_the_environment_says(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACET_DESK", "http://127.0.0.1:1")
    found = main(["pending", *place.options])
    both = main(["pending", "--desk", "http://127.0.0.1:1", "--store", "sqlite:///x.db"])

    assert (found, both) == (0, 2)
    assert "write one of them" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["http://[bad", "http://127.0.0.1:99999", "ftp://x", "http://"])
def test_an_address_that_is_none_is_wrong_usage(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["pending", "--desk", address])

    assert code == 2
    assert "is not the address of a desk" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["doctor", "tests.desk_api.agents_here:agents"], ["audit", "verify"]])
def test_a_store_that_is_not_there_does_not_look_whole(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*words, "--store", f"sqlite:///{tmp_path / 'nope.db'}"])

    assert code == 2
    assert "there is no store" in capsys.readouterr().err
    assert not (tmp_path / "nope.db").exists()

"""Commands over a desk: each of them over HTTP with a token, and straight on the store."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.cli.commands.grants import moment
from placet.cli.main import main
from tests.support.desk_server import in_thread, support_agents

Run = Callable[..., Any]
PATIENCE = 90


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

    approved = run(
        "approve", first["id"].removeprefix(place.run_id), "--digest", first["digest"], "--reason", "checked"
    )
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


def test_an_edited_request_is_shown_as_it_was_asked_and_as_it_was_decided(place: Place, run: Run) -> None:
    first, _ = pending(run)
    run("edit", first["id"], "--set", "cents=1", "--reason", "too much")

    shown = run("show", first["id"])
    told = json.loads(run("show", first["id"], "--json"))

    asked, _, decided = shown.partition(f"approved with changed arguments by {place.who}")
    assert "4900" in asked
    assert "1  (asked: 4900)" in decided
    assert '"1042"' in decided
    assert "too much" in decided
    assert told["arguments"]["cents"] == 4900
    assert told["decision"]["arguments"] == {**told["arguments"], "cents": 1}
    assert (told["decision"]["decision"], told["decision"]["by"]) == ("edit", place.who)


def test_what_the_model_reads_of_a_decision_stands_under_its_request(place: Place, run: Run) -> None:
    first, second = pending(run)
    run("reject", first["id"], "--message", "Ask the customer first.")
    run("respond", second["id"], "--output", "paid by hand")

    assert "Ask the customer first." in run("show", first["id"])
    assert "paid by hand" in run("show", second["id"])


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
    first, _ = pending(run)
    several = run("show", place.run_id + ":", fails=True)
    none = run("approve", "nothing", "--digest", first["digest"], fails=True)

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
    run("approve", first["id"], "--always", "agent", "--confirm", "refund")
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
        assert main(["pending", "--store", "nonsense://x"]) == 2
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
    assert [each["arguments"]["cents"] for each in found["pending"]] == [4900, 24800]
    assert support_agents()


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


@pytest.mark.parametrize("words", [["doctor", "tests.desk.api.agents_here:agents"], ["audit", "verify"]])
def test_a_store_that_is_not_there_does_not_look_whole(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*words, "--store", f"sqlite:///{tmp_path / 'nope.db'}"])

    assert code == 2
    assert "there is no store" in capsys.readouterr().err
    assert not (tmp_path / "nope.db").exists()


def test_an_approval_is_taken_back_until_its_call_begins(place: Place, run: Run) -> None:
    first, second = pending(run)
    run("grants", "hold", "tool", "refund")
    run("approve", first["id"])

    short = first["id"].removeprefix(place.run_id)
    taken = run("revoke", short, "--digest", first["digest"], "--reason", "wrong customer")
    asked = next(row for row in pending(run) if row["id"] != second["id"])

    assert taken.splitlines() == [
        f'taken back: refund order_id="1042" cents=4900 reason="broken"  {first["id"]}',
        f"asked anew: {asked['id']}",
    ]
    assert asked["why"] == f"its approval was taken back by {place.who}: wrong customer"


def test_what_cannot_be_taken_back_is_said_and_does_not_keep_the_others(place: Place, run: Run) -> None:
    first, second = pending(run)
    run("grants", "hold", "tool", "refund")
    run("approve", second["id"])

    said = run("revoke", "run_x:1.0#1", first["id"], second["id"], fails=True)

    assert "there is no request 'run_x:1.0#1'" in said
    assert "has no decision that could be revoked" in said
    assert json.loads(run("show", second["id"], "--json"))["status"] == "closed"


def test_an_id_that_is_none_does_not_keep_the_others_from_being_decided(place: Place, run: Run) -> None:
    first, _ = pending(run)

    said = run("approve", "run_x:1.0#1", first["id"], fails=True)

    assert "there is no request 'run_x:1.0#1'" in said
    assert json.loads(run("show", first["id"], "--json"))["status"] == "approved"


def test_what_does_not_exist_is_said_in_a_sentence_and_not_waited_for(place: Place, run: Run) -> None:
    watched = run("watch", "--run", "run_nope", fails=True)
    shown = run("show", "nope", fails=True)
    run_shown = run("show", "run_nope", fails=True)

    assert "there is no run 'run_nope'" in watched
    assert "neither a run nor a request 'nope'" in shown
    assert "neither a run nor a request 'run_nope'" in run_shown


@pytest.mark.parametrize(
    ("editor", "words"),
    [("/nonexistent/editor --wait", "No such file"), ("'", "cannot be taken apart")],
)
def test_an_editor_that_is_none_is_wrong_usage_and_decides_nothing(
    editor: str, words: str, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    first, _ = pending(run)
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.delenv("VISUAL", raising=False)

    code = main(["edit", first["id"], *place.options])

    assert code == 2
    assert words in capsys.readouterr().err
    assert len(pending(run)) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--limit", "0"],
        ["pending", "--limit", "-3"],
        ["watch", "--count", "0"],
        ["watch", "--after", "-1"],
        ["tokens", "add", "ci", "--days", "nan"],
        ["grants", "add", "Support", "refund", "--uses", "0"],
        ["serve", "--no-run", "--port", "70000"],
        ["demo", "--port", "-1"],
    ],
)
def test_a_number_that_cannot_be_meant_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(words)

    assert code == 2
    assert f"Invalid value for '{words[-2]}': " in capsys.readouterr().err


@pytest.mark.parametrize("token", ["placet_ü", "two\nlines"])
def test_a_token_that_is_none_is_wrong_usage(
    token: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACET_TOKEN", token)

    code = main(["pending", "--desk", "http://127.0.0.1:1"])

    assert code == 2
    assert "$PLACET_TOKEN holds is no token" in capsys.readouterr().err


def test_a_token_above_its_owner_is_refused_and_a_first_user_who_is_no_admin_is_remarked(
    place: Place, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    added = main(["users", "add", "bob", "--role", "viewer", *place.options])
    remark = capsys.readouterr().err

    refused = run("tokens", "add", "ci", "--owner", "bob", "--role", "admin", fails=True)

    assert added == 0
    if "--store" in place.options:
        assert "placet users change bob --role admin" in remark
    else:
        assert remark == ""
    assert "no token of theirs has the role admin" in refused
    assert "bob" not in run("tokens", "--json")


def test_nothing_is_an_answer_too(place: Place, run: Run) -> None:
    first, _ = pending(run)

    run("respond", first["id"], "--output", "null", "--as-json")

    assert json.loads(run("show", first["id"], "--json"))["decision"]["output"] == "null"


def test_standing_decisions_that_contradict_and_holds_of_what_nobody_knows_are_remarked_on(
    place: Place, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = [] if "--desk" in place.options else ["--agents", "tests.desk.api.agents_here:agents"]
    run("grants", "add", "Support", "refund", "--confirm", "refund", *agents)
    capsys.readouterr()

    made = main(["grants", "add", "Support", "refund", "--reject", *agents, *place.options])
    contradiction = capsys.readouterr().err
    held = main(["grants", "hold", "tool", "refnd", *agents, *place.options])
    unknown = capsys.readouterr().err
    refused = run("grants", "add", "Support", "refnd", *agents, fails=True)
    kind = run("grants", "hold", "shop", "x", fails=True)

    assert (made, held) == (0, 0)
    assert "has such calls approved: the newer one wins" in contradiction
    assert "knows no tool 'refnd'" in unknown
    assert "It has: refund, look_up." in refused
    assert "it is one of agent, run, tool" in kind


@pytest.mark.parametrize(("written", "hours"), [("90min", 1.5), ("8h", 8), ("7 d", 168)])
def test_the_end_of_a_standing_decision_may_be_written_as_a_span(written: str, hours: float) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)

    assert datetime.fromisoformat(moment(written, now)) == now + timedelta(hours=hours)


@pytest.mark.parametrize("written", ["tomorrow", "2030-01-01T00:00:00", "-3h", ""])
def test_an_end_that_is_no_moment_is_wrong_usage(
    written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["grants", "add", "Support", "refund", f"--until={written}", "--store", f"sqlite:///{tmp_path / 'x.db'}"]

    code = main(words)

    assert code == 2
    assert "write a span like 30min, 8h or 7d" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["pending"],
        ["runs"],
        ["show", "x"],
        ["approve", "run_x:1.0#1"],
        ["tokens"],
        ["watch"],
        ["top"],
        ["top", "--json"],
    ],
)
def test_a_slip_in_the_address_of_a_store_does_not_look_like_an_empty_one(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*words, "--store", f"sqlite:///{tmp_path / 'slip.db'}"])

    assert code == 2
    assert "there is no store" in capsys.readouterr().err
    assert not (tmp_path / "slip.db").exists()


def test_a_run_that_is_started_straight_on_a_store_needs_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["runs", "start", "Support", "hi", "--store", f"sqlite:///{tmp_path / 'x.db'}"])

    assert code == 2
    assert "--agents MODULE:NAME" in capsys.readouterr().err


def test_always_before_an_id_is_told_how_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["approve", "--always", "run_1:1.0#1"])

    assert code == 2
    assert "--always=agent behind the ids" in capsys.readouterr().err


def test_an_answer_cannot_be_given_for_always(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["respond", "run_1:1.0#1", "--output", "done by hand", "--always"])

    assert code == 2
    assert "--always" in capsys.readouterr().err


def test_the_picture_of_a_run_that_is_held_back_says_by_whom(place: Place, run: Run) -> None:
    first, second = pending(run)
    run("grants", "hold", "tool", "refund", "--reason", "the bank is down")
    for each in (first, second):
        run("approve", each["id"])

    shown = run("show", place.run_id)

    assert f"held back: tool refund is held by {place.who}: the bank is down" in shown


def test_four_eyes_are_set_shown_and_switched_off_and_obeyed_by_whoever_decides(place: Place, run: Run) -> None:
    nowhere = run("four-eyes")
    demanded = run("four-eyes", "set", "Support:refund", "Payroll*", "--reason", "audit")
    seen = json.loads(run("four-eyes", "--json"))
    started = json.loads(run("runs", "start", "Support", "mine", "--wait", "--json")) if place.who == "ana" else None
    wrong = run("four-eyes", "set", fails=True)
    off = run("four-eyes", "off")

    assert "nowhere" in nowhere
    assert "Support:refund, Payroll*:*" in demanded
    assert seen == {"patterns": [{"agent": "Support", "tool": "refund"}, {"agent": "Payroll*", "tool": "*"}]}
    assert "AGENT[:TOOL]" in wrong
    assert "nowhere" in off
    assert started is None or started["started_by"] == "ana"


def test_a_yes_straight_on_the_store_to_a_run_of_ones_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGNAME", "ops")
    with in_thread(tmp_path) as server:
        server.do(server.running.desk.set_four_eyes([("*", "*")], by="root"))
        run_id = server.do(server.running.waiting_run(by="ops")).id
        first, second = server.do(server.running.desk.pending(run_id=run_id))
        store = ["--store", f"sqlite:///{tmp_path / 'placet.db'}"]
        yes = main(["approve", first.id, *store]), capsys.readouterr().err
        no = main(["reject", second.id, *store]), capsys.readouterr().out
        statuses = [server.do(server.running.desk.request(each.id)).status for each in (first, second)]

    assert yes[0] == 1
    assert "four eyes" in yes[1]
    assert no[0] == 0
    assert statuses == ["pending", "rejected"]


def test_links_are_listed_and_revoked(run: Run) -> None:
    made = json.loads(run("users", "add", "ben", "--role", "viewer", "--json"))
    listed = run("users", "links")
    (link,) = [json.loads(line) for line in run("users", "links", "--json").splitlines()]
    revoked = run("users", "unlink", link["id"])
    again = run("users", "unlink", link["id"], fails=True)

    assert "ben" in listed
    assert link["id"] in made["link"]
    assert link["id"] in revoked
    assert "no link" in again
    assert "No links." in run("users", "links")

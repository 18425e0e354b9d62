"""A short name decides only what was seen: over HTTP and straight on the store, with a terminal and without."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet.cli.naming import short_name
from placet.desk import DeskRequest
from tests.cli.running import AtATerminal, at_a_terminal, placet
from tests.support.desk_server import DeskInThread, in_thread

pytestmark = pytest.mark.promise("P22")

WORDS = [
    ["approve"],
    ["reject", "--message", "no"],
    ["edit", "--set", "cents=1"],
    ["respond", "--output", "paid"],
    ["revoke"],
]


@dataclass(frozen=True)
class Place:
    """A desk whose store has one run that waits with two refunds, and how the command reaches it."""

    server: DeskInThread
    run_id: str
    env: Mapping[str, str]
    who: str
    folder: Path

    def waiting(self) -> list[DeskRequest]:
        found: list[DeskRequest] = self.server.do(self.server.running.desk.pending())
        return found

    def run(self, *words: str) -> tuple[int, str, str]:
        done = placet(*words, cwd=self.folder, env=self.env)
        return done.returncode, done.stdout, done.stderr

    def statuses(self, ids: list[str]) -> list[str]:
        return [self.server.do(self.server.running.desk.request(each)).status for each in ids]


@pytest.fixture(params=["store", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    # Nobody drives: what is decided is not carried out, and can be taken back.
    with in_thread(tmp_path) as server:
        run_id = server.do(server.running.waiting_run()).id
        if request.param == "store":
            env = {"PLACET_STORE": f"sqlite:///{tmp_path / 'placet.db'}", "LOGNAME": "ops"}
            yield Place(server, run_id, env, "ops", tmp_path)
            return
        server.do(server.running.web.accounts.add_user("ana", "admin"))
        token, _ = server.do(server.running.web.accounts.add_token("ana", "cli"))
        yield Place(server, run_id, {"PLACET_DESK": server.url, "PLACET_TOKEN": token}, "ana", tmp_path)


def tail(request: DeskRequest) -> str:
    return request.id.removeprefix(f"{request.run_id}_")


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_where_nobody_can_be_asked_a_short_name_decides_nothing(place: Place, words: list[str]) -> None:
    first, second = place.waiting()
    row = {"id": first.id, "digest": first.digest}
    if words == ["revoke"]:
        place.server.do(place.server.running.desk.hold("tool", "refund"))
        place.server.do(place.server.running.desk.decide(first.id, "approve", by="ana"))
    before = place.statuses([first.id, second.id])

    by_tail = place.run(words[0], tail(first), *words[1:])
    by_name = place.run(words[0], short_name(row), *words[1:])

    for code, out, err in (by_tail, by_name):
        assert (code, out) == (2, "")
        assert "write the whole id" in err
        assert "--digest" in err
    assert place.statuses([first.id, second.id]) == before


def test_a_short_name_with_the_digest_that_was_shown_decides_just_that(place: Place) -> None:
    first, second = place.waiting()

    wrong, _, _ = place.run("approve", tail(first), "--digest", second.digest)
    after_the_wrong_one = place.statuses([first.id, second.id])
    right, told, _ = place.run("reject", tail(first), "--digest", first.digest)

    assert (wrong, after_the_wrong_one) == (1, ["pending", "pending"])
    assert right == 0
    assert first.id in told
    assert place.statuses([first.id, second.id]) == ["rejected", "pending"]


def test_a_call_that_came_to_bear_the_name_after_somebody_looked_is_not_decided(place: Place) -> None:
    first, second = place.waiting()
    for each in (first, second):
        assert place.run("reject", each.id)[0] == 0
    place.server.do(place.server.running.desk.wait(place.run_id, timeout=120))
    later = place.server.do(place.server.running.waiting_run("Archivist"))
    (came,) = place.waiting()
    seen = {"id": first.id, "digest": first.digest}

    by_tail = place.run("approve", tail(came), "--digest", first.digest)
    with at_a_terminal("approve", short_name(seen), cwd=place.folder, env=place.env) as terminal:
        by_name = terminal.end()

    assert came.run_id == later.id
    assert (by_tail[0], by_name) == (1, 1)
    assert "there is no request" in terminal.screen
    assert place.statuses([came.id]) == ["pending"]


@pytest.mark.parametrize("answer", ["", "n", "no", "maybe\nn"])
def test_in_a_terminal_the_card_is_shown_and_nothing_but_yes_decides(place: Place, answer: str) -> None:
    first, second = place.waiting()

    with at_a_terminal("approve", tail(first), cwd=place.folder, env=place.env) as terminal:
        card = terminal.expect("Approve this? [y/N]")
        terminal.type(answer)
        code = terminal.end()

    assert "4900" in card
    assert first.digest in card.replace("\n", "")
    assert code == 1
    assert "nothing was decided" in terminal.screen
    assert place.statuses([first.id, second.id]) == ["pending", "pending"]


def confirmed(place: Place, question: str, *words: str) -> AtATerminal:
    with at_a_terminal(*words, cwd=place.folder, env=place.env, width=100) as terminal:
        terminal.expect(f"{question} [y/N]")
        terminal.type("y")
        assert terminal.end() == 0, terminal.screen
    return terminal


def test_each_word_is_confirmed_and_tells_whole_what_it_decided(place: Place) -> None:
    first, second = place.waiting()

    approved = confirmed(place, "Edit this?", "edit", tail(first), "--set", "cents=1").screen
    answered = confirmed(place, "Answer this?", "respond", tail(second), "--output", "paid by hand").screen

    told = approved.rpartition("approved with changed arguments: refund")[2]
    for words in ('"1042"', "cents", "1", "Support", place.run_id, first.id, place.who):
        assert words in told
    assert "paid by hand" in answered.rpartition("answered in the tool's place: refund")[2]
    assert place.statuses([first.id, second.id]) == ["edited", "answered"]


def test_the_names_that_a_terminal_lists_are_short_and_are_taken_by_the_other_commands(place: Place) -> None:
    first, second = place.waiting()

    with at_a_terminal("pending", cwd=place.folder, env=place.env) as terminal:
        assert terminal.end() == 0
    names = [line.split()[0] for line in terminal.screen.splitlines()[1:3]]
    confirmed(place, "Reject this?", "reject", names[1])

    assert len(terminal.screen.strip().splitlines()) == 3  # a head, and one line for each
    assert [len(name) for name in names] == [8, 8]
    assert place.statuses([first.id, second.id]) == ["pending", "rejected"]


def test_an_empty_name_means_nothing_although_only_one_request_waits(place: Place) -> None:
    first, second = place.waiting()
    assert place.run("reject", first.id)[0] == 0

    piped = place.run("approve", "")
    with at_a_terminal("approve", "", cwd=place.folder, env=place.env) as terminal:
        code = terminal.end()

    assert (piped[0], code) == (1, 1)
    assert place.statuses([second.id]) == ["pending"]


def test_deciding_by_the_whole_id_tells_tool_arguments_run_and_who(place: Place) -> None:
    first, _ = place.waiting()

    code, told, _ = place.run("approve", first.id)

    assert code == 0
    for words in ("refund", '"1042"', "4900", '"broken"', "Support", place.run_id, first.id, place.who):
        assert words in told


def test_what_always_decides_besides_is_said(place: Place) -> None:
    first, second = place.waiting()

    code, _, remark = place.run("reject", first.id, "--always")

    assert code == 0
    assert "it would stand for 1 more call that wait in this run" in remark
    assert second.id in remark


@pytest.mark.parametrize("scope", ["run", "agent"])
def test_in_a_terminal_always_is_asked_about_before_it_decides_more_than_one(place: Place, scope: str) -> None:
    first, second = place.waiting()
    other = place.server.do(place.server.running.waiting_run())
    elsewhere = [each.id for each in place.waiting() if each.run_id == other.id]
    ids = [first.id, second.id, *elsewhere]

    with at_a_terminal("approve", first.id, f"--always={scope}", cwd=place.folder, env=place.env) as terminal:
        told = terminal.expect(f"Decide {2 if scope == 'run' else 4} calls? [y/N]").replace("\n", "")
        before = place.statuses(ids)
        terminal.type("n")
        code = terminal.end()

    assert code == 1
    assert second.id in told
    assert all((each in told) == (scope == "agent") for each in elsewhere)
    assert before == place.statuses(ids) == ["pending"] * 4


def test_a_name_stands_for_one_request_with_one_digest() -> None:
    row: dict[str, Any] = {"id": "run_1:1.0#1", "digest": "a"}

    names = {short_name(row), short_name({**row, "digest": "b"}), short_name({**row, "id": "run_2:1.0#1"})}

    assert len(names) == 3
    assert short_name(json.loads(json.dumps(row))) in names

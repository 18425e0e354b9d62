"""What newcomers type, straight on a store that nobody drives: it works, or a sentence says what is meant."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placet.cli.main import main
from placet.cli.naming import short_name
from placet.cli.output import sentence
from placet.desk import Desk, DeskRequest
from placet.stores.opening import open_store
from tests.cli.running import at_a_terminal
from tests.support.desk_server import support_agents

AGENTS = ["--agents", "tests.desk.api.agents_here:agents"]
Run = Callable[..., tuple[int, str, str]]
"""The exit code, standard output and standard error of a command."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a run that waits with two refunds, and with nobody who drives it."""
    monkeypatch.delenv("PLACET_DESK", raising=False)
    monkeypatch.setenv("LOGNAME", "ops")
    url = f"sqlite:///{tmp_path / 'placet.db'}"

    async def start() -> None:
        async with Desk(url, agents=support_agents()) as desk:
            run = await desk.start("Support", "settle both", by="ana")
            await desk.wait(run.id, until="paused", timeout=120)

    asyncio.run(start())
    return url


@pytest.fixture
def run(store: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--store", store])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run_it


def waiting(store: str) -> list[DeskRequest]:
    async def look() -> list[DeskRequest]:
        async with Desk(store, run=False) as desk:
            return await desk.pending()

    return asyncio.run(look())


@pytest.mark.parametrize("given", [io.StringIO(""), io.StringIO("\n"), None], ids=["empty", "a bare line", "closed"])
def test_an_empty_standard_input_answers_nothing(
    given: io.StringIO | None, store: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = waiting(store)
    monkeypatch.setattr(sys, "stdin", given)

    code, _, words = run("respond", first.id)
    on_purpose, _, _ = run("respond", second.id, "--output", "")

    assert (code, on_purpose) == (2, 0)
    assert 'An empty answer on purpose: --output "".' in words
    assert [each.id for each in waiting(store)] == [first.id]


def test_an_edit_that_nobody_could_check_says_so(store: str, run: Run) -> None:
    first, second = waiting(store)

    blind, told, remark = run("edit", first.id, "--set", "cents=abc")
    checked, _, words = run("edit", second.id, "--set", "cents=abc", *AGENTS)
    fits, _, silence = run("edit", second.id, "--set", "cents=5", *AGENTS)

    assert (blind, checked, fits) == (0, 1, 0)
    assert told.startswith("approved with changed arguments: refund")
    assert remark.startswith("placet: Not checked: ")
    assert "were not checked against tool 'refund'. Straight on a store, give --agents MODULE:NAME." in remark
    assert "cents" in words
    assert "Not checked" not in silence
    assert "nobody seems to drive the runs of this store: «placet serve MODULE:NAME»" in silence


def test_a_guest_is_never_suggested_as_an_admin_and_gets_a_token(run: Run) -> None:
    code, told, warned = run("users", "add", "jobs", "--role", "guest")
    _, table, _ = run("users")
    _, _, of_person = run("users", "add", "eva", "--role", "viewer")

    assert code == 0
    assert "«placet users add NAME --role admin»" in warned
    assert "placet tokens add NAME --owner jobs" in told
    assert "invitation" not in told
    assert "–" in table
    assert "*:*" not in table
    assert "«placet users change eva --role admin»" in of_person


@pytest.mark.parametrize(("text", "whole"), [("Above 10.", "Above 10."), ("Above 10", "Above 10."), ("Why?", "Why?")])
def test_a_sentence_ends_once(text: str, whole: str) -> None:
    assert sentence(text) == whole


@pytest.mark.promise("P15")
def test_a_run_is_cancelled_where_nobody_drives_and_nobody_has_its_code(store: str, run: Run) -> None:
    run_id = waiting(store)[0].run_id

    _, told, _ = run("runs", "cancel", run_id, "--reason", "not needed")
    _, ended, _ = run("runs")
    _, shown, _ = run("runs", "--json")

    assert told.splitlines() == [f"{run_id}  ended", "cancelled by ops: not needed"]
    assert ended.splitlines()[1].endswith("  cancelled by ops: not needed")
    assert json.loads(shown)["cancelled"]["reason"] == "not needed"
    assert waiting(store) == []


def test_a_cancellation_of_a_run_that_somebody_drives_says_when_it_takes_effect(store: str, run: Run) -> None:
    run_id = waiting(store)[0].run_id

    with driven_by_another(store, run_id):
        _, told, _ = run("runs", "cancel", run_id, "--reason", "not needed")
        _, listed, _ = run("runs")
    _, again, _ = run("runs", "cancel", run_id)

    assert "Somebody drives the run: it ends when the calls that run have ended." in told
    assert "cancelled by ops: not needed; ends when the calls that run have ended" in listed
    assert again.splitlines() == [f"{run_id}  ended", "cancelled by ops: not needed"]


@contextlib.contextmanager
def driven_by_another(store: str, run_id: str) -> Iterator[None]:
    """Somebody else has the right to drive the run meanwhile."""
    opened, driver = open_store(store), type("Driver", (), {})()
    loop = asyncio.new_event_loop()
    try:
        lease = loop.run_until_complete(opened.lease(run_id, driver))
        yield
        loop.run_until_complete(opened.release(lease, 10**9))
    finally:
        loop.run_until_complete(opened.close())
        loop.close()


def test_options_may_stand_between_the_other_words(store: str, run: Run) -> None:
    in_between = run("run", "tests.desk.api.agents_here:agents", "--agent", "Support", "settle both", "--json")
    made = run("grants", "add", "--reject", "Support", *AGENTS, "refund")
    first = run("grants", "--reason", "month's end", "hold", "tool", "refund")
    unknown = run("grants", "add", "--rejct", "Support", "refund")

    assert [code for code, _, _ in (in_between, made, first, unknown)] == [0, 0, 0, 2]
    assert json.loads(in_between[1])["run"]["status"] == "waiting"
    assert run("grants")[1].splitlines()[1].split()[1:4] == ["reject", "Support", "refund"]
    assert "month's end" in run("grants", "holds")[1]
    assert "No such option '--rejct'. Did you mean '--reject'?" in unknown[2]


def test_in_a_pipe_every_row_is_one_line_whatever_the_environment_says(
    store: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    _, listed, _ = run("pending")

    first, second = waiting(store)
    head, *rows = listed.splitlines()
    assert head.startswith("request")
    assert [row.split()[0] for row in rows] == [first.id, second.id]
    assert rows[1].endswith('order_id="1077" cents=24800 reason="charged twice"')


def test_a_narrow_terminal_keeps_ids_whole(store: str, tmp_path: Path) -> None:
    first, second = waiting(store)

    with at_a_terminal("pending", "--store", store, cwd=tmp_path, env={"NO_COLOR": "1"}, width=40) as person:
        code = person.end()

    assert code == 0
    names = {short_name({"id": each.id, "digest": each.digest}) for each in (first, second)}
    assert names <= set(person.screen.split())


def test_whoever_waits_for_a_run_is_told_which_and_who_drives_it(store: str) -> None:
    words = ["runs", "start", "Support", "again", "--wait", *AGENTS, "--store", store]

    with at_a_terminal(*words, cwd=Path.cwd(), width=400) as person:
        said = person.expect("Ctrl-C ends the waiting, not the run.")
        person.press(b"\x03")
        code = person.end()

    assert code == 130
    assert re.search(r"(run_\w+) is started.* «placet run MODULE:NAME --go-on \1»", said)


def test_heads_of_which_there_are_none_were_not_compared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# kept in May\n")
    (tmp_path / "photo.txt").write_bytes(b"\xff\xd8")

    empty = run("audit", "verify", "--head", str(tmp_path / "empty.txt"))
    photo = run("audit", "verify", "--head", str(tmp_path / "photo.txt"))
    unnamed = run("audit", "verify", "--head", "")

    assert [code for code, _, _ in (empty, photo, unnamed)] == [2, 2, 2]
    assert "nothing was compared" in empty[2]
    assert "checked" not in empty[1]


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_the_id_of_a_question_that_was_asked_anew_names_the_new_one(word: str, store: str, run: Run) -> None:
    first, second = waiting(store)
    run("approve", first.id)
    run("revoke", first.id)
    anew = next(each for each in waiting(store) if each.id != second.id)

    code, _, words = run(word, first.id)
    decided, _, _ = run(word, anew.id.removeprefix(anew.run_id), "--digest", anew.digest)

    assert (code, decided) == (1, 0)
    assert f"asked about anew under …{anew.id.removeprefix(anew.run_id)}." in words


@pytest.mark.parametrize(
    "words", [["pending"], ["runs"], ["audit", "verify"], ["doctor", "tests.desk.api.agents_here:agents"]]
)
@pytest.mark.parametrize("how", ["option", "environment"])
def test_what_is_no_address_of_a_store_is_wrong_usage(
    words: list[str], how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACET_STORE", "foo")

    code = main(words if how == "environment" else [*words, "--store", "foo"])

    assert code == 2
    assert "'foo' is not the URL of a store" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["hold", "lift"])
def test_a_kind_that_cannot_be_held_is_wrong_usage(action: str, run: Run) -> None:
    code, _, words = run("grants", action, "tol", "pay")

    assert code == 2
    assert words == "placet: nothing of kind 'tol' can be held: it is one of agent, run, tool.\n"


def test_an_erased_run_says_when_it_was_erased_and_that_its_effects_are_over(store: str, run: Run) -> None:
    first, second = waiting(store)
    run("approve", first.id, second.id)
    run("run", AGENTS[1], "--go-on", first.run_id)
    asyncio.run(erase(store, first.run_id, at=datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)))

    _, picture, _ = run("show", first.run_id)
    _, listed, _ = run("runs")
    _, told, _ = run("audit", "list", first.run_id)

    assert ":08:09" in next(line for line in picture.splitlines() if "was erased" in line)
    assert listed.splitlines()[1].endswith("  erased")
    begun, over = ([line for line in told.splitlines() if word in line] for word in ("effect begun", "effect over"))
    assert len(begun) == len(over) == 3
    assert all("how and when is erased" in line for line in over)


async def erase(store: str, run_id: str, at: datetime) -> None:
    async with Desk(store, run=False) as desk:
        await desk.store.erase(run_id, by="dpo", at=at.timestamp())

"""Lists and looks: whole or saying what is left out, over a desk and on a store, and never making what is not there."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from placet import Agent
from placet.cli.naming import short_name
from placet.facts.errors import StoreError
from placet.stores.opening import open_store
from tests.cli.running import at_a_terminal, environment, in_a_terminal, placet
from tests.desk.scenes import Witness, refunds, support
from tests.support.desk_server import in_thread
from tests.support.postgres import PostgresServer

MANY = 60


@pytest.fixture(params=["store", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """A desk with a run that waits with sixty calls, as the environment names it."""
    agents: list[Agent] = [support(Witness(tmp_path / "witness"), refunds(*range(MANY)))]
    with in_thread(tmp_path, agents=agents) as server:
        server.do(server.running.waiting_run())
        if request.param == "store":
            yield {"PLACET_STORE": f"sqlite:///{tmp_path / 'placet.db'}"}
            return
        server.do(server.running.web.accounts.add_user("ana", "admin"))
        token, _ = server.do(server.running.web.accounts.add_token("ana", "cli"))
        yield {"PLACET_DESK": server.url, "PLACET_TOKEN": token}


@pytest.mark.promise("P16")
def test_programs_get_all_and_people_are_told_how_many_more_there_are(place: Mapping[str, str], tmp_path: Path) -> None:
    piped = placet("pending", cwd=tmp_path, env=place)
    whole = placet("pending", "--json", cwd=tmp_path, env=place)
    some = placet("pending", "--json", "--limit", "50", cwd=tmp_path, env=place)
    cursor = some.stderr.split("--cursor ")[1].split()[0]
    rest = placet("pending", "--json", "--cursor", cursor, cwd=tmp_path, env=place)
    with at_a_terminal("pending", cwd=tmp_path, env=place, width=100) as terminal:
        terminal.end()
    with at_a_terminal("pending", "--all", cwd=tmp_path, env=place, width=100) as at_once:
        at_once.end()

    ids = [json.loads(line)["id"] for line in whole.stdout.splitlines()]
    assert len(set(ids)) == MANY
    assert len(piped.stdout.splitlines()) == MANY + 1
    assert "10 more: --all shows all, --cursor" in some.stderr
    assert [json.loads(line)["id"] for line in (some.stdout + rest.stdout).splitlines()] == ids
    assert terminal.screen.count(" order=") == 50
    assert "10 more: --all shows all" in terminal.screen
    assert at_once.screen.count(" order=") == MANY


def test_top_looks_where_the_environment_or_the_option_says(place: Mapping[str, str], tmp_path: Path) -> None:
    by_environment = placet("top", "--once", "--json", cwd=tmp_path, env=place)
    if "PLACET_DESK" in place:
        options = ["--desk", place["PLACET_DESK"]]
        env = {"PLACET_TOKEN": place["PLACET_TOKEN"]}
    else:
        options, env = ["--store", place["PLACET_STORE"]], {}
    by_option = placet("top", "--once", *options, cwd=tmp_path, env=env)

    numbers = json.loads(by_environment.stdout)
    assert (numbers["store"]["pending"], numbers["store"]["waiting"]) == (MANY, 1)
    assert "60 wait; the oldest for" in by_option.stdout


# -- completion, in the shells themselves -----------------------------------------------------------------------------


def with_placet(place: Mapping[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds the installed command."""
    found = environment(place)
    return {**found, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{found['PATH']}"}


def in_a_shell(words: list[str], place: Mapping[str, str], tmp_path: Path) -> list[str]:
    done = subprocess.run(  # noqa: S603  # our own script
        words,
        cwd=tmp_path,
        env=with_placet(place, tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def names_of(place: Mapping[str, str], tmp_path: Path) -> list[str]:
    """The short names of what waits, as far as they are offered."""
    rows = [
        json.loads(line)
        for line in placet("pending", "--json", "--limit", "50", cwd=tmp_path, env=place).stdout.splitlines()
    ]
    return [short_name(row) for row in rows]


def test_bash_completes_commands_options_and_names(place: Mapping[str, str], tmp_path: Path) -> None:
    script = placet("completion", "bash", cwd=tmp_path).stdout
    names = names_of(place, tmp_path)
    complete = """
complete_it() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _placet_completion placet
  printf '%s\\n' "${COMPREPLY[@]}"
}
complete_it placet pen; complete_it placet runs ""; complete_it placet runs --sta; complete_it placet approve ""
"""

    offered = in_a_shell(["/bin/bash", "-c", script + complete], place, tmp_path)

    assert offered == ["pending", "list", "start", "cancel", "resume", "--status", *names]


def test_bash_completes_nothing_where_nothing_can_be_asked(tmp_path: Path) -> None:
    env = {"COMP_WORDS": "placet approve ", "COMP_CWORD": "2", "_PLACET_COMPLETE": "bash_complete"}

    nowhere = placet("approve", cwd=tmp_path, env={**env, "PLACET_STORE": "sqlite:///nope.db"})

    assert (nowhere.returncode, nowhere.stdout.strip(), nowhere.stderr) == (0, "", "")


def test_fish_completes_names_with_what_they_stand_for(place: Mapping[str, str], tmp_path: Path) -> None:
    script = placet("completion", "fish", cwd=tmp_path).stdout
    names = names_of(place, tmp_path)
    program = f'{script}\ncomplete -C "placet approve "; complete -C "placet pen"; complete -C "placet grants h"'

    offered = in_a_shell(["fish", "--no-config", "-c", program], place, tmp_path)

    assert f"{names[0]}\trefund order=0" in offered
    assert set(names) <= {line.partition("\t")[0] for line in offered}
    assert {"pending", "hold", "holds"} <= {line.partition("\t")[0] for line in offered}


def test_zsh_completes_names(place: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "_placet").write_text(placet("completion", "zsh", cwd=tmp_path).stdout, encoding="utf-8")
    names = names_of(place, tmp_path)
    set_up = [
        f"fpath=('{tmp_path}' $fpath); LISTMAX=100000",
        f"autoload -Uz compinit; compinit -u -d '{tmp_path / 'dump'}'; print re''ady",
    ]
    zsh = shutil.which("zsh")
    assert zsh is not None, "dev.py test installs it"
    with in_a_terminal([zsh, "-f", "-i"], cwd=tmp_path, env=with_placet(place, tmp_path), size=(500, 200)) as terminal:
        for line in set_up:
            terminal.type(line)
        terminal.expect("ready")
        terminal.press(b"placet approve \t")
        for name in names:
            terminal.expect(name)

    assert names


@pytest.mark.parametrize(
    "words",
    [
        ["pending"],
        ["runs"],
        ["show", "x"],
        ["watch", "--count", "1"],
        ["users"],
        ["tokens"],
        ["grants"],
        ["grants", "holds"],
        ["top", "--once"],
        ["audit", "verify"],
        ["audit", "list"],
        ["doctor", "tests.desk.api.agents_here:agents"],
        ["run", "tests.desk.api.agents_here:agents", "--go-on", "run_x"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_command_that_only_looks_makes_no_store(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    missing = placet(*words, "--store", f"sqlite:///{tmp_path / 'missing.db'}", cwd=Path.cwd())
    empty = placet(*words, "--store", f"sqlite:///{tmp_path / 'empty.db'}", cwd=Path.cwd())

    assert missing.returncode == 2
    assert empty.returncode in (1, 2)
    assert "there is no" in missing.stderr
    assert "no store" in empty.stderr
    assert [(file.name, file.stat().st_size) for file in tmp_path.iterdir()] == [("empty.db", 0)]


async def test_whoever_only_looks_into_a_database_makes_nothing_there(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE mine (x)").connection.close()

    for address in (url, f"sqlite:///{other}"):
        store = open_store(address, create=False)
        with pytest.raises(StoreError, match="holds no store"):
            await store.latest_sequence()
        await store.close()
    with sqlite3.connect(other) as db:
        assert [name for (name,) in db.execute("SELECT name FROM sqlite_master")] == ["mine"]


def test_a_link_for_a_user_who_is_added_on_a_store_names_no_host(tmp_path: Path) -> None:
    store = ["--store", f"sqlite:///{tmp_path / 'placet.db'}"]

    added = placet("users", "add", "bob", "--json", *store, cwd=tmp_path)

    assert json.loads(added.stdout)["link"].startswith("/invitation?key=")


def test_an_answer_that_stands_where_it_does_not_belong_is_told_where_it_does(tmp_path: Path) -> None:
    done = placet("respond", "run_x:1.0#1", "paid by", "hand", cwd=tmp_path)

    assert done.returncode == 2
    assert "placet respond run_x:1.0#1 --output 'paid by hand'" in done.stderr


@pytest.mark.parametrize("sigint", ["SIG_DFL", "SIG_IGN"])
def test_watching_ends_by_ctrl_c_however_the_command_was_started(
    sigint: str, place: Mapping[str, str], tmp_path: Path
) -> None:
    with at_a_terminal("watch", "--after", "0", cwd=tmp_path, env=place, sigint=sigint) as terminal:
        terminal.expect("run_started")
        terminal.press_until(b"\x03", "placet: interrupted.")
        code = terminal.end()

    assert code == 130
    assert "Traceback" not in terminal.screen


@pytest.mark.parametrize(
    ("typed", "meant"), [("aprove", "approve"), ("pendng", "pending"), ("deny", "reject"), ("LIST", "pending")]
)
def test_a_command_that_does_not_exist_is_answered_with_one_that_does(typed: str, meant: str, tmp_path: Path) -> None:
    done = placet(typed, cwd=tmp_path)

    assert done.returncode == 2
    assert f"did you mean «{meant}»" in done.stderr


def test_a_desk_without_agents_says_what_to_add(tmp_path: Path) -> None:
    with in_thread(tmp_path, agents=[], run=False) as server:
        server.do(server.running.web.accounts.add_user("ana", "admin"))
        token, _ = server.do(server.running.web.accounts.add_token("ana", "cli"))
        env = {"PLACET_DESK": server.url, "PLACET_TOKEN": token}
        done = placet("runs", "start", "Support", "hello", cwd=tmp_path, env=env)

    assert done.returncode == 1
    assert "«placet serve MODULE:NAME --no-run»" in done.stderr


def test_an_error_that_stopped_a_run_is_one_word_and_one_full_stop(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from placet import Agent\nfrom placet.testing import ScriptedModel\n"
        'agent = Agent("Broken", model=ScriptedModel([]))\n'
    )
    store = ["--store", f"sqlite:///{tmp_path / 'placet.db'}"]

    ran = placet("run", "broken:agent", "hello", *store, cwd=tmp_path)
    listed = placet("runs", "--status", "stopped", *store, cwd=tmp_path)
    as_json = json.loads(placet("runs", "--json", *store, cwd=tmp_path).stdout)
    running = placet("runs", "--status", "running", *store, cwd=tmp_path)
    shown = placet("show", as_json["id"], *store, cwd=tmp_path)

    assert ran.returncode == 1
    assert f"{as_json['id']}  stopped" in ran.stdout
    assert ".." not in ran.stderr.replace("...", "")
    assert as_json["status"] == "stopped"
    assert " stopped " in listed.stdout
    assert running.stdout == "No runs.\n"
    assert "stopped: " in shown.stdout
    assert ".." not in shown.stdout.replace("...", "")

"""Calls that touch Placet are found, also where they hide it; what is not found stands in docs/assistants.md."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from placet.gate.own_traces import touches_placet

pytestmark = pytest.mark.promise("P23")

HIDDEN = base64.b64encode(b"placet approve 1").decode()


@pytest.mark.parametrize(
    "command",
    [
        "placet approve 1",
        "PLACET pending",
        "pl''acet approve 1",
        'pl"a"cet approve 1',
        "pla\\cet approve 1",
        "pla$@cet approve 1",
        "pla${nothing}cet approve 1",
        "p=acet; pl$p approve 1",
        "$PLACET_TOKEN",
        "/usr/bin/plac*t approve 1",
        "ls ~/.cla?de",
        "cat ~/.cl[a]ude/settings.json",
        "cat ~/./.claude//settings.json",
        "cd ~/.claude && ls",
        "cat .codex/hooks.json",
        f"echo {HIDDEN} | base64 -d | sh",
        f"echo {HIDDEN.rstrip('=')}",
        f"echo {b'placet'.hex()} | xxd -r -p",
        r"printf '\x70\x6c\x61\x63\x65\x74'",
        r"$'\160\154\141\143\145\164' approve 1",
        "echo tecalp | rev",
        "{pla,x}cet",
        "curl http://desk/%70lacet",
        "ｐｌａｃｅｔ approve 1",
        "`cat name` approve 1",
        "eval $(cat x)",
        "python3 x.py",
        "sh ./x",
        ". ./x",
        "env X=1 y",
    ],
)
def test_a_command_that_names_placet_or_may_hide_it_is_found(command: str) -> None:
    assert touches_placet("Bash", {"command": command})


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ["placet", "approve", "1"]},
        {"command": ["sh", "-c", "x"]},
        {"path": "/home/ana/.claude/settings.json"},
        {"edits": [{"file": "x/.cursor/hooks.json", "text": ""}]},
        {".codex": 1},
        {"path": "/x/desk.db"},
        {"path": "/etc/claude-code/managed-settings.json"},
        {"text": '"pla" + "cet"'},
    ],
)
def test_arguments_of_any_shape_are_looked_through(arguments: dict[str, Any]) -> None:
    assert touches_placet("Write", arguments, more=["desk.db"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/src/app.py"}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Grep", {"pattern": "def .*place", "path": "."}),
        ("Bash", {"command": "git status --short"}),
        ("Bash", {"command": "ls -la build/*.o"}),
        ("Bash", {"command": ["make", "test"]}),
    ],
)
def test_other_calls_may_pass(tool: str, arguments: dict[str, Any]) -> None:
    assert not touches_placet(tool, arguments, "/home/ana/project", ["desk.db"])


def test_a_call_in_a_folder_of_settings_is_found_whatever_it_says() -> None:
    assert touches_placet("Write", {"path": "settings.json"}, "/home/ana/.claude")
    assert not touches_placet("Write", {"path": "settings.json"}, "/home/ana/x.claudeish")


@pytest.mark.parametrize("command", ["make", "./build", "git commit -m x"])
def test_what_is_not_found_stands_in_the_docs(command: str) -> None:
    """A program can do anything. If this test fails because more is found: say so on the page."""
    assert not touches_placet("Bash", {"command": command})
    page = (Path(__file__).parents[2] / "docs" / "assistants.md").read_text()
    assert "a program that the command starts" in page

"""`placet port` rewrites imports, shows the difference, and says what it found."""

from __future__ import annotations

import json

import pytest

from placet.agents.porting import port
from placet.cli.main import main


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from agents import Agent\n", "from placet.agents import Agent\n"),
        ("from agents.mcp import MCPServer as S\n", "from placet.agents.mcp import MCPServer as S\n"),
        ("import agents\n", "import placet.agents as agents\n"),
        ("import agents as ag\n", "import placet.agents as ag\n"),
        ("import os, agents\n", "import os, placet.agents as agents\n"),
        ("import agents.mcp\n", "import placet.agents as agents, placet.agents.mcp\n"),
        ("if x: from agents import (\n  A,  # agents\n)\n", "if x: from placet.agents import (\n  A,  # agents\n)\n"),
        ("x = 'from agents'; from agents import Runner\n", "x = 'from agents'; from placet.agents import Runner\n"),
        ("from my.agents import A\nfrom .agents import B\n", "from my.agents import A\nfrom .agents import B\n"),
        ("s = 'ä'; import agents.tool as t\r\n", "s = 'ä'; import placet.agents.tool as t\r\n"),
    ],
)  # fmt: skip
def test_only_imports_of_the_sdk_change(before, after):
    assert port(before).after == after


def test_a_program_that_was_ported_is_left_alone():
    once = port("import agents\nfrom agents import Agent\n").after

    assert port(once).is_changed is False


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("from agents.realtime import RealtimeAgent\n", "agents.realtime is left out"),
        ("from agents import OpenAIResponsesWSModel\n", "OpenAIResponsesWSModel is left out"),
        ("from agents import Agnet\n", "Agnet is not in placet.agents"),
        ("from agents._run_impl import x\n", "private to the SDK"),
        ("from agents import ShellTool\n", "ShellTool: asks a person"),
        ("import agents\nisinstance(item.raw_item, Call)\n", "raw items are dicts"),
        ("import agents\npatch('agents.run.Runner')\n", "is it meant for a mock?"),
        ("import agents.voice\n", "agents.voice is left out"),
    ],
)
def test_what_differs_is_said(source, note):
    assert any(note in each.text for each in port(source).notes)


def test_nothing_is_written_unless_asked_for(tmp_path, capsys):
    program = tmp_path / "app" / "main.py"
    program.parent.mkdir()
    program.write_text("from agents import Agent, ShellTool\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "x.py").write_text("import agents\n")

    assert main(["port", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "-from agents import Agent, ShellTool\n+from placet.agents import Agent, ShellTool\n" in shown
    assert "line 1: ShellTool: asks a person" in shown
    assert "1 files would change, 0 could not be read." in shown
    assert program.read_text() == "from agents import Agent, ShellTool\n"

    assert main(["port", "--write", "--json", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == [str(program)]
    assert program.read_text() == "from placet.agents import Agent, ShellTool\n"


def test_what_cannot_be_read_is_named_and_the_rest_is_done(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("def (:\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe4\n")
    (tmp_path / "good.py").write_text("import agents\n")

    assert main(["port", "--write", str(tmp_path)]) == 1
    assert "bad.py\n  could not be read" in capsys.readouterr().out
    assert (tmp_path / "good.py").read_text() == "import placet.agents as agents\n"


def test_a_package_of_the_users_own_is_not_taken_for_the_sdk(tmp_path, capsys):
    (tmp_path / "agents.py").write_text("")
    (tmp_path / "main.py").write_text("import agents\n")

    assert main(["port", str(tmp_path)]) == 2
    assert "of its own" in capsys.readouterr().err
    assert main(["port", str(tmp_path / "nowhere")]) == 2

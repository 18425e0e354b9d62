"""Servers that others wrote, from the package registry, as they are: a clock of today's protocol, an editor of files of
the one before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from placet import Runner, RunState
from placet.mcp import MCPServerStdio
from tests.mcp.scenes import DONE, ROOT, agent_with, call, outputs


@pytest.fixture(scope="module")
def installed() -> Path:
    """Where they are: `dev.py` installs them, from files with hashes, if that has not been done."""
    done = subprocess.run(  # noqa: S603  # a program of our own
        [sys.executable, str(ROOT / "dev.py"), "mcp-servers"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the MCP servers that the tests use could not be set up: {done.stderr}"
    return ROOT / ".dev" / "mcp-servers"


@pytest.fixture
def clock(installed: Path) -> MCPServerStdio:
    command = str(installed / "time" / "bin" / "mcp-server-time")
    return MCPServerStdio(
        {"command": command, "args": ["--local-timezone", "Europe/Zurich"]},
        name="clock",
        require_approval={"convert_time": "never", "*": "always"},
    )


@pytest.fixture
def editor(installed: Path) -> MCPServerStdio:
    command = str(installed / "files" / "bin" / "mcp-text-editor")
    return MCPServerStdio(
        {"command": command}, name="editor", require_approval={"get_text_file_contents": "never"}, protocol="legacy"
    )


async def test_a_clock_tells_the_time_elsewhere(clock: MCPServerStdio) -> None:
    noon = {"source_timezone": "Europe/Zurich", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    steps = [[call("convert_time", "c1", **noon), call("get_current_time", "c2", timezone="UTC")], DONE]
    agent = agent_with(clock, steps=steps)
    paused = await Runner.run(agent, "What time is it in Tokyo?")
    state = await RunState.from_string(agent, paused.to_state().to_string())
    state.approve("c2", by="ana")

    result = await Runner.run(agent, state)

    read = outputs(result)
    assert [item.name for item in paused.interruptions] == ["get_current_time"]
    assert json.loads(read["c1"])["target"]["timezone"] == "Asia/Tokyo"
    assert json.loads(read["c2"])["timezone"] == "UTC"


async def test_what_the_clock_refuses_is_data_for_the_model(clock: MCPServerStdio) -> None:
    wrong = {"source_timezone": "Europe/Atlantis", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    agent = agent_with(clock, steps=[[call("convert_time", "c1", **wrong)], DONE])

    result = await Runner.run(agent, "go")

    assert "Europe/Atlantis" in outputs(result)["c1"]
    assert result.final_output == "done"


async def test_a_file_is_read_at_once_and_changed_only_after_a_yes(editor: MCPServerStdio, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("one\ntwo\n")

    reading = call("get_text_file_contents", "c1", files=[{"file_path": str(file), "ranges": [{"start": 2, "end": 2}]}])

    first = await Runner.run(agent_with(editor, steps=[[reading], DONE]), "read it")
    seen = json.loads(outputs(first)["c1"])[str(file)]
    (part,) = seen["ranges"]
    patch = {"line_start": 2, "line_end": 2, "contents": "zwei\n", "range_hash": part["range_hash"]}
    change = {"path": str(file), "file_hash": seen["file_hash"], "patches": [patch]}
    agent = agent_with(editor, steps=[[call("edit_text_file_contents", "c2", files=[change])], DONE])
    paused = await Runner.run(agent, "change it")
    before = file.read_text()
    state = await RunState.from_string(agent, paused.to_state().to_string())
    state.approve("c2", by="ana")

    await Runner.run(agent, state)

    assert [item.name for item in paused.interruptions] == ["edit_text_file_contents"]
    assert before == "one\ntwo\n"
    assert file.read_text() == "one\nzwei\n"

"""Clients and servers that others wrote, as they come from the package registry, with the gateway between them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from placet.gate.mcp.config import ServerConfig
from tests.gate.mcp.scenes import SHOP, Scene, client_of, handle_of, text_of
from tests.mcp.test_foreign_servers import installed

__all__ = ["installed"]

HERE = Path(__file__).parent
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def others(installed: Path, tmp_path: Path) -> dict[str, ServerConfig]:
    clock, editor = installed / "time" / "bin" / "mcp-server-time", installed / "files" / "bin" / "mcp-text-editor"
    git = installed / "git" / "bin" / "mcp-server-git"
    return {
        "clock": ServerConfig(command=str(clock), args=["--local-timezone", "Europe/Zurich"], require_approval="never"),
        "editor": ServerConfig(
            command=str(editor), require_approval={"get_text_file_contents": "never", "*": "always"}
        ),
        "git": ServerConfig(
            command=str(git),
            args=["--repository", str(tmp_path / "repository")],
            require_approval={"git_commit": "always", "git_add": "always", "*": "never"},
        ),
    }


@ERAS
async def test_a_clock_and_an_editor_of_files_behind_one_gateway(
    at: Scene, others: dict[str, ServerConfig], mode: str
) -> None:
    file = at.folder / "note.txt"
    file.write_text("one\ntwo\n")
    noon = {"source_timezone": "Europe/Zurich", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    look = {"files": [{"file_path": str(file), "ranges": [{"start": 2, "end": 2}]}]}
    wanted = {name: others[name] for name in ("clock", "editor")}
    async with at.gateway(wanted, wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode) as client:
            time = await client.call_tool("convert_time", noon)
            seen = json.loads(text_of(await client.call_tool("get_text_file_contents", look)))[str(file)]
            hashed = {"range_hash": seen["ranges"][0]["range_hash"]}
            patch = {"line_start": 2, "line_end": 2, "contents": "zwei\n", **hashed}
            change = {"path": str(file), "file_hash": seen["file_hash"], "patches": [patch]}
            told = await client.call_tool("edit_text_file_contents", {"files": [change]})
            before = file.read_text()
            await at.decide()
            done = await client.call_tool("placet_check", {"handle": handle_of(told), "wait_seconds": 40})

    assert json.loads(text_of(time))["target"]["timezone"] == "Asia/Tokyo"
    assert "A person is asked" in text_of(told)
    assert before == "one\ntwo\n"
    assert not done.is_error
    assert file.read_text() == "one\nzwei\n"


async def test_a_client_of_the_generation_before_waits_as_a_task(at: Scene, installed: Path) -> None:
    entry = {"command": sys.executable, "args": [str(SHOP), "stdio"], "env": {"SHOP_EFFECTS": str(at.effects_file)}}
    config = at.folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"shop": entry}, "placet": {"store": at.url}}))
    gateway = [sys.executable, "-m", "placet.cli.main", "mcp", "serve", str(config)]
    arguments = json.dumps({"order_id": "7", "cents": 4200})
    python = installed / "files" / "bin" / "python"
    process = await asyncio.create_subprocess_exec(
        str(python), str(HERE / "older_client.py"), "refund", arguments, *gateway, stdout=asyncio.subprocess.PIPE
    )
    await at.waiting()
    before = at.effects
    await at.decide()
    printed, _ = await process.communicate()
    told: dict[str, Any] = json.loads(printed)

    assert before == []
    assert told["can"]
    assert told["support"] == ["none", "optional"]
    assert set(told["seen"]) <= {"working", "completed"}
    assert told["seen"][-1] == "completed"
    assert told["text"] == "refunded 7"
    assert told["listed"]
    assert at.effects == ["refund 7 4200"]


@ERAS
async def test_the_official_client_over_stdio_through_the_command(at: Scene, installed: Path, mode: str) -> None:
    clock = {"command": str(installed / "time" / "bin" / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}
    config = at.folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"clock": clock}, "placet": {"store": at.url, "wait": ["handle"]}}))
    params = StdioServerParameters(
        command=sys.executable, args=["-m", "placet.cli.main", "mcp", "serve", str(config)], cwd=at.folder
    )
    async with Client(stdio_client(params), mode=mode) as client:  # type: ignore[arg-type]  # a mode is a text
        told = await client.call_tool("get_current_time", {"timezone": "UTC"})
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert json.loads(text_of(done))["timezone"] == "UTC"


async def test_a_server_of_version_control_looks_freely_and_commits_when_it_is_approved(
    at: Scene, others: dict[str, ServerConfig]
) -> None:
    repository = at.folder / "repository"
    git = ("git", "-c", "user.name=Ana", "-c", "user.email=ana@example.com", "-C", str(repository))

    def run(*words: str) -> str:
        done = subprocess.run([*git, *words], capture_output=True, text=True, check=True)  # noqa: S603  # ours
        return done.stdout

    repository.mkdir()
    run("init", "--quiet")
    run("config", "user.name", "Ana")
    run("config", "user.email", "ana@example.com")
    (repository / "note.txt").write_text("hello\n")
    run("add", "note.txt")
    place = {"repo_path": str(repository)}
    async with at.gateway({"git": others["git"]}, wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            status = await client.call_tool("git_status", place)
            told = await client.call_tool("git_commit", {**place, "message": "A note"})
            before = run("rev-list", "--all", "--count").strip()
            await at.decide("edit", arguments={**place, "message": "A note, as reviewed"})
            done = await client.call_tool("placet_check", {"handle": handle_of(told), "wait_seconds": 40})

    assert "note.txt" in text_of(status)
    assert before == "0"
    assert not done.is_error
    assert run("log", "--format=%s").split("\n")[:-1] == ["A note, as reviewed"]

"""The real Claude Code (out of the wheel of its SDK) with our hook, against the fake provider: nothing leaves here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import dev
from placet.cli.main import main
from placet.desk import Desk
from placet.desk.app import create_app
from placet.gate.assistant_settings import FILES
from placet.testing import FakeProvider, assistant_message, function_call
from tests.gate.scenes import serving
from tests.support.desk_server import FAST

PATIENCE = 180.0
HOSTS = Path(__file__).parent / "hosts"

pytestmark = [pytest.mark.promise("P23"), pytest.mark.long, pytest.mark.timeout(900)]


def claude() -> Path:
    place = dev.DEV / "hosts" / "claude-agent-sdk"
    dev.set_up_apart(place, HOSTS / "claude-agent-sdk.lock", "claude-agent-sdk, for the tests")
    (found,) = place.glob("lib/python*/site-packages/claude_agent_sdk/_bundled/claude")
    return found


class Project:
    """A folder in which Claude Code works, a desk, and a file that tells whether its command ran."""

    def __init__(self, home: Path, desk: Desk, url: str, token: str) -> None:
        self.home, self.desk, self.url, self.token = home, desk, url, token
        self.folder = home / "work"
        self.folder.mkdir()
        self.witness = home / "witness"

    def install(self, *more: str) -> None:
        assert main(["hook", "install", "claude-code", "--yes", *more]) == 0

    def settings(self) -> Any:
        return json.loads((self.home / FILES["claude-code"]).read_text())

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        """Let it make these calls, one after the other; what the model read of each."""
        steps: list[Any] = [
            [function_call(tool, given, call_id=f"toolu_{n:02}")] for n, (tool, given) in enumerate(calls)
        ]
        provider = FakeProvider([*steps, [assistant_message("bye")]])
        async with provider.serve() as address:
            env = {
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "ANTHROPIC_BASE_URL": address,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "MAX_THINKING_TOKENS": "0",
                "PLACET_TOKEN": self.token,
            }
            words = [
                "-p",
                "go",
                "--output-format",
                "json",
                "--model",
                "claude-sonnet-4-5",
                "--allowedTools",
                "Bash,Read",
            ]
            process = await asyncio.create_subprocess_exec(
                str(claude()), *words, cwd=self.folder, env=env, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        assert provider.refusals == [], errors.decode() + out.decode()
        last = provider.requests[-1].body["messages"]
        blocks = [each for message in last if isinstance(message["content"], list) for each in message["content"]]
        return [str(each["content"]) for each in blocks if each.get("type") == "tool_result"]

    async def decided(self, verdict: Any, **more: Any) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (waiting := await self.desk.pending()):
                await self.desk.store.wait_for_news(await self.desk.store.latest_sequence(), 1.0)
        await self.desk.decide(waiting[0].id, verdict, by="ana", **more)
        return waiting[0]

    def bash(self, text: str = "ran") -> tuple[str, dict[str, Any]]:
        return ("Bash", {"command": f"echo {text} >> {self.witness}", "description": "a test"})

    def ran(self) -> list[str]:
        return self.witness.read_text().split() if self.witness.exists() else []


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with Desk(f"sqlite:///{tmp_path / 'desk.db'}", run=False) as desk:
        app = create_app(desk, FAST)
        async with serving(app) as address:
            await app.state.web.accounts.add_user("laptop", "guest")
            token, _ = await app.state.web.accounts.add_token("laptop", "a test")
            yield Project(tmp_path, desk, address, token)


@pytest.mark.parametrize("over", ["process", "http"])
async def test_claude_code_executes_what_was_decided_and_nothing_else(project: Project, over: str) -> None:
    project.install("--desk", project.url, *(["--http"] if over == "http" else []), "--pass", "Read")
    note = project.folder / "note"
    note.write_text("hello there")

    async def people() -> list[Any]:
        edited = {"command": f"echo edited >> {project.witness}", "description": "a test"}
        return [
            await project.decided("approve"),
            await project.decided("edit", arguments=edited),
            await project.decided("reject", message="Not on a Friday."),
        ]

    read = ("Read", {"file_path": str(note)})
    asked, told = await asyncio.gather(
        people(), project.run(project.bash("one"), project.bash("two"), project.bash("three"), read)
    )

    assert project.ran() == ["one", "edited"]
    assert "Not on a Friday." in told[2]
    assert "hello there" in told[3]
    assert {each.agent for each in asked} == {"claude-code/laptop"}


@pytest.mark.parametrize("over", ["process", "http"])
async def test_claude_code_is_stopped_by_a_desk_that_is_away_or_silent(project: Project, over: str) -> None:
    http = ["--http"] if over == "http" else []
    project.install("--desk", project.url, *http, "--timeout", "1")
    (silent,) = await project.run(project.bash())
    project.install("--desk", "http://127.0.0.1:9", *http, "--timeout", "1")
    (away,) = await project.run(project.bash())

    assert project.ran() == []
    assert "was not run" in silent
    assert "hook error" in away or "was not run" in away


async def test_claude_code_is_stopped_when_our_hook_cannot_be_started_hangs_or_dies(project: Project) -> None:
    project.install("--desk", project.url)
    settings = project.settings()
    (entry,) = settings["hooks"]["PreToolUse"][0]["hooks"]
    for broken in (
        {"command": entry["command"].replace(sys.executable, "/no/such/python")},
        {"timeout": 1},
        {"command": "kill -9 $$"},
    ):
        changed = {**settings, "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{**entry, **broken}]}]}}
        (project.home / FILES["claude-code"]).write_text(json.dumps(changed))
        (told,) = await project.run(project.bash())

        assert project.ran() == []
        assert "onFailure" in told

"""The hook in the settings of assistants: shown first, failing closed, and taken back to the byte."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet.cli.main import main
from placet.desk import Desk
from placet.desk.app import create_app
from placet.facts.errors import UserError
from placet.gate.assistant_settings import FILES, entries, weaknesses, with_hook, without_hook
from placet.gate.assistants import ASSISTANTS, Assistant
from tests.gate.scenes import serving
from tests.gate.test_assistants import spoken
from tests.support.desk_server import FAST

pytestmark = pytest.mark.promise("P23")

PATIENCE = 60.0
OTHERS = {
    "claude-code": '{\n    "model": "x",\n    "hooks": {"PostToolUse": [{"hooks": [{"command": "lint"}]}]}\n}',
    "codex": '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}]}}\r\n',
    "cursor": '{\n\t"version": 1,\n\t"hooks": {"preToolUse": [{"command": "mine"}]}\n}\n\n',
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PLACET_DESK", "PLACET_STORE", "PLACET_TOKEN", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(home: Path, assistant: str, *more: str) -> int:
    store = f"sqlite:///{home / 'desk.db'}"
    return main(["hook", "install", assistant, "--store", store, "--guest", "dev", "--yes", *more])


@pytest.mark.parametrize("assistant", ASSISTANTS)
@pytest.mark.parametrize("kind", ["none", "empty", "others"])
def test_what_was_installed_is_taken_back_to_the_byte(
    home: Path, assistant: Assistant, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / FILES[assistant]
    before = {"none": None, "empty": "{}", "others": OTHERS[assistant]}[kind]
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before.encode())
        file.chmod(0o640)
    codes = [install(home, assistant), install(home, assistant, "--pass", "Read")]
    between, mode = file.read_text(), file.stat().st_mode & 0o777
    told = capsys.readouterr().out
    codes.append(main(["hook", "uninstall", assistant, "--yes"]))

    assert codes == [0, 0, 0]
    assert between.count("placet.cli.main") == 1
    assert "--pass" in between
    assert f"+++ {file}" in told
    assert mode == (0o600 if before is None else 0o640)
    assert (file.read_bytes().decode() if file.exists() else None) == before
    assert [each.name for each in file.parent.iterdir()] == ([] if before is None else [file.name])


def test_what_others_changed_in_between_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / FILES["claude-code"]
    install(home, "claude-code")
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "model": "opus"}))
    main(["hook", "uninstall", "claude-code", "--yes"])

    assert json.loads(file.read_text()) == {"model": "opus"}
    assert "changed since" in capsys.readouterr().out


def test_nothing_is_written_without_a_word_or_into_what_is_not_understood(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / FILES["claude-code"]
    file.parent.mkdir()
    store = ["--store", f"sqlite:///{home / 'desk.db'}"]
    codes = [main(["hook", "install", "claude-code", *store])]
    for text in ("{nope", '{"hooks": []}', '{"hooks": {"PreToolUse": "x"}}', '{"disableAllHooks": true}'):
        file.write_text(text)
        codes.append(install(home, "claude-code"))
        assert file.read_text() == text
    file.unlink()
    (file.parent / "settings.local.json").write_text('{"disableAllHooks": true}')
    codes.append(install(home, "claude-code"))
    codes.append(main(["hook", "install", "claude-code", "--yes"]))
    codes.append(install(home, "cursor", "--http"))

    assert codes == [2, 1, 1, 1, 1, 1, 2, 2]
    assert not file.exists()
    assert "disableAllHooks" in capsys.readouterr().err


def test_a_hook_that_is_switched_off_in_codex_is_not_installed(home: Path) -> None:
    file = home / FILES["codex"]
    file.parent.mkdir()
    (file.parent / "config.toml").write_text("[features]\nhooks = false\n")

    assert install(home, "codex") == 1
    assert not file.exists()


def test_every_installed_hook_fails_closed_and_is_alone(home: Path) -> None:
    for assistant in ASSISTANTS:
        install(home, assistant)
        text = (home / FILES[assistant]).read_text()
        (entry,) = entries(assistant, text)

        assert weaknesses(assistant, text) == []
        assert f"{sys.executable} -I -m" in str(entry["command"])
        weak = {name: value for name, value in entry.items() if name not in ("onFailure", "failClosed")}
        weak["command"] = str(weak["command"]).partition(" ||")[0]
        assert len(weaknesses(assistant, with_hook(assistant, None, weak))) == 1
        other = with_hook(assistant, None, {"type": "command", "command": "another"})
        assert "another" in weaknesses(assistant, other)[0]
        assert "another" in without_hook(assistant, other)


@pytest.mark.parametrize("text", ["[]", '{"hooks": {"PreToolUse": [{"hooks": 3}]}}', '"x"'])
def test_settings_of_another_shape_are_refused_in_words(text: str) -> None:
    with pytest.raises(UserError, match="nothing was changed"):
        with_hook("claude-code", text, {})


@pytest.mark.parametrize("assistant", ASSISTANTS)
def test_the_doctor_makes_a_call_through_the_installed_hook_and_it_is_stopped(
    home: Path, assistant: Assistant, capsys: pytest.CaptureFixture[str]
) -> None:
    install(home, assistant)
    capsys.readouterr()
    code = main(["hook", "doctor", assistant])
    told = capsys.readouterr().out

    assert (code, "stopped:" in told, "NOT" in told) == (0, True, False)
    assert main(["pending", "--store", f"sqlite:///{home / 'desk.db'}", "--json"]) == 0
    assert '"tool"' not in capsys.readouterr().out


def test_the_doctor_finds_hooks_that_would_let_a_call_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / FILES["claude-code"]
    file.parent.mkdir()
    codes = [main(["hook", "doctor"]), main(["hook", "doctor", "cursor"])]
    for command, more in (
        ("true placet hook x", {"onFailure": "block"}),
        ("echo '{}' placet hook x", {"onFailure": "block"}),
        ("exit 2; placet hook x", {"onFailure": "block"}),  # without a word it is taken for a failure
        ("echo no >&2; exit 2; placet hook x", {}),
    ):
        entry = {"type": "command", "command": command, **more}
        file.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [entry]}]}}))
        codes.append(main(["hook", "doctor"]))

    assert codes == [1] * 6
    assert "NOT stopped" in capsys.readouterr().out


# -- over HTTP ---------------------------------------------------------------------------------------------------------


class Served:
    def __init__(self, url: str, desk: Desk, token: str) -> None:
        self.url, self.desk, self.token = url, desk, token
        self.client = httpx2.AsyncClient(timeout=PATIENCE, headers={"Authorization": f"Bearer {token}"})

    async def ask(self, text: bytes, query: str = "timeout=50", **headers: str) -> httpx2.Response:
        sent = {"Content-Type": "application/json", **headers}
        return await self.client.post(f"{self.url}/v1/gate/hooks/claude-code?{query}", content=text, headers=sent)

    async def decided(self, text: bytes, verdict: Any, **more: Any) -> Any:
        asked = asyncio.create_task(self.ask(text))
        async with asyncio.timeout(PATIENCE):
            while not (waiting := await self.desk.pending()) and not asked.done():
                await self.desk.store.wait_for_news(await self.desk.store.latest_sequence(), 0.5)
            await self.desk.decide(waiting[0].id, verdict, by="ana", **more)
            return (await asked).json()["hookSpecificOutput"]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with Desk(f"sqlite:///{tmp_path / 'served.db'}", run=False) as desk:
        app = create_app(desk, FAST)
        async with serving(app) as address:
            await app.state.web.accounts.add_user("laptop", "guest")
            token, _ = await app.state.web.accounts.add_token("laptop", "a test")
            scene = Served(address, desk, token)
            async with scene.client:
                yield scene


async def test_over_http_a_call_is_decided_and_let_go_once(served: Served) -> None:
    given = spoken("claude-code", command="rm -r build")
    edited = await served.decided(given, "edit", arguments={"command": "ls build"})
    again = (await served.ask(given)).json()["hookSpecificOutput"]
    refused = await served.decided(spoken("claude-code", call_id="t2", command="rm"), "reject", message="Not now.")

    assert (edited["permissionDecision"], edited["updatedInput"]) == ("allow", {"command": "ls build"})
    assert again["permissionDecision"] == "deny"
    assert (refused["permissionDecision"], refused["permissionDecisionReason"]) == ("deny", "Not now.")


async def test_over_http_what_is_no_call_no_guest_or_not_decided_is_never_a_yes(served: Served) -> None:
    late = await served.ask(spoken("claude-code", call_id="t3", command="rm"), "timeout=0.2")
    shorter = await served.ask(spoken("claude-code", call_id="t4", command="rm"), **{"Placet-Hook-Timeout": "0.2"})
    passed = await served.ask(spoken("claude-code", "Read", "t5", path="a.py"), "passes=Grep,Read")
    own = await served.ask(spoken("claude-code", "Read", "t6", path="~/.claude/x"), "passes=*&timeout=0.2")
    huge = await served.ask(spoken("claude-code", "Read", "t7", text="x" * 400_000))
    wrong = [await served.ask(text) for text in (b"", b"{}", b"[]", spoken("cursor"))]
    stranger = await served.ask(spoken("claude-code"), Authorization="Bearer placet_nobody")

    for each in (late, shorter, own, huge):
        assert each.json()["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert (passed.status_code, passed.json()) == (200, {})
    assert [each.status_code for each in (*wrong, stranger)] == [422, 422, 400, 422, 401]
    assert await served.desk.pending() == []


async def test_the_doctor_asks_over_http_too(
    served: Served, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["hook", "install", "claude-code", "--desk", served.url, "--http", "--yes"])
    without = await asyncio.to_thread(main, ["hook", "doctor"])
    monkeypatch.setitem(os.environ, "PLACET_TOKEN", served.token)
    well = await asyncio.to_thread(main, ["hook", "doctor"])
    told = capsys.readouterr().out

    assert (code, without, well) == (0, 0, 0)
    assert "the desk answers 401" in told
    assert "nobody decided" in told
    assert served.token not in (home / FILES["claude-code"]).read_text()

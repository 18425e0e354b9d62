"""Hooks of coding assistants: a call runs after a person's yes, and after nothing else."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import main
from placet.desk import Desk
from placet.gate.assistants import ASSISTANTS, Allowed, Assistant, answer_for
from placet.stores.opening import open_store

PATIENCE = 90.0


def spoken(assistant: Assistant, tool: str = "Bash", call_id: str = "t1", **arguments: Any) -> bytes:
    """What the assistant writes to its hook."""
    cursor = assistant == "cursor"
    names = ("preToolUse", "conversation_id") if cursor else ("PreToolUse", "session_id")
    call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": call_id}
    return json.dumps({"hook_event_name": names[0], names[1]: "s1", **call}).encode()


class Hooked:
    """Hook processes and the desk that decides, on one store."""

    def __init__(
        self, url: str, desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.url, self.desk, self.monkeypatch, self.capsys = url, desk, monkeypatch, capsys

    async def run(self, assistant: str, text: bytes, *more: str) -> tuple[int, Any, str]:
        """The exit code, what was answered and what was complained about."""
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        code = await asyncio.to_thread(main, ["hook", assistant, "--store", self.url, "--guest", "dev", *more])
        out, err = self.capsys.readouterr()
        return code, json.loads(out) if out else None, err

    async def decided(self, assistant: str, text: bytes, verdict: Any, **more: Any) -> tuple[int, Any, str]:
        async with asyncio.timeout(PATIENCE):
            running = asyncio.create_task(self.run(assistant, text))
            while not (waiting := await self.desk.pending()) and not running.done():  # noqa: ASYNC110  # it is written by another process
                await asyncio.sleep(0.02)
            await self.desk.decide(waiting[0].id, verdict, by="ana", **more)
            return await running


@pytest.fixture
async def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    store = open_store(url)
    async with store, Desk(store, run=False) as desk:
        yield Hooked(url, desk, monkeypatch, capsys)


@pytest.mark.parametrize("assistant", ASSISTANTS)
async def test_an_edit_and_a_rejection_reach_the_assistant_in_its_own_words(
    hooked: Hooked, assistant: Assistant
) -> None:
    given = spoken(assistant, command="rm -r build")
    edited = await hooked.decided(assistant, given, "edit", arguments={"command": "ls build"})
    again = await hooked.run(assistant, given)
    refused = await hooked.decided(
        assistant, spoken(assistant, call_id="t2", command="rm"), "reject", message="Not now."
    )

    assert edited[0] == refused[0] == again[0] == 0
    if assistant == "cursor":
        assert edited[1] == {"permission": "allow", "updated_input": {"command": "ls build"}}
        assert refused[1]["permission"] == again[1]["permission"] == "deny"
        assert refused[1]["agent_message"] == "Not now."
    else:
        allow, deny, twice = (each[1]["hookSpecificOutput"] for each in (edited, refused, again))
        assert (allow["permissionDecision"], allow["updatedInput"]) == ("allow", {"command": "ls build"})
        assert (deny["permissionDecision"], deny["permissionDecisionReason"]) == ("deny", "Not now.")
        assert twice["permissionDecision"] == "deny"  # a call is let go once, whoever asks again


async def test_a_plain_yes_is_an_allow_where_the_assistant_knows_one(hooked: Hooked) -> None:
    code, said, _ = await hooked.decided("claude-code", spoken("claude-code", command="make"), "approve")

    assert (code, said["hookSpecificOutput"]["permissionDecision"]) == (0, "allow")
    assert answer_for("codex", Allowed()).out == ""


async def test_tools_that_pass_leave_the_assistants_own_question_open_but_not_for_placet(hooked: Hooked) -> None:
    passed = await hooked.run("claude-code", spoken("claude-code", "Read", path="a.py"), "--pass", "Read")
    own = [{"path": "/x/desk.db"}, {"path": "~/.claude/settings.json"}, {"command": "Placet approve 1"}]
    asked = [
        await hooked.run(
            "claude-code", spoken("claude-code", "Read", f"o{n}", **each), "--pass", "*", "--timeout", "0.2"
        )
        for n, each in enumerate(own)
    ]

    assert passed == (0, None, "")
    assert [each[1]["hookSpecificOutput"]["permissionDecision"] for each in asked] == ["deny"] * 3


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", spoken("cursor"), b'{"hook_event_name":"PostToolUse"}'])
async def test_what_is_no_call_is_stopped_with_a_reason_and_stores_nothing(hooked: Hooked, text: bytes) -> None:
    code, said, complaint = await hooked.run("codex", text)

    assert (code, said) == (2, None)
    assert complaint.strip()
    assert await hooked.desk.pending() == []


async def test_a_desk_that_is_away_or_not_named_stops_the_call(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_STORE", raising=False)
    monkeypatch.delenv("PLACET_DESK", raising=False)
    codes = []
    for more in ([], ["--desk", "http://127.0.0.1:9", "--timeout", "0.3"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(spoken("codex", command="make"))))
        codes.append(await asyncio.to_thread(main, ["hook", "codex", *more]))
    out, complaint = hooked.capsys.readouterr()

    assert codes[0] == 2
    assert "PLACET_DESK" in complaint
    assert codes[1] == 2 or '"deny"' in out

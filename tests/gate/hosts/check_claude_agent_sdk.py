"""The gate with the real Claude Agent SDK and the Claude Code in its wheel, which asks the fake provider."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ToolAnnotations,
    create_sdk_mcp_server,
    query,
    tool,
)

from placet import UserError
from placet.gate import Gate
from placet.gate.claude_agent_sdk import INSTEAD, ClaudeGate
from placet.testing import FakeProvider, assistant_message, function_call
from tests.docs.pages import DOCS, run_examples
from tests.gate.hosts.scenarios import Bank, Calls, WaitingScenarios, scene_in, together

REFUND = "mcp__bank__refund"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "default": 100}},
    "required": ["order"],
}
PREFIX = f"PreToolUse:{REFUND} hook error: "


def bank_server(bank: Bank) -> Any:
    # Claude Code executes calls of one response side by side only where their tool says that it changes nothing.
    @tool("refund", "Pay money back.", SCHEMA, annotations=ToolAnnotations(readOnlyHint=True))
    async def refund(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": bank.refund(given["order"], given.get("cents", 100))}]}

    return create_sdk_mcp_server("bank", tools=[refund])


def options_in(folder: Path, **more: Any) -> ClaudeAgentOptions:
    """Claude Code with a home and a folder of its own."""
    home = folder / uuid.uuid4().hex
    (home / "work").mkdir(parents=True)
    env = {
        "HOME": str(home),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MAX_THINKING_TOKENS": "0",
        "CLAUDE_CODE_MAX_RETRIES": "0",  # it outlives a killed program only as long as it asks its provider again
    }
    given = {"cwd": home / "work", "model": "claude-sonnet-4-5", "setting_sources": [], "env": env}
    given["stderr"] = lambda line: None  # else it holds on to ours, also when we are gone
    return ClaudeAgentOptions(**{**given, **more})


async def said_of(options: ClaudeAgentOptions, *steps: Any) -> dict[str, str]:
    """What the model read of each call."""
    provider = FakeProvider([*steps, [assistant_message("bye")]])
    async with provider.serve() as url:
        options.env["ANTHROPIC_BASE_URL"] = url

        async def go() -> AsyncIterator[dict[str, Any]]:  # `can_use_tool` wants a stream
            yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

        async for _ in query(prompt=go(), options=options):
            """The messages are for the user."""
    assert provider.refusals == []
    found: dict[str, str] = {}
    for message in provider.requests[-1].body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "tool_result":
                found[block["tool_use_id"]] = _text_of(block["content"])
    return found


def _text_of(content: Any) -> str:
    text = content if isinstance(content, str) else "\n".join(str(each.get("text")) for each in content)
    return text.split("\n\n<system-reminder>")[0].removeprefix(PREFIX).removeprefix(INSTEAD)


class TestInline(WaitingScenarios):
    """The PreToolUse hook: every call is asked about."""

    FAILED = "the bank is closed"
    TOOL = REFUND
    permissions = False

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        asked = [function_call(REFUND, dict(given), call_id=id_) for id_, given in calls]
        schemas = {REFUND: SCHEMA}
        async with ClaudeGate(
            gate, permissions=self.permissions, session=session, schemas=schemas, **options
        ) as claude:
            given = options_in(bank.folder, mcp_servers={"bank": bank_server(bank)})
            return await said_of(claude.options(given), asked)


class TestPermission(TestInline):
    """`can_use_tool`: what Claude Code would ask about."""

    permissions = True


async def test_commands_of_claude_code_itself_are_gated_also_where_it_would_let_them_run(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, ClaudeGate(scene.gate, passes=("Read",)) as claude:
        options = options_in(tmp_path, permission_mode="bypassPermissions", allowed_tools=["Bash", "Read"])
        options.env["IS_SANDBOX"] = "1"
        note = Path(options.cwd or "") / "note"
        note.write_text("hello there")
        witness = tmp_path / "witness"
        steps = (
            [function_call("Bash", {"command": f"echo {n} >> {witness}", "description": "a test"}, call_id=f"c{n}")]
            for n in (1, 2)
        )
        read = [function_call("Read", {"file_path": str(note)}, call_id="c3")]

        async def decide() -> None:
            await scene.decide("approve")
            (asked,) = await scene.decide("reject", message="Not on a Friday.")
            assert (asked.agent, asked.tool) == ("host/bot", "Bash")

        _, told = await together(decide(), said_of(claude.options(options), *steps, read))

        assert witness.read_text() == "1\n"
        assert "Not on a Friday." in told["c2"]
        assert "hello there" in told["c3"]


async def test_calls_of_a_subagent_are_gated_too(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, ClaudeGate(scene.gate, passes=("Agent", "Task")) as claude:
        witness = tmp_path / "witness"
        command = {"command": f"echo 1 >> {witness}", "description": "a test"}
        given = {"description": "pay", "prompt": "go", "subagent_type": "general-purpose", "run_in_background": False}
        _, _ = await together(
            scene.decide("reject", message="No."),
            said_of(
                claude.options(options_in(tmp_path)),
                [function_call("Agent", given, call_id="c1")],
                [function_call("Bash", command, call_id="c2")],
                [assistant_message("done")],
            ),
        )

        assert not witness.exists()


async def test_a_hook_that_breaks_stops_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_more: Any) -> None:
        raise ZeroDivisionError

    async with scene_in(tmp_path) as scene, ClaudeGate(scene.gate) as claude:
        monkeypatch.setattr(ClaudeGate, "_step", broken)
        options = options_in(tmp_path, mcp_servers={"bank": bank_server(scene.bank)}, allowed_tools=[REFUND])
        read = await said_of(claude.options(options), [function_call(REFUND, {"order": "7"}, call_id="c1")])

        assert "onFailure" in read["c1"]
        assert scene.bank.payments() == []


async def test_what_would_slip_past_is_refused_by_name(tmp_path: Path) -> None:
    async def change(*_args: Any) -> dict[str, Any]:
        return {}

    hooked: dict[str, Any] = {"hooks": {"PreToolUse": [HookMatcher(hooks=[change])]}}
    async with scene_in(tmp_path) as scene:
        for permissions, given, name in (
            (False, {"setting_sources": None}, "settings"),
            (False, {"settings": json.dumps({"hooks": {}})}, "settings"),
            (False, {"plugins": [{"type": "local", "path": "x"}]}, "plugins"),
            (False, hooked, "PreToolUse hooks of others"),
            (True, {"permission_mode": "acceptEdits"}, "acceptEdits"),
            (True, {"allowed_tools": ["Bash"]}, "'Bash'"),
            (True, {"can_use_tool": change}, "can_use_tool"),
        ):
            async with ClaudeGate(scene.gate, permissions=permissions) as claude:
                with pytest.raises(UserError, match=name):
                    claude.options(options_in(tmp_path, **given))  # type: ignore[arg-type]
        with pytest.raises(UserError, match="entered"):
            ClaudeGate(scene.gate).options()


async def test_a_call_that_claude_code_gives_up_is_taken_back(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene, ClaudeGate(scene.gate) as claude:
        options = options_in(tmp_path, mcp_servers={"bank": bank_server(scene.bank)})
        talking = asyncio.create_task(
            said_of(claude.options(options), [function_call(REFUND, {"order": "7"}, call_id="c1")])
        )
        await scene.asked()
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        async with asyncio.timeout(60):
            while await scene.desk.pending():
                await scene.desk.store.wait_for_news(await scene.desk.store.latest_sequence(), 1.0)

        assert scene.bank.payments() == []


def test_the_examples_of_the_page_run_and_print_what_it_shows() -> None:
    assert run_examples(DOCS / "gate-claude-agent-sdk.md", "python on-host") == 1

"""Claude Code's own command line as a client of the gateway: out of the wheel of its SDK, with the fake provider."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.testing import FakeProvider, assistant_message, function_call
from tests.gate.hosts.adapters import set_up
from tests.gate.hosts.frameworks import FRAMEWORKS, PLACES
from tests.gate.mcp.scenes import SHOP, Scene, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HOST = "claude-agent-sdk"
REFUND = "mcp__gateway__refund"


@pytest.fixture(scope="module")
def claude() -> Path:
    set_up(FRAMEWORKS[HOST])
    (found,) = (PLACES / HOST).glob("lib/python*/site-packages/claude_agent_sdk/_bundled/claude")
    return found


def configured(at: Scene) -> Path:
    """Claude Code's own form: one server, the gateway, behind which the shop stands."""
    shop = {"command": sys.executable, "args": [str(SHOP), "stdio"], "env": {"SHOP_EFFECTS": str(at.effects_file)}}
    behind = at.folder / "behind.json"
    behind.write_text(json.dumps({"mcpServers": {"shop": shop}, "placet": {"store": at.url, "wait": ["open"]}}))
    gateway = {"command": sys.executable, "args": ["-m", "placet.cli.main", "mcp", "serve", str(behind)]}
    found = at.folder / "claude.json"
    found.write_text(json.dumps({"mcpServers": {"gateway": gateway}}))
    return found


async def go(claude: Path, at: Scene, provider_url: str) -> None:
    """One prompt, in the mode in which Claude Code itself asks nobody."""
    home = at.folder / "home"
    home.mkdir()
    env = os.environ | {
        "HOME": str(home),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": provider_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "MAX_THINKING_TOKENS": "0",
        "IS_SANDBOX": "1",
    }
    words = ["-p", "go", "--model", "claude-sonnet-4-5", "--permission-mode", "bypassPermissions"]
    words += ["--mcp-config", str(configured(at)), "--strict-mcp-config"]
    process = await asyncio.create_subprocess_exec(
        str(claude), *words, cwd=home, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    try:
        _, complained = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, complained.decode()


def told(provider: FakeProvider) -> dict[str, str]:
    """What the model read of each call."""
    found: dict[str, str] = {}
    for message in provider.requests[-1].body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "tool_result":
                found[block["tool_use_id"]] = json.dumps(block["content"])
    return found


async def test_a_call_waits_for_a_person_also_where_claude_code_asks_nobody(at: Scene, claude: Path) -> None:
    calls: list[Any] = [
        [function_call(REFUND, {"order_id": f"{order}", "cents": 100}, call_id=f"c{order}")] for order in (7, 8)
    ]
    provider = FakeProvider([*calls, [assistant_message("Done.")]])

    async def decide() -> tuple[list[str], Any]:
        (first,) = await at.waiting()
        before = at.effects
        await at.desk.decide(first.id, "approve", by="ops")
        await until(lambda: len(at.effects) == 1)
        await at.nothing_waits()
        (second,) = await at.waiting()
        await at.desk.decide(second.id, "reject", by="ops", message="Not on a Friday.")
        return before, first

    async with provider.serve() as url:
        (before, first), _ = await asyncio.gather(decide(), go(claude, at, url))

    assert before == []
    assert first.tool == "shop/refund"
    assert len(at.effects) == 1
    assert "Not on a Friday." in told(provider)["c8"]

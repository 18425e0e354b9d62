"""The inspector's command line as a client, and the reference server for files, both from the npm registry."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.desk.access.accounts import Accounts
from placet.gate.mcp.config import GatewayConfig, Loaded, ServerConfig
from placet.gate.mcp.gateway import Gateway
from placet.gate.mcp.serving import gate_on_store, http_app
from tests.gate.mcp import npm_packages
from tests.gate.mcp.scenes import Scene, serving

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    npm_packages.set_up()


def files(folder: Path) -> dict[str, Any]:
    server = npm_packages.program("mcp-server-filesystem")
    return {"command": str(npm_packages.node()), "args": [str(server), str(folder)]}


async def inspect(*words: str) -> dict[str, Any]:
    """What the inspector printed, as a user of its command line reads it."""
    command = [str(npm_packages.node()), str(npm_packages.program("mcp-inspector")), "--cli", *words]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, complained = await process.communicate()
    # 5: the result is marked as an error. So is the handle of a tool that owes a structured result.
    assert process.returncode in (0, 5), complained.decode()
    found: dict[str, Any] = json.loads(printed)
    return found


async def call(target: list[str], tool: str, **arguments: str) -> dict[str, Any]:
    given = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")]
    return await inspect(*target, "--method", "tools/call", "--tool-name", tool, *given)


def text_in(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def acted(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


async def written_when_approved(at: Scene, target: list[str], file: Path) -> None:
    listed = await inspect(*target, "--method", "tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    told = await call(target, "write_file", path=str(file), content="hello")
    before = acted(file)
    await at.decide()
    handle = text_in(told).partition("Handle: ")[2].split()[0]
    done = await call(target, "placet_check", handle=handle, wait_seconds="40")

    assert {"write_file", "read_text_file", "placet_check"} <= names
    assert "A person is asked whether 'files/write_file' may run" in text_in(told)
    assert before is None
    assert not done.get("isError")
    assert acted(file) == "hello"


async def test_the_inspector_over_stdio(at: Scene) -> None:
    shared = at.folder / "shared"
    shared.mkdir()
    config = at.folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"files": files(shared)}, "placet": {"store": at.url}}))
    target = [sys.executable, "-m", "placet.cli.main", "mcp", "serve", str(config)]

    await written_when_approved(at, target, shared / "note.txt")


async def test_the_inspector_over_http_with_a_guests_token(at: Scene) -> None:
    shared = at.folder / "shared"
    shared.mkdir()
    config = GatewayConfig(servers={"files": ServerConfig(**files(shared))})
    loaded = Loaded(config=config, path=at.folder / "g.toml")
    gateway = Gateway(loaded, lambda guest: gate_on_store(config, at.url, guest))
    accounts = Accounts(at.store)
    await accounts.add_user("ana", "guest")
    token, _ = await accounts.add_token("ana", "a test")

    async def who(given: str) -> str | None:
        actor = await accounts.actor_of_token(given)
        return actor.name if actor is not None else None

    async with serving(http_app(gateway, who, ["127.0.0.1:*"], [])) as url:
        target = ["--transport", "http", "--server-url", f"{url}/mcp", "--header", f"Authorization: Bearer {token}"]
        await written_when_approved(at, target, shared / "note.txt")
        await gateway.close()

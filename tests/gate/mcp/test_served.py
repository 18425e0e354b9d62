"""The gateway as it is served: by the command, on standard input and output, and over HTTP to guests with a token."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from placet.desk.access.accounts import Accounts
from placet.gate.mcp.config import GatewayConfig, Loaded
from placet.gate.mcp.gateway import Gateway
from placet.gate.mcp.serving import Who, gate_at_desk, gate_on_store, http_app, who_at_desk
from tests.gate.mcp.scenes import SHOP, Scene, handle_of, serving, text_of
from tests.gate.scenes import remote_scene

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
HOSTS = ["127.0.0.1:*"]
ROOT = Path(__file__).parents[3]


def config_in(at: Scene) -> Path:
    entry = {"command": sys.executable, "args": [str(SHOP), "stdio"], "env": {"SHOP_EFFECTS": str(at.effects_file)}}
    settings = {"store": at.url, "wait": ["handle"]}
    file = at.folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"shop": {**entry, "autoApprove": ["refund"]}}, "placet": settings}))
    return file


@ERAS
async def test_the_command_serves_a_client_over_stdio_and_a_restart_finds_its_calls(at: Scene, mode: str) -> None:
    params = StdioServerParameters(
        command=sys.executable, args=["-m", "placet.cli.main", "mcp", "serve", str(config_in(at))], cwd=ROOT
    )
    async with Client(stdio_client(params), mode=mode) as client:  # type: ignore[arg-type]  # a mode is a text
        names = {tool.name for tool in (await client.list_tools()).tools}
        told = await client.call_tool("refund", {"order_id": "7", "cents": 4200})
    before = at.effects
    await at.decide()
    async with Client(stdio_client(params), mode=mode) as client:  # type: ignore[arg-type]  # as above
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert {"refund", "add", "placet_check"} <= names
    assert before == []
    assert text_of(done) == "refunded 7"
    assert at.effects == ["refund 7 4200"]


@pytest.mark.parametrize("asked", ["nothing", "something"])
def test_a_client_that_is_gone_is_the_end_and_no_error(tmp_path: Path, asked: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        f"""store = "sqlite:///{tmp_path / "placet.db"}"\n[servers.shop]\npython = "tests.mcp.shop:shop"\n"""
    )
    words = [sys.executable, "-m", "placet.cli.main", "mcp", "serve", str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603  # our own command
        words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, text=True
    ) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        assert gateway.stderr is not None
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
        greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
        gateway.stdin.write(json.dumps(greeting) + "\n")
        gateway.stdin.flush()
        greeted = json.loads(gateway.stdout.readline())
        gateway.stdout.close()  # nobody hears it any more
        if asked == "something":
            for number in range(2, 6):
                gateway.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list"}) + "\n")
            gateway.stdin.flush()
            time.sleep(2)  # for the answers to meet the closed pipe; too short a time only makes the test kinder
        gateway.stdin.close()
        said = gateway.stderr.read()
        code = gateway.wait(60)

    assert greeted["id"] == 1
    assert (code, said) == (0, "")


@asynccontextmanager
async def client_with(url: str, token: str, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,  # type: ignore[arg-type]  # as above
    ):
        yield client


def gateway_on_store(at: Scene) -> tuple[Gateway, Who]:
    config = GatewayConfig(servers={"shop": at.shop_here()}, wait=("handle",))
    gateway = Gateway(
        Loaded(config=config, path=at.folder / "g.toml"), lambda guest: gate_on_store(config, at.url, guest)
    )
    accounts = Accounts(at.store)

    async def who(token: str) -> str | None:
        actor = await accounts.actor_of_token(token)
        return actor.name if actor is not None and actor.role == "guest" else None

    return gateway, who


@ERAS
async def test_over_http_each_guest_has_its_own_token_and_its_own_calls(at: Scene, mode: str) -> None:
    gateway, who = gateway_on_store(at)
    accounts, tokens = Accounts(at.store), {}
    for name in ("ana", "eve"):
        await accounts.add_user(name, "guest")
        tokens[name], _ = await accounts.add_token(name, "a test")
    async with serving(http_app(gateway, who, HOSTS, [])) as url:
        async with client_with(url, tokens["ana"], mode) as ana, client_with(url, tokens["eve"], mode) as eve:
            told = await ana.call_tool("refund", {"order_id": "7", "cents": 4200})
            [request] = await at.waiting()
            await at.decide()
            stolen = await eve.call_tool("placet_check", {"handle": handle_of(told)})
            done = await ana.call_tool("placet_check", {"handle": handle_of(told)})
        await gateway.close()

    assert request.agent == "mcp/ana"
    assert text_of(stolen) == "There is no such call of yours."
    assert text_of(done) == "refunded 7"


async def test_over_http_nobody_comes_in_without_a_guests_token_or_from_another_site(at: Scene) -> None:
    gateway, who = gateway_on_store(at)
    accounts = Accounts(at.store)
    await accounts.add_user("rita", "reviewer", password="a long password")
    await accounts.add_user("ana", "guest")
    reviewer, _ = await accounts.add_token("rita", "a test")
    guest, _ = await accounts.add_token("ana", "a test")
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with serving(http_app(gateway, who, HOSTS, [])) as url, httpx2.AsyncClient(timeout=60) as http:

        async def status(token: str | None, **more: str) -> int:
            headers = {**accept, **more} | ({"Authorization": f"Bearer {token}"} if token else {})
            return (await http.post(f"{url}/mcp", json=body, headers=headers)).status_code

        found = [await status(None), await status("placet_no_token"), await status(reviewer)]
        foreign = await status(guest, Origin="https://evil.example")
        rebound = await status(guest, Host="evil.example")
        await gateway.close()

    assert found == [401, 401, 401]
    assert foreign == 403
    assert rebound == 421


@ERAS
async def test_at_a_desk_the_clients_token_is_the_guests(tmp_path: Path, mode: str) -> None:
    config = GatewayConfig(
        servers={"shop": Scene(tmp_path, None, None).shop_here()},  # type: ignore[arg-type]  # no desk is needed for it
        wait=("handle",),
    )
    async with remote_scene("sqlite://:memory:") as desk:
        gateway = Gateway(Loaded(config=config, path=tmp_path / "g.toml"), lambda token: gate_at_desk(desk.url, token))
        token = await desk.token("ana")
        async with serving(http_app(gateway, who_at_desk(desk.url), HOSTS, [])) as url:
            async with client_with(url, token, mode) as client:
                told = await client.call_tool("add", {"a": 1, "b": 2})
                [request] = await desk.desk.pending()
                await desk.decide(request.id, "approve")
                done = await client.call_tool("placet_check", {"handle": handle_of(told)})
            refused = await who_at_desk(desk.url)("placet_not_a_token")
            await gateway.close()

    assert request.agent == "mcp/ana"
    assert text_of(done) == "3"
    assert refused is None

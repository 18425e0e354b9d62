"""The MCP gateway beside a plain proxy of the same SDK: processor time of a call that passes, all in one process."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.shared.memory import create_client_server_memory_streams

from bench.systems.report import Report, options_of
from placet.gate.mcp.config import GatewayConfig, Loaded, ServerConfig
from placet.gate.mcp.gateway import Gateway
from placet.gate.mcp.pins import Pins, written
from placet.gate.mcp.serving import gate_on_store

BUDGET = 0.002
"""Seconds of processor time that the gateway may cost more than the proxy, for each call that passes."""
echoing = MCPServer("echoing")


@echoing.tool()
def echo(what: str) -> str:
    """Say it again."""
    return what


def main(arguments: Sequence[str]) -> int:
    options = options_of("gateway", __doc__ or "", arguments)
    report = Report("gateway", "a plain proxy")
    rounds, calls = (1, 3) if options.quick else (5, 100)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(report, Path(folder), rounds, calls))
    return report.finish(options)


async def _measure(report: Report, folder: Path, rounds: int, calls: int) -> None:
    for mode, era in (("legacy", "2025-11-25"), ("auto", "2026-07-28")):
        here = folder / mode
        here.mkdir()  # nothing is measured yet
        async with (
            _client(echoing._lowlevel_server, "legacy") as upstream,
            _client(proxy(upstream), mode) as plain,
            _gateway(here, "straight") as straight,
            _gateway(here, "recorded") as recorded,
            _client(straight.server, mode) as through,
            _client(recorded.server, mode) as noted,
        ):
            best: dict[str, float] = {}
            for _ in range(rounds):  # they take turns, and the least of each counts
                for name, client in (("plain", plain), ("through", through), ("noted", noted)):
                    best[name] = min(best.get(name, 1e9), await _cost(client, calls))
        more = best["through"] - best["plain"]
        _add(
            report, f"a call that passes, {era} ({'within' if more <= BUDGET else 'OVER'} the budget)", best, "through"
        )
        _add(report, f"a call that asks nobody and is recorded, on SQLite, {era}", best, "noted")


async def _cost(client: Client, calls: int) -> float:
    await client.call_tool("echo", {"what": "warm"})
    before = time.process_time()
    for _ in range(calls):
        await client.call_tool("echo", {"what": "again"})
    return (time.process_time() - before) / calls


def _add(report: Report, work: str, best: dict[str, float], which: str) -> None:
    mine, plain = best[which], best["plain"]
    report.add(work, f"{mine * 1e3:.2f} ms", f"{plain * 1e3:.2f} ms", mine / plain)


# -- what is measured -------------------------------------------------------------------------------------------------


def proxy(upstream: Client) -> Server[Any]:
    """What one writes with the SDK in ten lines: a server whose handlers ask a client."""

    async def tools(_context: Any, _params: Any) -> Any:
        return await upstream.list_tools()

    async def call(_context: Any, params: Any) -> Any:
        return await upstream.call_tool(params.name, params.arguments)

    return Server("proxy", on_list_tools=tools, on_call_tool=call)


@contextlib.asynccontextmanager
async def _gateway(folder: Path, how: str) -> AsyncIterator[Gateway]:
    passing = ["*"] if how == "straight" else []
    server = ServerConfig(
        python="bench.systems.gateway:echoing", require_approval="never", pass_through=passing, protocol="legacy"
    )
    config = GatewayConfig(servers={"echoing": server}, grace=0.1)
    loaded = Loaded(config=config, path=folder / f"{how}.toml")
    url = f"sqlite:///{folder / how}.db"
    gateway = Gateway(loaded, lambda guest: gate_on_store(config, url, guest))
    line = (await gateway._shared("pinning")).line
    assert line is not None
    offers = (await line.catalog("tools")).by_name.values()
    loaded.pins.write_text(written(Pins().with_server("echoing", [offer.raw for offer in offers])))
    try:
        yield gateway
    finally:
        await gateway.close()


@contextlib.asynccontextmanager
async def _client(server: Server[Any], mode: str) -> AsyncIterator[Client]:
    async with Client(_wire(server), mode=mode) as client:  # type: ignore[arg-type]  # a mode is a text
        yield client


@contextlib.asynccontextmanager
async def _wire(server: Server[Any]) -> AsyncIterator[Any]:
    async with (
        create_client_server_memory_streams() as (client, (read, write)),
        anyio.create_task_group() as group,
    ):
        group.start_soon(server.run, read, write, server.create_initialization_options())
        yield client
        group.cancel_scope.cancel()

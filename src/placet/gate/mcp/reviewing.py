"""What each server lists, beside what was pinned of it: for the one person who takes all of it as reviewed.

Rule of this file: what is pinned is what was shown. The servers are asked once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.types.version import LATEST_MODERN_VERSION

from placet.facts.errors import UserError
from placet.gate.mcp.asking import Asking, Tool
from placet.gate.mcp.config import GatewayConfig
from placet.gate.mcp.line import Line
from placet.gate.mcp.pins import Pins, State, oddities
from placet.gate.mcp.raw import Params
from placet.gate.mcp.upstream import Greeting


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as a reviewer sees it."""

    raw: dict[str, Any]
    state: State
    diff: str
    """Of one that changed: how."""
    odd: list[str]
    asks: bool
    """Whether a person is asked about its calls, once it is pinned."""

    @property
    def name(self) -> str:
        return str(self.raw.get("name"))

    @property
    def says(self) -> str:
        """Its description, in one line."""
        return " ".join(str(self.raw.get("description") or self.raw.get("title") or "").split())


class ReviewedServer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tools: list[Reviewed]
    gone: list[str]
    """Pinned, and not listed any more."""
    error: str | None = None
    """Why it cannot be reviewed."""
    unmet: list[str] = []
    """What its settings say of tools that it does not list."""

    @property
    def has_news(self) -> bool:
        return bool(self.gone) or any(tool.state != "pinned" for tool in self.tools)

    def pinned_in(self, pins: Pins) -> Pins:
        return pins.with_server(self.name, [tool.raw for tool in self.tools])


class _Nobody:
    """There is no client behind a review."""

    async def tell(self, _method: str, _params: Params | None) -> None: ...

    async def ask_desk(self, _server: str, _params: Params | None, _seconds: float) -> dict[str, Any]:
        raise MCPError(types.METHOD_NOT_FOUND, "Nobody is here to be asked: the tools are being reviewed.")

    async def ask(self, _server: str, method: str, _params: Params | None) -> dict[str, Any]:
        raise MCPError(types.METHOD_NOT_FOUND, "Nobody is here to be asked: the tools are being reviewed.", method)


async def reviewed(config: GatewayConfig, pins: Pins, only: Collection[str] = ()) -> list[ReviewedServer]:
    """All servers of a configuration, or some: each with its tools as they are now."""
    unknown = set(only) - set(config.servers)
    if unknown:
        raise UserError(f"There is no server {min(unknown)!r} in the configuration: {', '.join(config.servers)}.")
    names = [name for name in config.servers if not only or name in only]
    return [await _server(name, config, pins) for name in names]


async def _server(name: str, config: GatewayConfig, pins: Pins) -> ReviewedServer:
    server = config.servers[name]
    greeting = Greeting(version=LATEST_MODERN_VERSION, client_info={"name": "placet", "version": "0"}, capabilities={})
    line = Line({name: server}, greeting, _Nobody())
    try:
        catalog = await line.catalog("tools")
    except (MCPError, UserError) as error:
        return ReviewedServer(name=name, tools=[], gone=[], error=str(error))
    finally:
        await line.close()
    listed = [offer.raw for offer in catalog.by_name.values()]
    after = pins.with_server(name, listed)  # what it will be, once somebody has said yes to it
    asking = Asking(name, server, config.guest)
    tools = []
    for raw in listed:
        verdict = await asking.judge(Tool(server=name, name=str(raw.get("name")), raw=raw), after)
        state = pins.state_of(name, raw)
        diff = pins.diff_of(name, raw) if state == "changed" else ""
        tools.append(Reviewed(raw=raw, state=state, diff=diff, odd=oddities(raw), asks=verdict.asks))
    gone = sorted(set(pins.servers.get(name, {})) - {tool.name for tool in tools})
    return ReviewedServer(name=name, tools=tools, gone=gone, unmet=asking.unmet([tool.name for tool in tools]))

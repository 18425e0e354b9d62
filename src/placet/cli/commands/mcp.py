"""`placet mcp`: a gateway between MCP clients and MCP servers, which asks people before their tools do harm."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
from click import UsageError

from placet.cli.client import token_of
from placet.cli.commands.mcp_settings import loaded_from, need_the_extra, pin, unwrap, wrap
from placet.cli.options import DEFAULT_STORE, SETTINGS, ExitCodes, Place, StoreUrl
from placet.cli.output import complain


class McpGroup(ExitCodes, click.Group):
    """None of its actions is meant where none is written."""


@click.group("mcp", cls=McpGroup, context_settings=SETTINGS)
def mcp() -> None:
    """A gateway in front of any MCP servers: people approve what their tools do, whatever the client does.

    No client and no server has to be changed: the gateway is a server to the one and a client to the others.
    """


config_argument = click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))


@mcp.command("serve", context_settings=SETTINGS)
@config_argument
@click.option("--http", is_flag=True, help="serve over HTTP, to clients with a guest's token, instead of stdio")
@click.option("--host", default="127.0.0.1", help="with --http: the address to listen on (default: 127.0.0.1)")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8331,
    metavar="PORT",
    help="with --http: the port (default: 8331; 0: a free one)",
)
@click.option("--host-name", multiple=True, metavar="NAME", help="with --http: a name under which clients reach it")
@click.option("--desk", metavar="URL", help="the desk that is asked (default: the configuration, or $PLACET_DESK)")
@click.option("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN")
@click.option("--store", type=StoreUrl(), metavar="URL", help="a store instead of a desk (default: $PLACET_STORE)")
def serve(
    config: Path,
    *,
    http: bool,
    host: str,
    port: int,
    host_name: tuple[str, ...],
    desk: str | None,
    token_file: str | None,
    store: str | None,
) -> int:
    """Serve a gateway: one endpoint for one client on standard input and output, or for many over HTTP.

    CONFIG is a TOML file, or the JSON with «mcpServers» that clients use. Calls wait at a desk, or on a store: then
    «placet serve --no-run» on the same store is where people decide.
    """
    need_the_extra()
    if desk and store:
        raise UsageError("--desk asks a desk and --store goes straight to a store: write one of them.")
    loaded = loaded_from(config)
    at_desk, on_store = _place(desk, store, loaded.config.desk, loaded.config.store)
    token = token_of(Place(desk=at_desk, token_file=token_file)) if at_desk else None
    if http:
        return asyncio.run(_over_http(loaded, at_desk, on_store, host, port, host_name))
    return asyncio.run(_on_stdio(loaded, at_desk, on_store, token))


mcp.add_command(pin)
mcp.add_command(wrap)
mcp.add_command(unwrap)


def _place(desk: str | None, store: str | None, own_desk: str | None, own_store: str | None) -> tuple[str | None, str]:
    """Which desk, else which store: as written here, in the configuration, or in the environment."""
    if desk or (own_desk and not store):
        return desk or own_desk, ""
    if store or own_store:
        return None, store or StoreUrl().convert(own_store, None, None)
    if os.environ.get("PLACET_DESK"):
        return os.environ["PLACET_DESK"], ""
    return None, StoreUrl().convert(os.environ.get("PLACET_STORE") or DEFAULT_STORE, None, None)


async def _on_stdio(loaded: Any, desk: str | None, store: str, token: str | None) -> int:  # Any: typed where mcp is
    import logging

    from placet.gate.mcp.gateway import Gateway
    from placet.gate.mcp.serving import gate_at_desk, gate_on_store, serve_stdio

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="placet mcp: %(message)s")
    config = loaded.config
    if desk:
        gateway = Gateway(loaded, lambda _guest: gate_at_desk(desk, token))
    else:
        gateway = Gateway(loaded, lambda guest: gate_on_store(config, store, guest))
    await serve_stdio(gateway)
    return 0


async def _over_http(
    loaded: Any, desk: str | None, store: str, host: str, port: int, host_names: tuple[str, ...]
) -> int:
    import uvicorn

    from placet.cli.serving import bind, log_to_stderr
    from placet.gate.mcp.gateway import Gateway
    from placet.gate.mcp.serving import PATH, gate_at_desk, gate_on_store, http_app, who_at_desk

    log_to_stderr()
    config = loaded.config
    if desk:
        gateway, who = Gateway(loaded, lambda token: gate_at_desk(desk, token)), who_at_desk(desk)
        await _serve(uvicorn, bind(host, port), gateway, who, host_names, http_app, PATH)
        return 0
    from placet.desk.access.accounts import Accounts
    from placet.stores.opening import open_store

    async with open_store(store) as opened:
        accounts = Accounts(opened)

        async def who(token: str) -> str | None:
            actor = await accounts.actor_of_token(token)
            return actor.name if actor is not None and actor.role == "guest" else None

        gateway = Gateway(loaded, lambda guest: gate_on_store(config, store, guest))
        await _serve(uvicorn, bind(host, port), gateway, who, host_names, http_app, PATH)
    return 0


async def _serve(
    uvicorn: Any, listening: Any, gateway: Any, who: Any, host_names: tuple[str, ...], http_app: Any, path: str
) -> None:
    host, port = listening.getsockname()[:2]
    names = ["127.0.0.1", "localhost", "[::1]", host, *host_names]
    hosts = [each for name in names for each in (name, f"{name}:*")]
    origins = [f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts]
    app = http_app(gateway, who, hosts, origins)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=3))
    complain(f"the gateway is at http://{host}:{port}{path}. Clients need a token of a guest: placet tokens add.")
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, setattr, server, "should_exit", True)
    try:
        await server._serve([listening])  # with signal handlers of our own: its would raise the signal again
    finally:
        await gateway.close()

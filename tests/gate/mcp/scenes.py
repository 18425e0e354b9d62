"""A gateway between a real client of the SDK and real servers, on a store with a desk where people decide."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams
from mcp.types import CallToolResult

from placet.core.log import read_lines
from placet.core.story import story_of
from placet.desk import Desk
from placet.desk.pages.history import all_before
from placet.desk.web.deciding import call_of
from placet.desk.web.sockets import listen
from placet.gate.mcp.config import GatewayConfig, Loaded, ServerConfig
from placet.gate.mcp.gateway import GateOf, Gateway
from placet.gate.mcp.pins import Pins, written
from placet.gate.mcp.serving import gate_on_store
from placet.ports import DeskStore
from placet.stores.opening import open_store

SHOP = Path(__file__).parents[2] / "mcp" / "shop.py"
PATIENCE = 60.0


class Scene:
    """What a test of the gateway has in its hands."""

    def __init__(self, folder: Path, desk: Desk, store: DeskStore) -> None:
        self.folder = folder
        self.desk = desk
        self.store = store
        self.effects_file = folder / "effects.txt"
        self.url = f"sqlite:///{folder / 'placet.db'}"
        self.pins_file = folder / "gateway.pins.json"
        self.gateways: list[Gateway] = []

    def shop(self, **settings: Any) -> ServerConfig:
        env = {"SHOP_EFFECTS": str(self.effects_file), **settings.pop("env", {})}
        return ServerConfig(command=sys.executable, args=[str(SHOP), "stdio"], env=env, **settings)

    def shop_here(self, **settings: Any) -> ServerConfig:
        """The same server in this process, where starting it costs nothing."""
        return ServerConfig(python="tests.mcp.shop:shop", **settings)

    @property
    def effects(self) -> list[str]:
        """What really happened, by the word of the server."""
        return self.effects_file.read_text().splitlines() if self.effects_file.exists() else []

    @contextlib.asynccontextmanager
    async def gateway(
        self, servers: dict[str, ServerConfig], *, door: GateOf | None = None, **settings: Any
    ) -> AsyncIterator[Gateway]:
        config = GatewayConfig(servers=servers, **{"grace": 2.0, **settings})
        loaded = Loaded(config=config, path=self.folder / "gateway.toml")
        gateway = Gateway(loaded, door or (lambda guest: gate_on_store(config, self.url, guest)))
        self.gateways.append(gateway)
        try:
            yield gateway
        finally:
            await gateway.close()

    async def pin(self, gateway: Gateway, *servers: str) -> None:
        """Take what the servers list now as reviewed."""
        pins = Pins()
        line = (await gateway._shared("pinning")).line
        assert line is not None
        catalog = await line.catalog("tools", fresh=True)
        for server in servers or gateway.config.servers:
            pins = pins.with_server(server, [o.raw for o in catalog.by_name.values() if o.server == server])
        self.pins_file.write_text(written(pins))

    async def waiting(self, count: int = 1) -> list[Any]:
        """The requests that wait for people, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.desk.pending(limit=1000)
                if len(found) >= count:
                    return list(found)
                await asyncio.sleep(0.02)

    async def led_to(self, request: Any) -> str:
        """What the card of a request says that led to it."""
        stored = await self.store.load(request.run_id)
        assert stored is not None
        assert stored.log is not None
        call, _ = call_of(request.id)
        return all_before(story_of(read_lines(stored.log.lines)), call)[-1].text

    async def nothing_waits(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.desk.pending():  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.02)

    async def decide(self, verdict: Any = "approve", which: int = 0, **more: Any) -> None:
        request = (await self.waiting(which + 1))[which]
        await self.desk.decide(request.id, verdict, by="ops", **more)


@contextlib.asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    store = open_store(f"sqlite:///{folder / 'placet.db'}")
    async with store, Desk(store, run=False) as desk:
        yield Scene(folder, desk, store)


def client_of(gateway: Gateway, mode: str = "legacy", **options: Any) -> Client:
    """A client of the SDK on a connection like that of standard input and output."""
    return Client(wire(gateway), mode=mode, **options)  # type: ignore[arg-type]  # a mode is a text


@contextlib.asynccontextmanager
async def wire(gateway: Gateway) -> AsyncIterator[Any]:
    async with (
        create_client_server_memory_streams() as (client, (read, write)),
        anyio.create_task_group() as group,
    ):
        options = gateway.server.create_initialization_options()
        group.start_soon(gateway.server.run, read, write, options)
        yield client
        with contextlib.suppress(anyio.ClosedResourceError):
            await client[1].aclose()  # the client hangs up, and the gateway lets go of the session


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An application on a port of this machine: its address."""
    given = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1))
    task = asyncio.create_task(server._serve([given]))  # without uvicorn's signal handlers: pytest has its own
    try:
        async with asyncio.timeout(PATIENCE):
            while not server.started:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{given.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def until(is_so: Callable[[], bool]) -> None:
    """What happens in another task, soon."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)


def text_of(result: CallToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def handle_of(result: CallToolResult) -> str:
    assert result.meta is not None, text_of(result)
    return str(result.meta["placet/handle"])

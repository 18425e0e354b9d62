"""A store with a desk over it, and gates to it: on the store itself, or over HTTP to the served desk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.desk.app import create_app
from placet.desk.server import new_server
from placet.desk.web.sockets import listen
from placet.gate import Gate
from placet.ports import DeskStore
from placet.service.guest_limits import GuestLimits
from placet.service.guest_sweep import end_by_time
from placet.stores.opening import open_store
from placet.testing import ManualClock
from placet.testing.gate_contract import MAX_CALLS, MAX_WAITING
from tests.support.desk_server import FAST, PATIENCE

LIMITS = GuestLimits(
    max_calls=MAX_CALLS, max_waiting=MAX_WAITING, asks_per_second=10_000, burst=10_000, recovery_seconds=600
)


class Scene:
    """On the store itself."""

    def __init__(self, store: DeskStore, clock: ManualClock, desk: Desk) -> None:
        self.store = store
        self.clock = clock
        self.desk = desk

    @contextlib.asynccontextmanager
    async def gate(self, guest: str = "jobs", **options: Any) -> AsyncIterator[Gate]:
        async with Gate(self.store, guest=guest, clock=self.clock, limits=LIMITS, **options) as gate:
            yield gate

    async def decide(self, request_id: str, verdict: Any, **more: Any) -> None:
        await self.desk.decide(request_id, verdict, by="ops", **more)

    async def revoke(self, request_id: str) -> None:
        await self.desk.revoke(request_id, by="ops")

    async def hold(self, tool: str) -> None:
        await self.desk.hold("tool", tool, by="ops")

    async def release(self, tool: str) -> None:
        await self.desk.release_hold("tool", tool, by="ops")

    async def cancel(self, run_id: str) -> None:
        await self.desk.cancel(run_id, by="ops")

    async def sweep(self) -> None:
        await self.desk.guests.end_leases()
        await end_by_time(self.store, self.desk.guests, self.clock.now())


class RemoteScene(Scene):
    """Over HTTP, each guest with a token of its own."""

    url = ""
    accounts: Accounts

    @contextlib.asynccontextmanager
    async def gate(self, guest: str = "jobs", **options: Any) -> AsyncIterator[Gate]:
        token = await self.token(guest)
        async with Gate(self.url, token=token, guest=guest, clock=self.clock, **options) as gate:
            yield gate

    async def token(self, guest: str) -> str:
        accounts = self.accounts
        if await accounts.user(guest) is None:
            await accounts.add_user(guest, "guest")
        text, _ = await accounts.add_token(guest, "a test")
        return text


@contextlib.asynccontextmanager
async def embedded_scene(url: str) -> AsyncIterator[Scene]:
    clock = ManualClock()
    store = open_store(url, clock=clock)
    async with store, Desk(store, run=False, clock=clock, guest_limits=LIMITS) as desk:
        yield Scene(store, clock, desk)


@contextlib.asynccontextmanager
async def remote_scene(url: str) -> AsyncIterator[RemoteScene]:
    clock = ManualClock()
    store = open_store(url, clock=clock)
    async with store, Desk(store, run=False, clock=clock, guest_limits=LIMITS) as desk:
        app = create_app(desk, FAST, clock=clock)
        async with serving(app) as address:
            scene = RemoteScene(store, clock, desk)
            scene.url, scene.accounts = address, app.state.web.accounts
            yield scene


@contextlib.asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """The application on a port of this machine: its address."""
    given = listen("127.0.0.1", port)
    server = new_server(app)
    task = asyncio.create_task(server._serve([given]))  # without uvicorn's signal handlers: pytest has its own
    try:
        async with asyncio.timeout(PATIENCE):
            await server.is_ready.wait()
        yield f"http://127.0.0.1:{given.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task

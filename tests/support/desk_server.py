"""A real desk on the web for tests: uvicorn on a loopback port, a real store, runs that wait.

    async with running_desk(tmp_path) as server:        # an SQLite file in tmp_path; url=… for another store
        ana = await server.person("ana", "reviewer")      # a user with a token
        response = await ana.get("/v1/approvals")         # an HTTP client with ana's token
        cookie = await server.session("ana")              # («placet_session», value) for a browser
        run = await server.waiting_run()                  # a run of «Support» that waits with two refunds

`server.url` is where it listens, `server.web` what its routes share, `server.desk` the desk itself. The server runs in
the test's own event loop; `in_thread(…)` runs one in a thread for tests that are not asynchronous (browsers). The
agents are those of `support_agents()`: «Support» asks for two refunds and looks something up; «Archivist» wants to
delete a folder and takes nested, optional and enumerated arguments; «Hostile» has arguments that try to do harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
from pydantic import BaseModel, Field

from placet import Agent, RunConfig, function_tool
from placet.desk import Desk, DeskRun
from placet.desk.access.people import EVERYTHING, DecisionScope, Role
from placet.desk.app import create_app
from placet.desk.server import DeskServer, new_server
from placet.desk.web.context import Web
from placet.desk.web.settings import WebSettings
from placet.desk.web.sockets import listen
from placet.ports import DeskStore
from placet.testing import function_call
from tests.desk.scenes import Planned

PATIENCE = 90.0
PASSWORD = "correct horse battery"
FAST = WebSettings(requests_per_second=100_000, burst=100_000, logins_per_minute=100_000)
"""Limits that no test meets by accident."""


def support_agents() -> list[Agent[Any]]:
    return [_support(), _archivist(), _hostile()]


def _support() -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def refund(order_id: str, cents: Annotated[int, Field(gt=0)], reason: str = "") -> str:
        """Pay money back to the customer of an order."""
        return f"refunded {cents} for {order_id}"

    @function_tool
    async def look_up(order_id: str) -> str:
        """What is known about an order."""
        return f"order {order_id}: 49.00 EUR"

    calls = [
        function_call("look_up", {"order_id": "1042"}, call_id="c1"),
        function_call("refund", {"order_id": "1042", "cents": 4900, "reason": "broken"}, call_id="c2"),
        function_call("refund", {"order_id": "1077", "cents": 24800, "reason": "charged twice"}, call_id="c3"),
    ]
    return Agent(
        "Support",
        instructions="Help customers of a shop.",
        tools=[refund, look_up],
        model=Planned(calls, says="Both orders are settled."),
    )


class Retention(BaseModel):
    keep_days: int = 30
    notify: list[str] = []


def _archivist() -> Agent[Any]:
    @function_tool(needs_approval=True, decide_within=3600)
    async def delete_folder(
        path: str, mode: Literal["trash", "erase"], retention: Retention, older_than: float | None = None
    ) -> str:
        """Delete a folder and what is in it."""
        return f"{path} is gone"

    arguments = {"path": "/exports/2023", "mode": "trash", "retention": {"keep_days": 7, "notify": ["ops"]}}
    calls = [function_call("delete_folder", {**arguments, "older_than": None}, call_id="d1")]
    return Agent("Archivist", tools=[delete_folder], model=Planned(calls, says="The folder is gone."))


def _hostile() -> Agent[Any]:
    @function_tool(needs_approval=True, strict_mode=False)
    async def send_mail(to: str, subject: str, body: str) -> str:
        """Send a mail."""
        return "sent"

    arguments = {
        "to": "<img src=x onerror=\"document.title='owned'\">",
        "subject": "\u202etxt.exe",
        "body": "</script><script>document.title='owned'</script> [x](javascript:document.title='owned')",
    }
    calls = [function_call("send_mail", arguments, call_id="h1")]
    return Agent("Hostile", tools=[send_mail], model=Planned(calls, says="Sent."))


class RunningDesk:
    """A desk that serves on a port."""

    def __init__(self, desk: Desk, web: Web, port: int, server: DeskServer) -> None:
        self.desk = desk
        self.web = web
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self._clients: list[httpx2.AsyncClient] = []

    def client(self, token: str | None = None, **options: Any) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        client = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE, **options)
        self._clients.append(client)
        return client

    async def person(
        self,
        name: str,
        role: Role = "reviewer",
        *,
        decides: tuple[DecisionScope, ...] = EVERYTHING,
        can_log_in: bool = False,
    ) -> httpx2.AsyncClient:
        """A new user (with PASSWORD if `can_log_in`), and an HTTP client that shows their token."""
        password = PASSWORD if can_log_in else None
        await self.web.accounts.add_user(name, role, decides=decides, password=password)
        token, _ = await self.web.accounts.add_token(name, "tests")
        return self.client(token)

    async def session(self, name: str) -> tuple[str, str]:
        """The cookie of a new session of this user."""
        user = await self.web.accounts.user(name)
        assert user is not None
        cookie, _ = await self.web.accounts.open_session(user)
        return "placet_session", cookie

    async def waiting_run(self, agent: str = "Support", *, by: str | None = "web-form") -> DeskRun:
        run = await self.desk.start(agent, f"A customer wrote to {agent}.", by=by)
        return await self.desk.wait(run.id, until="paused", timeout=PATIENCE)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


@contextlib.asynccontextmanager
async def running_desk(
    folder: Path,
    *,
    url: str | DeskStore | None = None,
    agents: list[Agent[Any]] | None = None,
    settings: WebSettings = FAST,
    run: bool = True,
    run_config: RunConfig | None = None,
    policy: Any = None,
    **options: Any,
) -> AsyncIterator[RunningDesk]:
    """`options` go to `new_server`."""
    given = listen("127.0.0.1", 0)
    place = url or f"sqlite:///{folder / 'placet.db'}"
    async with Desk(
        place, agents=support_agents() if agents is None else agents, run=run, run_config=run_config, policy=policy
    ) as desk:
        app = create_app(desk, settings)
        server = new_server(app, **options)
        serving = asyncio.create_task(server._serve([given]))  # without uvicorn's signal handlers: pytest has its own
        running = RunningDesk(desk, app.state.web, given.getsockname()[1], server)
        try:
            async with asyncio.timeout(PATIENCE):
                await server.is_ready.wait()
            yield running
        finally:
            await running.close()
            server.should_exit = True
            await serving


class DeskInThread:
    """A running desk in a thread of its own: `do(coroutine)` does something in its event loop."""

    def __init__(self, running: RunningDesk, loop: asyncio.AbstractEventLoop) -> None:
        self.running = running
        self.url = running.url
        self._loop = loop

    def do(self, work: Any) -> Any:  # Any: a coroutine and its result
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


@contextlib.contextmanager
def in_thread(folder: Path, **options: Any) -> Iterator[DeskInThread]:
    """`options` go to `running_desk`."""
    started = threading.Event()
    found: list[DeskInThread | BaseException] = []
    ended: list[asyncio.Event] = []

    async def serve() -> None:
        done = asyncio.Event()
        try:
            async with running_desk(folder, **options) as running:
                found.append(DeskInThread(running, asyncio.get_running_loop()))
                ended.append(done)
                started.set()
                await done.wait()
        except BaseException as error:
            found.append(error)
            raise
        finally:
            started.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="desk-server", daemon=True)
    thread.start()
    assert started.wait(PATIENCE), "the desk did not start"
    desk = found[0]
    if isinstance(desk, BaseException):
        raise desk
    try:
        yield desk
    finally:
        desk._loop.call_soon_threadsafe(ended[0].set)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the desk did not stop"

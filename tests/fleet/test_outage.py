"""A PostgreSQL that goes away under a desk on the web and under a worker: all that they do beside their work hears of
it, and each says so once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet import Agent, function_tool
from placet.facts.errors import StoreError
from placet.fleet.procrastinate_engine import TASK, ProcrastinateEngine
from placet.stores.postgres import PostgresStore
from placet.testing import function_call
from tests.desk.scenes import Planned
from tests.fleet.scenes import PATIENCE, sooner_or_later
from tests.fleet.scenes import worker as worker_in
from tests.support.desk_server import running_desk
from tests.support.postgres import PostgresServer

TTL = 1.0


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="on", full_page_writes="on")
    yield server
    server.close()


@pytest.fixture
def actions(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What is logged, by its name."""
    found: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(str(vars(record).get("action", "")))

    keeping = Keeping(logging.INFO)
    logger = logging.getLogger("placet")
    with caplog.at_level(logging.INFO, "placet"):
        logger.addHandler(keeping)
        yield found
        logger.removeHandler(keeping)


class Lingering:
    """An agent whose tool ends when the test lets it."""

    def __init__(self, name: str) -> None:
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()

        @function_tool(recovery="retry")
        async def linger() -> str:
            self.has_begun.set()
            await self.may_end.wait()
            return "done"

        self.agent = Agent[Any](name, tools=[linger], model=Planned([function_call("linger", {}, call_id="c1")]))


async def test_a_database_that_goes_away_leaves_no_task_unheard_and_is_told_of_once(
    own_server: PostgresServer, tmp_path: Path, actions: list[str]
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    await _outage(own_server, tmp_path, actions)
    gc.collect()
    await asyncio.sleep(0)

    assert complaints == []


async def _outage(own_server: PostgresServer, folder: Path, actions: list[str]) -> None:
    url = own_server.fleet_database()
    here, there = Lingering("Here"), Lingering("There")
    store = PostgresStore(url, patience=0.5, lease_ttl=TTL)
    async with (
        worker_in(url, there.agent, ttl=TTL, patience=0.5) as worker,
        store,
        running_desk(folder, url=store, agents=[here.agent]) as server,
        asyncio.TaskGroup() as group,
    ):
        ana = await server.person("ana", "admin")
        runs = [await server.desk.start("Here", "go"), await _start_there(url, there.agent)]
        streams = [group.create_task(_listen(ana)) for _ in range(3)]
        waits = [group.create_task(_wait(server.desk, run.id)) for run in runs]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(here.has_begun.wait(), there.has_begun.wait())
        await sooner_or_later(lambda: server.web.feed.listeners == 3)
        await asyncio.to_thread(own_server.kill)
        await sooner_or_later(lambda: {"renewal_failed", "queue_away", "feed_interrupted"} <= set(actions))
        here.may_end.set()
        there.may_end.set()
        await sooner_or_later(lambda: {"store_away", "drive_failed"} <= set(actions))
        gc.collect()
        told = Counter(actions)
        await asyncio.to_thread(own_server.start)
        await sooner_or_later(worker.engine.is_ready.is_set)
        for run in runs:
            ended = await server.desk.wait(run.id, timeout=PATIENCE)
            assert ended.status == "ended"
        for each in [*streams, *waits]:
            each.cancel()

    assert told["renewal_failed"] == 2, "one store of the desk, one of the worker"
    assert told["feed_interrupted"] == told["store_away"] == told["queue_away"] == 1
    back = Counter(actions)
    assert back["renewal_resumed"] == 2
    assert back["feed_resumed"] == back["store_back"] == back["queue_back"] == 1


async def test_a_job_that_could_not_be_acknowledged_is_heard_of(postgres: PostgresServer) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    async with PostgresStore(postgres.fleet_database()) as store:
        app = ProcrastinateEngine(store)._app(_drive)

        async def job() -> None:
            await app.tasks[TASK](run="run_x")
            raise ConnectionError("the database is away")

        await asyncio.wait([asyncio.create_task(job())])
    gc.collect()
    await asyncio.sleep(0)

    assert complaints == []


async def _drive(_run_id: str) -> bool:
    return True


async def _start_there(url: str, agent: Agent[Any]) -> Any:
    from placet.desk import Desk

    async with PostgresStore(url) as store, Desk(store, agents=[agent], run=False) as desk:
        return await desk.start(agent.name, "go")


async def _listen(client: httpx2.AsyncClient) -> None:
    async with client.stream("GET", "/v1/events") as answer:
        async for _ in answer.aiter_bytes():
            pass


async def _wait(desk: Any, run_id: str) -> None:
    with contextlib.suppress(StoreError):  # whoever waited is told
        await desk.wait(run_id)

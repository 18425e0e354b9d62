"""DBOS: a workflow whose model calls and tool calls are steps; it waits for a person by `recv`, on a queue of its own.

What waits stands in a table of the program's own, written by a step: somebody has to be able to list it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Mapping, Sequence

import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID

from bench.durable.own_queue import is_postgres, path_of
from bench.durable.script import DONE, GATED, effect, linger, next_call

QUEUE = "runs"
PATIENCE = 600.0
ASKED = "CREATE TABLE IF NOT EXISTS asked (call text PRIMARY KEY, run text NOT NULL)"
ENDED = "SELECT count(*) FROM {schema}workflow_status WHERE status = 'SUCCESS' AND name = 'agent'"
_asked: list[str] = []
"""The database, for the step that writes into it."""


def _do(text: str, given: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    database = _asked[0]
    if is_postgres(database):
        with psycopg.connect(database, autocommit=True) as db:
            cursor = db.execute(text.replace("?", "%s").encode(), given)
            return cursor.fetchall() if cursor.description else []
    db = _files.setdefault(database, sqlite3.connect(path_of(database), isolation_level=None, check_same_thread=False))
    db.execute("PRAGMA busy_timeout = 30000")
    return db.execute(text, given).fetchall()


_files: dict[str, sqlite3.Connection] = {}
_connections: list[psycopg.AsyncConnection[tuple[object, ...]]] = []


@DBOS.step()
async def note_asked(call: str, run: str) -> None:
    database = _asked[0]
    if not is_postgres(database):
        _do("INSERT INTO asked (call, run) VALUES (?, ?) ON CONFLICT DO NOTHING", (call, run))
        return
    if not _connections:
        _connections.append(await psycopg.AsyncConnection.connect(database, autocommit=True))
    await _connections[0].execute("INSERT INTO asked (call, run) VALUES (%s, %s) ON CONFLICT DO NOTHING", (call, run))


@DBOS.step()
async def ask_model(run: str, done: int) -> dict[str, str] | None:
    asked = next_call(run, done)
    return None if asked is None else asked._asdict()


@DBOS.step()
async def act(order: str) -> str:
    done = effect(order)
    if linger():
        await asyncio.sleep(linger())
    return done


@DBOS.workflow(name="agent")
async def agent(run: str) -> str:
    outputs: list[str] = []
    while (asked := await ask_model(run, len(outputs))) is not None:
        if asked["tool"] == GATED:
            await note_asked(asked["order"], run)
            assert await DBOS.recv_async("decision", PATIENCE) == "approve"
        outputs.append(await act(asked["order"]))
    return DONE


def _url(database: str) -> str:
    return database if is_postgres(database) else f"sqlite:///{path_of(database)}-dbos"


def _launch(database: str, executor: str) -> None:
    _asked[:] = [database]
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": _url(database),
        "application_version": "1",
        "executor_id": executor,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()


async def prepare(database: str) -> None:
    _launch(database, "prepare")
    _do(ASKED)
    await DBOS.register_queue_async(QUEUE)
    DBOS.destroy()


async def alone(database: str, runs: Sequence[str]) -> None:
    if not _asked:
        _launch(database, "alone")
    for run in runs:
        with SetWorkflowID(run):
            handle = await DBOS.start_workflow_async(agent, run)
        assert await handle.get_result() == DONE, run


class Front:
    def __init__(self, database: str) -> None:
        _asked[:] = [database]
        self._client = DBOSClient(system_database_url=_url(database))
        self._is_postgres = is_postgres(database)
        self._database = database

    async def start(self, run: str) -> None:
        await self._client.enqueue_async({"workflow_name": "agent", "queue_name": QUEUE, "workflow_id": run}, run)

    async def waiting(self) -> Mapping[str, str]:
        return {str(call): str(run) for call, run in await asyncio.to_thread(_do, "SELECT call, run FROM asked")}

    async def decide(self, run: str) -> None:
        await self._client.send_async(run, "approve", "decision")

    async def ended(self) -> int:
        if self._is_postgres:
            ((count,),) = await asyncio.to_thread(_do, ENDED.format(schema="dbos."))
        else:
            with sqlite3.connect(f"{path_of(self._database)}-dbos") as db:
                ((count,),) = db.execute(ENDED.format(schema="")).fetchall()
        return int(str(count))

    async def close(self) -> None:
        self._client.destroy()


async def front(database: str) -> Front:
    return Front(database)


async def work(database: str, concurrency: int, ready: asyncio.Event) -> None:
    """Its queue has no limit of its own here: `concurrency` would only make it slower."""
    _launch(database, os.environ.get("PLACET_BENCH_WORKER", "w"))
    ready.set()
    await asyncio.Event().wait()

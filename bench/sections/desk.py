"""A desk over HTTP: decisions, pages and live listeners, with very many requests that wait.

Server and clients share one process, and the figures are of the clock: they hold the disk's share, and the clients'.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager

from bench import work as w

CLIENTS = 32
"""Who decide at the same time."""
PAGES = 50
"""Of which the fastest counts: what disturbs a page makes it slower, never faster."""
PATIENCE = 120.0
A_SECOND, SECONDS = 50, 10
"""Decisions a second that come whether the last one was answered or not, and for how long, while others listen."""


class Connection:
    """A client of HTTP/1.1 that is as small as can be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answer.partition("content-length:")[2].split("\r\n", 1)[0] or 0)
        return int(answer.split(" ", 2)[1]), await self._reader.readexactly(length)

    async def listen(self, path: str) -> None:
        """Open an event stream, and read on until its first words."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        await self._reader.readuntil(b"\r\n\r\n")
        await self._reader.readuntil(b"\n\n")

    async def next_event(self) -> None:
        while b"data:" not in await self._reader.readuntil(b"\n"):
            pass

    async def read_on(self) -> None:
        """For as long as something comes."""
        while await self._reader.read(65_536):
            pass

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connections(served: w.ServedDesk, count: int) -> AsyncIterator[list[Connection]]:
    head = "Host: 127.0.0.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in served.headers.items())
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            connection = Connection(*await asyncio.open_connection("127.0.0.1", served.port), head)
            stack.callback(connection.close)
            found.append(connection)
        yield found


async def decisions(subject: w.Subject, pending: int) -> w.Figures:
    wanted = min(pending // 2, 1000)
    async with subject.serve_desk(pending) as served, connections(served, min(CLIENTS, wanted)) as clients:
        left = iter(served.decisions[:wanted])
        statuses: list[int] = []

        async def decide(client: Connection) -> None:
            for path, body in left:
                status, _ = await client.ask("POST", path, body)
                statuses.append(status)

        began = time.perf_counter()
        await asyncio.gather(*(decide(client) for client in clients))
        seconds = time.perf_counter() - began
        w.expect(statuses, [200] * wanted, "answers to decisions")
        w.expect(await served.count_pending(), pending - wanted, "requests that wait afterwards")
    return {"decision": seconds / wanted}


async def pages(subject: w.Subject, pending: int) -> w.Figures:
    async with subject.serve_desk(pending) as served, connections(served, 1) as (client,):
        found = {}
        for name, path in served.pages.items():
            status, body = await client.ask("GET", path)  # the first one warms up
            w.expect((status, len(body) > 100), (200, True), f"{name}: status, and whether there is something in it")
            found[name] = min([await _seconds(client, path) for _ in range(PAGES)])
    return found


async def _seconds(client: Connection, path: str) -> float:
    began = time.perf_counter()
    await client.ask("GET", path)
    return time.perf_counter() - began


async def listeners(subject: w.Subject, count: int) -> w.Figures:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with subject.serve_desk(2) as served, connections(served, count) as clients, connections(served, 1) as (me,):
        for client in clients:
            await client.listen(served.events)
        path, body = served.decisions[0]
        async with asyncio.timeout(PATIENCE):
            began = time.perf_counter()
            status, _ = await me.ask("POST", path, body)
            await asyncio.gather(*(client.next_event() for client in clients))
            seconds = time.perf_counter() - began
        w.expect(status, 200, "answer to the decision")
    return {"told": seconds}


async def crowd(subject: w.Subject, count: int) -> w.Figures:
    """The median time of a decision, while so many listen and while nobody does: both in one run, on one machine."""
    wanted = A_SECOND * (SECONDS if count > 20 else 1)
    async with subject.serve_desk(2 * wanted) as served:
        alone = await _paced(served, served.decisions[:wanted])
        async with connections(served, count) as clients:
            for client in clients:
                await client.listen(served.events)
            reading = [asyncio.create_task(client.read_on()) for client in clients]
            crowded = await _paced(served, served.decisions[wanted : 2 * wanted])
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
    return {"crowded": crowded, "alone": alone}


async def _paced(served: w.ServedDesk, decisions: Sequence[tuple[str, bytes]]) -> float:
    """The median of what decisions take that come at a steady pace."""
    took: list[float] = []
    async with connections(served, CLIENTS) as clients:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for client in clients:
            free.put_nowait(client)

        async def decide(path: str, body: bytes) -> None:
            began = time.perf_counter()
            client = await free.get()
            status, _ = await client.ask("POST", path, body)
            took.append(time.perf_counter() - began)
            free.put_nowait(client)
            w.expect(status, 200, "answer to a decision")

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for place, (path, body) in enumerate(decisions):
                await asyncio.sleep(max(0.0, began + place / A_SECOND - time.perf_counter()))
                tasks.create_task(decide(path, body))
    return statistics.median(took)


WORKS = [
    w.Work(
        name="desk-decisions",
        needs=("serve_desk",),
        title="a decision over HTTP, durable, by 32 clients, while {size} requests wait",
        run=decisions,
        figures=(w.Figure("decision", "", "per s", noun="a decision's time"),),
        sizes=(1_000, 100_000),
        quick=20,
        growth=(1_000, 100_000),
        is_steady=True,
    ),
    w.Work(
        name="desk-pages",
        needs=("serve_desk",),
        title="while {size} requests wait",
        run=pages,
        figures=(
            w.Figure("list", "a page of the API's list", "ms", noun="the time of a page of the API's list"),
            w.Figure("inbox", "the inbox page", "ms", noun="the inbox page's time"),
        ),
        sizes=(1_000, 100_000),
        quick=20,
        growth=(1_000, 100_000),
        is_steady=True,
    ),
    w.Work(
        name="desk-listeners",
        needs=("serve_desk",),
        title="from a decision until {size} live listeners have read of it",
        run=listeners,
        figures=(w.Figure("told", "", "ms"),),
        sizes=(1_000,),
        quick=5,
        is_steady=True,
    ),
    w.Work(
        name="desk-crowd",
        needs=("serve_desk",),
        title="the median time of a decision, of 50 a second, with {size} live listeners",
        run=crowd,
        figures=(
            w.Figure("crowded", "while they listen", "ms"),
            w.Figure("alone", "before they come", "ms"),
        ),
        sizes=(200,),
        quick=5,
        is_steady=True,
    ),
]

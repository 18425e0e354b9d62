"""The gate: what a gated call costs, on a store and over HTTP, and what a thousand calls cost a desk that wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2

from bench.systems.report import Report, options_of
from bench.work import ROOT
from placet.desk import Desk
from placet.gate import Gate, gated
from placet.stores.sqlite import SQLiteStore

PATIENCE = 120.0
ROUNDS = 3
Call = Callable[[int], Awaitable[Any]]


def main(arguments: Sequence[str]) -> int:
    options = options_of("gate", __doc__ or "", arguments)
    report = Report("gate", "bare")
    calls, waiting, decisions = (5, 10, 3) if options.quick else (100, 1000, 120)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(report, Path(folder), calls, waiting, decisions))
    return report.finish(options)


async def _measure(report: Report, folder: Path, calls: int, waiting: int, decisions: int) -> None:
    await measure_embedded(report, folder / "embedded.db", calls)
    async with desk_of(folder / "desk.db", waiting) as desk:
        await measure_http(report, desk, calls)
        await measure_waiting(report, desk, waiting, decisions)


async def refund(order: int) -> str:
    """Pay money back."""
    return f"paid {order}"


# -- on a store -------------------------------------------------------------------------------------------------------


async def measure_embedded(report: Report, path: Path, calls: int) -> None:
    bare = await _median(refund, calls * 20)
    async with SQLiteStore(path) as store, Desk(store, run=False) as desk, Gate(store, guest="bench") as gate:
        free = await _median(gated(gate, needs_approval=False)(refund), calls)
        _add(report, "a call that needs nobody, on SQLite: proposed, claimed, reported, durable", free, bare)

        async def decide() -> None:
            latest = await store.latest_sequence()
            while True:
                for request in await desk.pending():
                    await desk.decide(request.id, "approve", by="ana")
                await store.wait_for_news(latest, 60.0)
                latest = await store.latest_sequence()

        person = asyncio.create_task(decide())
        asked = await _median(gated(gate)(refund), calls)
        person.cancel()
        await asyncio.gather(person, return_exceptions=True)
        _add(
            report, "a call that a program approves at once, on SQLite: asked, decided, claimed, reported", asked, bare
        )


# -- over HTTP --------------------------------------------------------------------------------------------------------


class DeskProcess:
    def __init__(self, process: asyncio.subprocess.Process, told: dict[str, str]) -> None:
        self._process = process
        self.at, self.guest, self.ana = told["at"], told["guest"], told["ana"]

    async def processor_time(self) -> float:
        return (await self._told())[0]

    async def all_wait(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await self._told())[1] < count:  # noqa: ASYNC110  # it tells only who asks
                await asyncio.sleep(0.2)

    async def _told(self) -> tuple[float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        seconds, waits = (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).split()
        return float(seconds), int(waits)


@contextlib.asynccontextmanager
async def desk_of(path: Path, waiting: int) -> AsyncIterator[DeskProcess]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "bench.systems.gate_desk", str(path), str(waiting)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    try:
        yield DeskProcess(process, json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def measure_http(report: Report, desk: DeskProcess, calls: int) -> None:
    async with bare_server() as url, httpx2.AsyncClient() as client:
        bare = await _median(lambda number: client.post(url, json={"order": number}), calls)
    async with Gate(desk.at, token=desk.guest, source="bench") as gate:
        free = await _median(gated(gate, needs_approval=False)(refund), calls)
    _add(report, "a call that needs nobody, over HTTP, in three requests, durable", free, bare)


@contextlib.asynccontextmanager
async def bare_server() -> AsyncIterator[str]:
    """It reads a request and says yes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n", 1)[0] or 0))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


# -- many that wait ---------------------------------------------------------------------------------------------------


async def measure_waiting(report: Report, desk: DeskProcess, waiting: int, decisions: int) -> None:
    """What open waits cost the desk, and how soon a waiter has its decision: from before the reviewer's request is sent
    until the guest has its answer, so the decision itself is in it."""
    seconds = 10.0 if waiting > 100 else 0.5
    headers = {"Authorization": f"Bearer {desk.ana}"}
    async with (
        Gate(desk.at, token=desk.guest, source="bench") as gate,
        httpx2.AsyncClient(base_url=desk.at, headers=headers, timeout=PATIENCE) as reviewer,
    ):
        calls = [
            await gate.propose("refund", {"order": n}, session=f"s{n // 100}", call_id=f"c{n}") for n in range(waiting)
        ]
        before = await desk.processor_time()
        await asyncio.sleep(seconds)
        idle = (await desk.processor_time() - before) / seconds
        waits = [asyncio.create_task(gate.wait(call, PATIENCE * 4)) for call in calls]
        await desk.all_wait(waiting)
        before = await desk.processor_time()
        await asyncio.sleep(seconds)
        share = (await desk.processor_time() - before) / seconds
        took: list[float] = []
        for number in range(decisions):
            place = number * (waiting // decisions)
            began = time.perf_counter()
            path = f"/v1/approvals/{calls[place].request_id}/decisions"
            answer = await reviewer.post(path, json={"decision": "approve"})
            answer.raise_for_status()
            await asyncio.wait_for(waits[place], PATIENCE)
            took.append(time.perf_counter() - began)
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    title = f"{waiting:,} open waits: share of a core of the desk, beside no open wait"
    report.add(title, f"{share:.1%}", f"{idle:.1%}")
    each = max(1, len(took) // ROUNDS)
    median = min(statistics.median(took[first : first + each]) for first in range(0, each * ROUNDS, each))
    report.add(f"{waiting:,} open waits: from a decision to its waiter", _shown(median))


# -- figures ----------------------------------------------------------------------------------------------------------


async def _median(call: Call, times: int) -> float:
    """The least median of three rounds: what disturbs a round makes it slower, never faster."""
    await call(0)  # what is made once is made here
    medians = []
    for part in range(ROUNDS):
        took = []
        for number in range(part * times, (part + 1) * times):
            began = time.perf_counter()
            await call(number + 1)
            took.append(time.perf_counter() - began)
        medians.append(statistics.median(took))
    return min(medians)


def _add(report: Report, work: str, placet: float, bare: float) -> None:
    report.add(work, _shown(placet), _shown(bare), placet / bare if bare > 1e-5 else None)  # a bare call is nothing


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds > 1e-4 else f"{seconds * 1e6:.2f} µs"

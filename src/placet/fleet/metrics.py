"""The numbers of a fleet for Prometheus: as text, and over a small HTTP server of a worker's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

from placet.facts.errors import StoreError
from placet.fleet.figures import FleetNumbers

logger = logging.getLogger("placet.fleet")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LONGEST_REQUEST = 8192
PATIENCE = 10.0
"""Seconds that whoever asks gets to say what they want."""


def metrics_text(numbers: FleetNumbers) -> str:
    """In the text format that Prometheus reads."""
    return "".join(_lines(numbers))


def _lines(numbers: FleetNumbers) -> Iterator[str]:
    store = numbers.store
    yield from _gauge("placet_runs_driven", "Runs that somebody drives.", store.driven)
    yield from _gauge("placet_runs_due", "Runs with something to do that nobody drives yet.", store.due)
    yield from _gauge("placet_runs_due_seconds", "How long the first of them has waited.", numbers.due_seconds)
    yield from _gauge("placet_runs_waiting", "Runs that wait for people.", store.waiting)
    yield from _gauge("placet_runs_running", "Runs that have not ended and do not wait for people.", store.running)
    yield from _gauge("placet_runs_stopped", "Of these, those that an error stopped.", store.stopped)
    yield from _gauge("placet_runs_parked", "Runs that took too many drivers down.", store.parked)
    yield from _gauge("placet_runs_ended_last_minute", "Runs that ended in the last minute.", store.ended_last_minute)
    yield from _gauge("placet_requests_pending", "Questions that wait for people.", store.pending)
    oldest = store.oldest_request.seconds if store.oldest_request is not None else 0.0
    yield from _gauge("placet_requests_oldest_seconds", "How long the oldest of them has waited.", oldest)
    yield from _gauge("placet_rings_waiting", "Rings that no worker has heard yet.", numbers.rings)
    yield from _workers(numbers)


def _workers(numbers: FleetNumbers) -> Iterator[str]:
    yield from _head("placet_workers", "Workers by state.", "gauge")
    for state in ("working", "stopping", "lost"):
        yield _sample("placet_workers", sum(each.state == state for each in numbers.workers), state=state)
    for name, text, kind, of in (
        ("placet_worker_driving", "Runs that a worker drives.", "gauge", "driving"),
        ("placet_worker_capacity", "Runs that a worker can drive at once.", "gauge", "capacity"),
        ("placet_worker_driven_total", "Drives that a worker has ended.", "counter", "driven"),
        ("placet_worker_silent_seconds", "Seconds since a worker's last sign of life.", "gauge", "seconds"),
    ):
        yield from _head(name, text, kind)
        for each in numbers.workers:
            yield _sample(name, getattr(each, of), worker=each.name, id=str(each.id))


def _gauge(name: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, text, "gauge")
    yield _sample(name, value)


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _sample(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}\n" if inside else f"{name} {value!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


# -- over HTTP --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def metrics_server(
    host: str, port: int, numbers: Callable[[], Awaitable[FleetNumbers]]
) -> AsyncIterator[asyncio.Server]:
    """GET /metrics, and /health which says whether the store can be reached."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _response(head, numbers))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=LONGEST_REQUEST)
    try:
        yield server
    finally:
        server.close()
        await server.wait_closed()


async def _response(head: bytes, numbers: Callable[[], Awaitable[FleetNumbers]]) -> bytes:
    method, _, rest = head.decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if path not in ("/metrics", "/health"):
        return _http("404 Not Found", "There are /metrics and /health.\n")
    if method not in ("GET", "HEAD"):
        return _http("405 Method Not Allowed", "Numbers are only read: GET.\n", "Allow: GET, HEAD\r\n")
    try:
        found = await numbers()
    except StoreError as error:
        logger.warning("numbers failed", extra={"action": "numbers_failed", "error": str(error)})
        return _http("503 Service Unavailable", "The store cannot be reached.\n")
    body = metrics_text(found) if path == "/metrics" else "ok\n"
    return _http("200 OK", body if method == "GET" else "", length=len(body.encode()))


def _http(status: str, body: str, more: str = "", length: int | None = None) -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length or len(data)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + data

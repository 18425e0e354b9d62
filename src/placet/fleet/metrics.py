"""The figures of a fleet for Prometheus, over a small HTTP server of a worker's own: it runs on the event loop of the
worker, where the store is asked, and needs no web framework."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from placet.facts.errors import StoreError
from placet.fleet.figures import FleetNumbers
from placet.service.metrics import CONTENT_TYPE, gauge, metrics_page, store_families

logger = logging.getLogger("placet.fleet")

LONGEST_REQUEST = 8192
PATIENCE = 10.0
"""Seconds that a client gets to say what it wants."""


def metrics_text(numbers: FleetNumbers) -> str:
    return metrics_page([*store_families(numbers.store), *_fleet_families(numbers)])


def _fleet_families(numbers: FleetNumbers) -> Iterator[Metric]:
    yield gauge("placet_rings_waiting", "Notifications in the queue that no worker has taken yet.", numbers.rings)
    states = GaugeMetricFamily("placet_workers", "Workers by state.", labels=["state"])
    for state in ("working", "stopping", "lost"):
        states.add_metric([state], sum(each.state == state for each in numbers.workers))
    yield states
    labels = ["worker", "id"]
    driving = GaugeMetricFamily("placet_worker_driving", "Runs that a worker drives.", labels=labels)
    capacity = GaugeMetricFamily("placet_worker_capacity", "Runs that a worker can drive at once.", labels=labels)
    driven = CounterMetricFamily("placet_worker_driven", "Drives that a worker has ended.", labels=labels)
    silent = GaugeMetricFamily(
        "placet_worker_silent_seconds", "Seconds since a worker's last sign of life.", labels=labels
    )
    for each in numbers.workers:
        who = [each.name, str(each.id)]
        driving.add_metric(who, each.driving)
        capacity.add_metric(who, each.capacity)
        driven.add_metric(who, each.driven)
        silent.add_metric(who, each.seconds)
    yield from (driving, capacity, driven, silent)


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

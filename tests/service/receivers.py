"""Receivers of messages for the tests of the outbox: some that note what they get, in this process and over HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from placet.clock import SYSTEM_CLOCK, Clock
from placet.facts.codec import JsonObject
from placet.ports import Delivered, DeskStore, OutgoingMessage
from placet.service.outbox import Outbox, Pace
from placet.service.subscriptions import Subscription

QUICK = Pace(first_retry=0.01, longest_retry=0.02, tries=4, lease=30.0, look=0.05)
OK = Delivered()


class Receiver:
    """Notes what it gets; `answers` says how it takes a message."""

    def __init__(self, answers: Callable[[JsonObject], Delivered] = lambda _: OK) -> None:
        self.answers = answers
        self.got: list[JsonObject] = []
        self.ids: list[str] = []

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        event: JsonObject = json.loads(message.body)
        answer = self.answers(event)
        if answer.error is None:
            self.got.append(event)
            self.ids.append(message.id)
        return answer

    def told(self, field: str = "request_id") -> list[object]:
        return [event["data"][field] for event in self.got]  # type: ignore[index, call-overload]  # JSON


def outbox_to(
    store: DeskStore, receivers: dict[str, Receiver], pace: Pace = QUICK, clock: Clock = SYSTEM_CLOCK
) -> Outbox:
    """An outbox whose subscriptions are received by the receivers of their names."""

    def channel_of(subscription: Subscription, now: float) -> Receiver:
        return receivers[subscription.name]

    return Outbox(store, clock, base_url="https://desk.example.com", pace=pace, channel_of=channel_of)


@asynccontextmanager
async def serving(*outboxes: Outbox) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.serve()) for each in outboxes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class HTTPReceiver:
    """A server that notes each request, and answers with one status."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.port = 0
        self.leads_to = ""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/hook"

    @property
    def events(self) -> list[JsonObject]:
        return [json.loads(body) for _, body in self.requests]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        writer.write(
            f"HTTP/1.1 {self.status}\r\nLocation: {self.leads_to or self.url}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def receiver(
    status: str = "204 No Content", tls: ssl.SSLContext | None = None, found: HTTPReceiver | None = None
) -> AsyncIterator[HTTPReceiver]:
    found = found or HTTPReceiver(status)
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found

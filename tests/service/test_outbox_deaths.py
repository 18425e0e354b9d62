"""Senders that are killed, in processes of their own, while a message is on its way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.service.outbox import Outbox
from placet.service.subscriptions import Filters
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import HTTPReceiver, receiver

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def sender(url: str) -> Iterator[subprocess.Popen[bytes]]:
    env = os.environ | {"PLACET_WEBHOOK_HOSTS": "localhost"}
    process = subprocess.Popen([sys.executable, "-m", "tests.service.sender", url], cwd=ROOT, env=env)  # noqa: S603
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Slow(HTTPReceiver):
    """Notes what comes and answers only when it may."""

    def __init__(self) -> None:
        super().__init__("204 No Content")
        self.may_answer = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.began = True
        await self.may_answer.wait()
        await super().answer(reader, writer)

    began = False


@pytest.mark.promise("P25")
async def test_a_sender_that_is_killed_is_followed_by_another_and_nothing_is_lost(any_url: str) -> None:
    slow = Slow()
    async with open_store(any_url) as store, receiver(found=slow) as server:
        outbox = Outbox(store, SYSTEM_CLOCK, allowed=["localhost"])
        await outbox.subscriptions.add("one", server.url, Filters())
        runs = [RunWriter() for _ in range(5)]
        requests = [(await run.ask(store, "pay"))[0] for run in runs]
        for run in runs:
            await run.decide(store)

        async def is_in_the_middle() -> bool:
            return slow.began

        with sender(any_url) as first:
            await until(is_in_the_middle)
            first.kill()
            first.wait()
        slow.may_answer.set()

        async def all_are_told() -> bool:
            return {(data["request_id"], kind) for data, kind in _told(server)} >= {
                (request, kind) for request in requests for kind in ("request.waiting", "request.decided")
            }

        with sender(any_url):
            await until(all_are_told)

    for request in requests:
        kinds = [kind for data, kind in _told(server) if data["request_id"] == request]
        assert kinds[0] == "request.waiting"
        assert kinds[-1] == "request.decided"


def _told(server: HTTPReceiver) -> list[tuple[dict[str, object], object]]:
    return [(event["data"], event["type"]) for event in server.events if isinstance(event["data"], dict)]

"""Receivers of messages for the tests of the outbox: some that note what they get, in this process and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from placet.clock import SYSTEM_CLOCK
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


def outbox_to(store: DeskStore, receivers: dict[str, Receiver], pace: Pace = QUICK) -> Outbox:
    """An outbox whose subscriptions are received by the receivers of their names."""

    def channel_of(subscription: Subscription, now: float) -> Receiver:
        return receivers[subscription.name]

    return Outbox(store, SYSTEM_CLOCK, base_url="https://desk.example.com", pace=pace, channel_of=channel_of)


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

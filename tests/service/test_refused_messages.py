"""A receiver that is there and refuses some messages: what it takes is told all the same, and what cannot be told is
said in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from placet.facts.codec import JsonObject
from placet.ports import Delivered
from placet.service.outbox import Pace
from placet.service.subscriptions import Filters
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import OK, Receiver, outbox_to, serving

pytestmark = pytest.mark.promise("P25")

NEVER_GIVES_UP = Pace(first_retry=0.01, longest_retry=0.05, tries=100_000, lease=30.0, look=0.02)


async def test_many_messages_that_are_refused_do_not_hold_up_the_others(any_url: str) -> None:
    """More of them in a row than make a receiver look as if it were down, and never one that gets through."""

    def refuses(event: JsonObject) -> Delivered:
        data = event["data"]
        assert isinstance(data, dict)
        return Delivered(error="500") if data.get("tool") == "poison" else OK

    async with open_store(any_url) as store:
        picky = Receiver(refuses)
        outbox = outbox_to(store, {"picky": picky}, pace=NEVER_GIVES_UP)
        hook = await outbox.subscriptions.add("picky", "https://hooks.example.com/", Filters())
        for _ in range(12):
            await RunWriter().ask(store, "poison")
        async with serving(outbox):

            async def all_are_parked() -> bool:
                return len(await outbox.subscriptions.parked(hook.id)) == 12

            await until(all_are_parked)
            wanted = [(await RunWriter().ask(store, "pay"))[0] for _ in range(30)]

            async def all_are_told() -> bool:
                return set(picky.told()) == set(wanted)

            await until(all_are_told)
        still = await outbox.subscriptions.parked(hook.id)

    assert len(still) == 12


async def test_of_a_receiver_that_is_down_each_request_keeps_its_order(any_url: str) -> None:
    is_up = asyncio.Event()

    def later(_: JsonObject) -> Delivered:
        return OK if is_up.is_set() else Delivered(error="away")

    async with open_store(any_url) as store:
        away = Receiver(later)
        outbox = outbox_to(store, {"away": away}, pace=NEVER_GIVES_UP)
        hook = await outbox.subscriptions.add("away", "https://hooks.example.com/", Filters())
        runs = [RunWriter() for _ in range(10)]
        requests = [(await run.ask(store, "pay"))[0] for run in runs]
        for run in runs:
            await run.decide(store)
        async with serving(outbox):

            async def some_were_tried() -> bool:
                return sum(each.tries for each in await outbox.subscriptions.parked(hook.id)) > 30

            await until(some_were_tried)
            is_up.set()

            async def all_are_told() -> bool:
                return len([each for each in away.got if each["type"] == "request.decided"]) == 10

            await until(all_are_told)

    for request in requests:
        kinds = [each["type"] for each in away.got if each["data"]["request_id"] == request]  # type: ignore[index, call-overload]
        assert kinds == ["request.waiting", "request.decided"]


async def test_an_append_that_cannot_be_told_is_said_in_the_log_and_the_next_one_is_told(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(url) as store:
        one = Receiver()
        outbox = outbox_to(store, {"one": one})
        await outbox.subscriptions.add("one", "https://hooks.example.com/", Filters())
        await RunWriter().ask(store, "pay", expires_at=1e18)  # no calendar has this day
        wanted, *_ = await RunWriter().ask(store, "pay")
        with caplog.at_level(logging.ERROR, "placet.outbox"):
            async with serving(outbox):

                async def it_is_told() -> bool:
                    return one.told() == [wanted]

                await until(it_is_told)

    assert [getattr(each, "action", "") for each in caplog.records] == ["append_not_told"]

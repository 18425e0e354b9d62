"""Ten thousand events: who is well gets each of them once, whatever becomes of the others, and tables stay small."""

from __future__ import annotations

import asyncio

import pytest

from placet.facts.codec import JsonObject
from placet.ports import Delivered, OutgoingMessage
from placet.service.outbox import BATCH, MOST_PARKED
from placet.service.subscriptions import Filters
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import Receiver, outbox_to, serving

RUNS, CALLS = 2000, 5


class Hanging(Receiver):
    """Takes a message and never says whether it has it."""

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        await asyncio.Event().wait()
        raise AssertionError


def dead(_: JsonObject) -> Delivered:
    return Delivered(error="nobody there")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("P25")
async def test_ten_thousand_events_reach_who_is_well_though_others_are_dead_or_silent(url: str) -> None:
    receivers = {"one": Receiver(), "two": Receiver(), "dead": Receiver(dead), "silent": Hanging()}
    async with open_store(url) as store:
        outbox = outbox_to(store, receivers)
        hooks = {
            name: await outbox.subscriptions.add(name, "https://hooks.example.com/", Filters()) for name in receivers
        }
        asked: set[object] = set()
        for _ in range(RUNS):
            asked.update(await RunWriter().ask(store, *["pay"] * CALLS))
        async with serving(outbox):

            async def all_are_told() -> bool:
                return all(len(receivers[name].got) >= RUNS * CALLS for name in ("one", "two"))

            await until(all_are_told, 600)
        kept = {name: len(await store.records("outbox_parked", owner=hook.id)) for name, hook in hooks.items()}
        dead_letters = await outbox.subscriptions.dead(hooks["dead"].id)

    for name in ("one", "two"):
        assert set(receivers[name].told()) == asked
        assert len(set(receivers[name].ids)) == len(receivers[name].ids) == RUNS * CALLS
    assert kept["one"] == kept["two"] == 0
    assert kept["dead"] <= MOST_PARKED + BATCH * CALLS
    assert kept["silent"] == 0
    assert len(dead_letters) <= 1000

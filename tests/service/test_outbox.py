"""The outbox tells every subscription at least once and in order, and one receiver's trouble is not the others'."""

from __future__ import annotations

import asyncio

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.core.index import RequestRecord
from placet.facts.codec import JsonObject
from placet.ports import Delivered, DeskStore, StoredRecord
from placet.service.outbox import LEASE, Outbox, Pace
from placet.service.subscriptions import CURSOR, DEAD, Filters, Subscription
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import OK, QUICK, Receiver, outbox_to, serving

DOWN = Delivered(error="down")
ALL = Filters()


async def subscribe(outbox: Outbox, name: str, filters: Filters = ALL) -> Subscription:
    return await outbox.subscriptions.add(name, f"https://{name}.example.com/", filters, by="ann")


async def asked_and_decided(store: DeskStore, agent: str = "Clerk", tool: str = "pay") -> str:
    run = RunWriter(agent)
    (request,) = await run.ask(store, tool)
    await run.decide(store)
    return request


def got(receiver: Receiver, count: int) -> object:
    async def enough() -> bool:
        return len(receiver.got) >= count

    return enough


@pytest.mark.promise("P25")
async def test_three_subscriptions_are_served_while_one_receiver_is_dead(any_url: str) -> None:
    receivers = {"one": Receiver(), "two": Receiver(), "dead": Receiver(lambda _: DOWN)}
    async with open_store(any_url) as store:
        outbox = outbox_to(store, receivers)
        for name in receivers:
            await subscribe(outbox, name)
        async with serving(outbox):
            requests = [await asked_and_decided(store) for _ in range(20)]
            await until(got(receivers["one"], 40))
            await until(got(receivers["two"], 40))

    for name in ("one", "two"):
        events = [(event["data"]["request_id"], event["type"]) for event in receivers[name].got]  # type: ignore[index, call-overload]
        for request in requests:
            assert [kind for about, kind in events if about == request] == ["request.waiting", "request.decided"]
    assert receivers["dead"].got == []


@pytest.mark.promise("P25")
async def test_a_receiver_that_was_down_is_told_all_of_it_in_order_when_it_is_back(url: str) -> None:
    is_down = True
    receiver = Receiver(lambda _: DOWN if is_down else OK)
    async with open_store(url) as store:
        outbox = outbox_to(store, {"one": receiver}, Pace(first_retry=0.01, longest_retry=0.02, tries=10**6, look=0.02))
        subscription = await subscribe(outbox, "one")
        requests = [await asked_and_decided(store) for _ in range(12)]

        async def is_parked() -> bool:
            return len(await outbox.subscriptions.parked(subscription.id)) > 5

        async with serving(outbox):
            await until(is_parked)
            is_down = False
            await until(got(receiver, 24))

    for request in requests:
        told = [event["type"] for event in receiver.got if event["data"]["request_id"] == request]  # type: ignore[index, call-overload]
        assert told == ["request.waiting", "request.decided"]


@pytest.mark.promise("P25")
async def test_a_poison_event_holds_up_its_own_request_alone_and_can_be_sent_again(any_url: str) -> None:
    poison: set[object] = set()
    receiver = Receiver(lambda event: DOWN if event["data"]["request_id"] in poison else OK)  # type: ignore[index, call-overload]
    async with open_store(any_url) as store:
        outbox = outbox_to(store, {"one": receiver})
        subscription = await subscribe(outbox, "one")
        first = RunWriter()
        poison |= set(await first.ask(store, "pay"))
        await first.decide(store)
        good = await asked_and_decided(store)

        async def both_are_dead() -> bool:
            return len(await outbox.subscriptions.dead(subscription.id)) == 2

        async with serving(outbox):
            await until(got(receiver, 2))
            told_meanwhile = receiver.told()
            await until(both_are_dead)
            letters = await outbox.subscriptions.dead(subscription.id)
            assert not await outbox.subscriptions.send_again("hook_another", letters[0].id)
            poison.clear()
            assert all([await outbox.subscriptions.send_again(subscription.id, each.id) for each in letters])
            await until(got(receiver, 4))

        assert told_meanwhile == [good, good]
        assert [event["type"] for event in receiver.got[2:]] == ["request.waiting", "request.decided"]
        assert await outbox.subscriptions.dead(subscription.id) == []


@pytest.mark.promise("P25")
async def test_a_decision_is_not_told_before_its_question_however_often_that_fails(url: str) -> None:
    tries, fails = 0, True

    def answer(event: JsonObject) -> Delivered:
        nonlocal tries
        is_question = event["type"] == "request.waiting" and event["data"]["tool"] == "pay"  # type: ignore[index, call-overload]
        tries += is_question
        return DOWN if is_question and fails else OK

    receiver = Receiver(answer)
    async with open_store(url) as store:
        outbox = outbox_to(store, {"one": receiver}, Pace(first_retry=0.01, longest_retry=0.02, tries=10**6, look=0.02))
        subscription = await subscribe(outbox, "one")
        run = RunWriter()

        async def is_parked() -> bool:
            return bool(await outbox.subscriptions.parked(subscription.id))

        async def is_tried_often() -> bool:
            return tries >= before + 5

        async with serving(outbox):
            (request,) = await run.ask(store, "pay")
            await until(is_parked)
            await run.decide(store)  # in a later batch than the question
            other = await asked_and_decided(store, tool="mail")
            await until(got(receiver, 2))
            before = tries
            await until(is_tried_often)
            told_meanwhile = receiver.told()
            fails = False
            await until(got(receiver, 4))

    assert told_meanwhile == [other, other]
    assert receiver.told()[2:] == [request, request]
    assert [event["type"] for event in receiver.got[2:]] == ["request.waiting", "request.decided"]


@pytest.mark.promise("P25")
async def test_a_dead_sender_is_taken_over_from_and_a_live_one_is_not(any_url: str) -> None:
    receiver = Receiver()
    async with open_store(any_url) as store:
        outbox = outbox_to(store, {"one": receiver}, QUICK)
        subscription = await subscribe(outbox, "one")
        another = StoredRecord(
            kind=LEASE, id=subscription.id, data="sender_x", owner="sender_x", expires_at=SYSTEM_CLOCK.now() + 600
        )
        await store.add_record(another)
        request = await asked_and_decided(store)
        async with serving(outbox):
            await asyncio.sleep(QUICK.look * 4)  # many looks: a live sender's subscription is left to it
            told_while_it_lives = len(receiver.got)
            await store.replace_record(
                StoredRecord(kind=LEASE, id=subscription.id, data="sender_x", owner="sender_x", expires_at=1.0)
            )
            await until(got(receiver, 2))

    assert told_while_it_lives == 0
    assert receiver.told() == [request, request]


async def test_two_processes_tell_each_event_once_and_the_next_one_goes_on_at_the_cursor(url: str) -> None:
    receiver = Receiver()
    async with open_store(url) as store, open_store(url) as other:
        here, there = outbox_to(store, {"one": receiver}), outbox_to(other, {"one": receiver})
        subscription = await subscribe(here, "one")
        async with serving(here, there):
            for _ in range(10):
                await asked_and_decided(store)
            await until(got(receiver, 20))

            async def is_written() -> bool:
                return await here.subscriptions.behind(subscription.id) == 0

            await until(is_written)
        more = await asked_and_decided(store)
        async with serving(there):
            await until(got(receiver, 22))

    assert len(receiver.ids) == len(set(receiver.ids)) == 22
    assert receiver.told()[20:] == [more, more]


async def test_filters_and_thin_messages(url: str) -> None:
    receivers = {"pays": Receiver(), "decided": Receiver(), "whole": Receiver(), "board": Receiver()}
    async with open_store(url) as store:
        outbox = outbox_to(store, receivers)
        await subscribe(outbox, "pays", Filters(tools=["pa*"], agents=["Clerk"]))
        await subscribe(outbox, "decided", Filters(events=["request.decided"]))
        await subscribe(outbox, "board", Filters(groups=["board"]))
        await outbox.subscriptions.add("whole", "https://whole.example.com/", ALL, shows_arguments=True)
        async with serving(outbox):
            paid = await asked_and_decided(store)
            await asked_and_decided(store, "Other")
            mailed = await asked_and_decided(store, tool="mail")
            await until(got(receivers["whole"], 6))
            await until(got(receivers["decided"], 3))
            await until(got(receivers["pays"], 2))
        row = await store.request(paid)

    assert isinstance(row, RequestRecord)
    assert receivers["pays"].told() == [paid, paid]
    assert mailed in receivers["decided"].told()
    assert receivers["board"].got == []
    first: JsonObject = receivers["pays"].got[0]["data"]  # type: ignore[assignment]
    assert "arguments" not in first
    assert (first["digest"], first["url"]) == (row.digest, f"https://desk.example.com/inbox?open={paid}")
    assert all(each == {"n": 1} for each in receivers["whole"].told("arguments"))


async def test_one_who_is_gone_is_told_nothing_more_and_removing_leaves_nothing(url: str) -> None:
    receiver = Receiver(lambda _: Delivered(error="410", is_gone=True))
    async with open_store(url) as store:
        outbox = outbox_to(store, {"one": receiver})
        subscription = await subscribe(outbox, "one")
        await asked_and_decided(store)

        async def is_suspended() -> bool:
            found = await outbox.subscriptions.find(subscription.id)
            return found is not None and found.suspended is not None

        async with serving(outbox):
            await until(is_suspended)
        removed = await outbox.subscriptions.remove(subscription.id)

        assert removed
        assert await outbox.subscriptions.all() == []
        assert await outbox.subscriptions.parked(subscription.id) == []
        assert await store.records(CURSOR) == await store.records(DEAD) == []

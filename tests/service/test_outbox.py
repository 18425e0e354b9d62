"""The outbox tells every subscription at least once and in order, and one receiver's trouble is not the others'."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from placet import UserError
from placet.clock import SYSTEM_CLOCK
from placet.core.index import RequestRecord
from placet.core.log import read_line
from placet.desk import Desk
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.events import SubscriptionChanged
from placet.ports import Delivered, DeskStore, StoredRecord
from placet.service.audit import verify
from placet.service.outbox import IS_DOWN, LEASE, PATIENCE, Outbox, Pace
from placet.service.subscriptions import CURSOR, DEAD, Filters, Subscription, is_about
from placet.stores.opening import open_store
from placet.testing import ManualClock
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import OK, QUICK, Receiver, outbox_to, receiver, serving

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
                return await here.subscriptions.behind_since(subscription.id) is None

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


# -- what is changed, and what is forgotten ---------------------------------------------------------------------------


async def operators_facts(store: DeskStore) -> list[SubscriptionChanged]:
    log = await store.operators_log()
    return [fact for line in log.lines for fact in read_line(line).facts if isinstance(fact, SubscriptionChanged)]


async def test_every_change_of_a_subscription_stands_in_the_operators_log_without_its_secret(any_url: str) -> None:
    async with open_store(any_url) as store:
        outbox = outbox_to(store, {})
        subscriptions = outbox.subscriptions
        made = await subscriptions.add("one", "https://hooks.example.com/T0/secret-path", ALL, by="ann")
        await subscriptions.change(made.id, lambda it: msgspec.structs.replace(it, name="two"), by="bob")
        rotated = await subscriptions.rotate(made.id, by="bob")
        await subscriptions.suspend(made.id, "holidays", by="bob")
        await subscriptions.resume(made.id, by="cid")
        await subscriptions.remove(made.id, by="cid")
        facts = await operators_facts(store)
        verdicts = [each.verdict async for each in verify(store)]
        text = b"".join((await store.operators_log()).lines).decode()

    changes = [(fact.change, fact.name, fact.target, fact.by) for fact in facts]
    assert changes == [
        ("made", "one", "hooks.example.com", "ann"),
        ("changed", "two", "hooks.example.com", "bob"),
        ("secret changed", "two", "hooks.example.com", "bob"),
        ("suspended", "two", "hooks.example.com", "bob"),
        ("resumed", "two", "hooks.example.com", "cid"),
        ("removed", "two", "hooks.example.com", "cid"),
    ]
    assert set(verdicts) == {"whole"}
    assert rotated is not None
    for secret in (made.secrets[0].key, rotated.secrets[0].key, "secret-path"):
        assert secret not in text


async def test_a_new_secret_signs_beside_the_one_before_for_a_day(url: str) -> None:
    clock = ManualClock(1_000_000.0)
    async with open_store(url) as store, receiver() as server:
        outbox = Outbox(store, clock, allowed=["localhost"])
        made = await outbox.subscriptions.add("one", server.url, ALL)
        rotated = await outbox.subscriptions.rotate(made.id)
        assert rotated is not None
        await outbox.test(rotated)
        clock.advance(24 * 3600.0 + 1)
        await outbox.test(rotated)
    (both, _), (only, _) = server.requests

    assert len(both["webhook-signature"].split()) == 2
    assert len(only["webhook-signature"].split()) == 1
    assert rotated.secrets[1].key == made.secrets[0].key


async def test_old_runs_are_not_forgotten_before_everybody_was_told_and_a_suspended_one_sees_its_gap(
    any_url: str,
) -> None:
    clock = ManualClock(10_000.0)
    async with open_store(any_url) as store:
        desk = Desk(store, run=False, clock=clock)
        subscription = await subscribe(desk.outbox, "one")
        run = RunWriter(at=1000.0)
        await run.begin(store)
        await run.end(store)
        while_live = await desk.purge(5000.0)
        await desk.outbox.subscriptions.suspend(subscription.id, "holidays")
        while_suspended = await desk.purge(5000.0)
        found = await desk.outbox.subscriptions.find(subscription.id)

    assert (while_live, while_suspended) == (0, 1)
    assert found is not None
    assert found.gap_until == 5000.0


async def test_letters_about_a_run_go_when_it_is_erased(any_url: str) -> None:
    async with open_store(any_url) as store:
        desk = Desk(store, run=False)
        outbox = outbox_to(store, {"one": Receiver(lambda _: DOWN)})
        subscription = await outbox.subscriptions.add("one", "https://one.example.com/", ALL, shows_arguments=True)
        erased, kept = RunWriter(), RunWriter()
        for run in (erased, kept):
            await run.ask(store, "pay")
            await run.decide(store, verdict="reject")
        rest = [e.CallEnded("1.0", "rejected", "no"), e.RunEnded("done")]
        await erased.append(store, *rest)

        async def all_are_dead() -> bool:
            return len(await outbox.subscriptions.dead(subscription.id)) == 5

        async with serving(outbox):
            await until(all_are_dead)
        assert await desk.erase(erased.id, by="ann")
        left = await outbox.subscriptions.dead(subscription.id)

    assert {is_about(letter, kept.id) for letter in left} == {True}
    assert len(left) == 2


async def test_a_receiver_that_is_silent_for_days_is_suspended_and_resumed_where_it_stood(url: str) -> None:
    is_down = True
    receiver = Receiver(lambda _: DOWN if is_down else OK)
    clock = ManualClock(1_000_000.0)
    async with open_store(url) as store:
        patient = Pace(first_retry=0.01, longest_retry=0.02, tries=10**6, look=0.02)
        outbox = outbox_to(store, {"one": receiver}, patient, clock)
        subscription = await subscribe(outbox, "one")
        requests = [await asked_and_decided(store) for _ in range(8)]

        async def is_parked() -> bool:
            clock.advance(0.1)
            return len(await outbox.subscriptions.parked(subscription.id)) >= IS_DOWN

        async def is_suspended() -> bool:
            found = await outbox.subscriptions.find(subscription.id)
            return found is not None and found.suspended == "nothing got through for three days"

        async def is_told() -> bool:
            clock.advance(0.1)
            return len(receiver.got) >= 16

        async with serving(outbox):
            await until(is_parked)
            clock.advance(PATIENCE + 1)
            await until(is_suspended)
            is_down = False
            await outbox.subscriptions.resume(subscription.id, by="ann")
            await until(is_told)

    for request in requests:
        told = [event["type"] for event in receiver.got if event["data"]["request_id"] == request]  # type: ignore[index, call-overload]
        assert told == ["request.waiting", "request.decided"]


async def test_resumed_from_now_the_past_is_not_told(url: str) -> None:
    receiver = Receiver()
    async with open_store(url) as store:
        outbox = outbox_to(store, {"one": receiver})
        subscription = await subscribe(outbox, "one")
        await outbox.subscriptions.suspend(subscription.id, "holidays")
        await asked_and_decided(store)
        await outbox.subscriptions.resume(subscription.id, from_now=True)
        new = await asked_and_decided(store)
        async with serving(outbox):
            await until(got(receiver, 2))

    assert receiver.told() == [new, new]


@pytest.mark.parametrize(
    "wanted",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"url": "http://example.com/"},
        {"filters": Filters(events=["request.unknown"])},
        {"filters": Filters(tools=[""])},
    ],
)
async def test_a_subscription_that_says_nothing_sensible_is_refused_and_changes_nothing(
    url: str, wanted: dict[str, Any]
) -> None:
    async with open_store(url) as store:
        outbox = outbox_to(store, {})
        made = await subscribe(outbox, "one")
        given = {"name": "n", "url": "https://one.example.com/", "filters": ALL} | wanted
        with pytest.raises(UserError):
            await outbox.subscriptions.add(**given)
        with pytest.raises(UserError):
            await outbox.subscriptions.change(made.id, lambda it: msgspec.structs.replace(it, **wanted))

        assert await outbox.subscriptions.all() == [made]
        assert len(await operators_facts(store)) == 1

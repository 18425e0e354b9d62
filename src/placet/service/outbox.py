"""The outbox: tells every subscription what happens, at least once, in order per request, out of the store's feed.

A subscription has one sender at a time, in the process that holds its lease. When that process dies, another goes on
where the cursor stands. A message that fails is parked and tried again later and later; what is about the same request
waits behind it, all else goes on. One that fails too often becomes a dead letter, which people see and can send again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import msgspec

from placet.channels.webhook import allowed_hosts
from placet.clock import Clock
from placet.facts.codec import JsonObject, encode
from placet.facts.errors import StoreError, UserError
from placet.facts.ids import mint
from placet.ports import Channel, Delivered, DeskStore, FeedEntry, OutgoingMessage, StoredRecord
from placet.service.channel_making import make_channel
from placet.service.digests import Digest
from placet.service.outbox_events import Event, events_of, iso
from placet.service.subscriptions import (
    CURSOR,
    DEAD,
    DIGEST,
    MOST_DEAD,
    PARKED,
    Letter,
    Subscription,
    Subscriptions,
    cursor_record,
    letter_record,
    read_cursor,
    read_letter,
)
from placet.stores.outages import Outage

logger = logging.getLogger("placet.outbox")

LEASE = "outbox_lease"
PLACE = "outbox_place"
"""The kind of the record that says where people reach the desk: processes that serve no pages know it from there."""
AT_ONCE = 8
"""Messages about different requests that one receiver gets at the same time."""
BATCH = 100
"""Appends that are read at once: after a crash, at most these are told again."""
MOST_PARKED = 500
"""With so many, the receiver is down: nothing more is read for it until some got through, or were given up."""
IS_DOWN = 5
"""Failures in a row after which only one message at a time is tried."""
PATIENCE = 3 * 24 * 3600.0
"""Seconds in which nothing gets through before a subscription is suspended: others wait for it to forget old runs."""
FAR = 1000
"""Appends that mean nothing to a subscription, after which its cursor is written all the same."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How patient an outbox is."""

    first_retry: float = 5.0
    longest_retry: float = 1800.0
    tries: int = 16
    """Then it is a dead letter: after about four hours."""
    lease: float = 15.0
    look: float = 1.0
    """Seconds between two looks for what no news tells of: subscriptions, and letters to be sent again."""

    def pause(self, tries: int, chance: float) -> float:
        """Twice as long each time, and up to a quarter of it more by chance: not all receivers are asked at once."""
        return float(min(self.longest_retry, self.first_retry * 2.0 ** min(tries - 1, 40)) * (1 + chance / 4))


ChannelOf: TypeAlias = Callable[[Subscription, float], Channel | Awaitable[Channel]]


class Outbox:
    """Serves all subscriptions of a store in this process, as far as no other process does."""

    def __init__(
        self,
        store: DeskStore,
        clock: Clock,
        *,
        base_url: str = "",
        allowed: Sequence[str] | None = None,
        pace: Pace | None = None,
        channel_of: ChannelOf | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._clock = clock
        self.base_url = base_url
        """Where people reach the desk: the links in messages begin with it."""
        self._pace = pace or Pace()
        self._allowed = tuple(allowed_hosts() if allowed is None else allowed)
        self._channel_of = channel_of or self._make_channel
        self._chance = chance
        self.subscriptions = Subscriptions(store, clock, self._allowed)

    async def _make_channel(self, subscription: Subscription, now: float) -> Channel:
        return await make_channel(subscription, now, self._allowed, self._store)

    async def test(self, subscription: Subscription) -> Delivered:
        """Send a message that means nothing, at once, and say what came of it."""
        now = self._clock.now()
        body = encode({"type": "test", "timestamp": iso(now), "data": {"subscription": subscription.name}})
        message = OutgoingMessage(id=mint("msg"), type="test", body=body)
        return await self.try_to_send(subscription, message)

    async def publish(self, base_url: str) -> None:
        """Have all processes on this store begin their links with this address."""
        self.base_url = base_url
        record = StoredRecord(kind=PLACE, id="desk", data=base_url)
        if not await self._store.replace_record(record):
            await self._store.add_record(record)

    async def serve(self) -> None:
        """Until cancelled."""
        senders: dict[str, tuple[Subscription, asyncio.Task[None]]] = {}
        outage = Outage(logger, "outbox_interrupted", "outbox_resumed")
        try:
            while True:
                try:
                    wanted = {each.id: each for each in await self.subscriptions.all() if each.suspended is None}
                    if wanted and not self.base_url and (place := await self._store.record(PLACE, "desk")) is not None:
                        self.base_url = place.data
                    await self._follow(wanted, senders)
                    outage.end()
                except Exception as error:  # noqa: BLE001  # mostly a store that is away: there is another time
                    outage.note(error)
                await asyncio.sleep(self._pace.look)
        finally:
            await _end([task for _, task in senders.values()])

    async def _follow(
        self, wanted: dict[str, Subscription], senders: dict[str, tuple[Subscription, asyncio.Task[None]]]
    ) -> None:
        """One sender for each subscription, as it is now."""
        over = [name for name, (known, _) in senders.items() if wanted.get(name) != known]
        await _end([senders.pop(name)[1] for name in over])
        for name in over:
            if await self.subscriptions.find(name) is None:
                await self.subscriptions.forget_letters(name)
        for name, subscription in wanted.items():
            if name not in senders:
                senders[name] = (subscription, asyncio.create_task(self._send_for(subscription)))

    async def _send_for(self, subscription: Subscription) -> None:
        outage = Outage(logger, "sending_interrupted", "sending_resumed")
        while True:
            try:
                async with self._lease(subscription.id) as is_ours:
                    if is_ours:
                        await _Sender(self, subscription).send()
                outage.end()
            except Exception as error:  # noqa: BLE001  # one subscription's trouble is not the others'
                outage.note(error)
            await asyncio.sleep(self._pace.look)

    @asynccontextmanager
    async def _lease(self, subscription_id: str) -> AsyncIterator[bool]:
        """The right to send for a subscription, renewed as long as this is entered; whoever loses it is cancelled."""
        holder = mint("sender")

        def record() -> StoredRecord:
            until = self._clock.now() + self._pace.lease
            return StoredRecord(kind=LEASE, id=subscription_id, data=holder, owner=holder, expires_at=until)

        if not await self._store.add_record(record()):
            yield False
            return
        lost = False
        task = asyncio.current_task()
        assert task is not None

        async def renew() -> None:
            nonlocal lost
            while True:
                await asyncio.sleep(self._pace.lease / 3)
                try:
                    lost = not await self._store.replace_record(record(), was=holder)
                except Exception:  # noqa: BLE001  # a store that is away: who cannot renew must not go on
                    lost = True
                if lost:
                    task.cancel()
                    return

        renewing = asyncio.create_task(renew())
        try:
            yield True
        except asyncio.CancelledError:
            if not lost or task.uncancel() > 0:
                raise
            logger.warning("lease lost", extra={"action": "outbox_lease_lost", "subscription": subscription_id})
        finally:
            await _end([renewing])
            with suppress(Exception):  # it ends by itself
                await self._store.remove_records(LEASE, holder)

    # -- what a sender needs ------------------------------------------------------------------------------------------

    def message_of(self, subscription: Subscription, event: Event) -> OutgoingMessage:
        place = f"{subscription.id}/{event.sequence}/{event.index}".encode()
        data = dict(event.data)
        if (link := self.link(event)) is not None:
            data["url"] = link
        if subscription.shows_arguments and event.arguments is not None:
            data["arguments"] = event.arguments
            if event.summary is not None:
                data["summary"] = event.summary
        body: JsonObject = {"type": event.type, "timestamp": iso(event.at), "data": data}
        message_id = f"msg_{hashlib.sha256(place).hexdigest()[:32]}"
        return OutgoingMessage(id=message_id, type=event.type, body=encode(body))

    def link(self, event: Event) -> str | None:
        """Where it is seen whole; None: nobody said yet where the desk is."""
        return f"{self.base_url.rstrip('/')}{_page_of(event)}" if self.base_url else None

    async def try_to_send(self, subscription: Subscription, message: OutgoingMessage) -> Delivered:
        now = self._clock.now()
        try:
            made = self._channel_of(subscription, now)
            channel = await made if isinstance(made, Awaitable) else made
            return await channel.send(message, now)
        except UserError as error:  # this process lacks what the channel needs
            return Delivered(error=error.message)
        except Exception as error:  # a channel's bug must not stop what comes after
            logger.exception("channel failed", extra={"action": "channel_failed", "subscription": subscription.id})
            return Delivered(error=repr(error)[:300])

    def retry_at(self, tries: int) -> float:
        return self._clock.now() + self._pace.pause(tries, self._chance())


def _page_of(event: Event) -> str:
    if event.type == DIGEST:
        return "/inbox"
    request = event.data.get("request_id")
    return f"/runs/{event.key}" if request is None else f"/inbox?open={request}"


class _Sender:
    """Sends for one subscription, while its process has the right to."""

    def __init__(self, outbox: Outbox, subscription: Subscription) -> None:
        self._outbox = outbox
        self._store = outbox._store
        self._subscription = subscription
        self._pace = outbox._pace
        self._failures = 0
        """In a row."""
        self._probe_at = 0.0
        """When a receiver that is down is tried again."""
        self._is_turn_of_news = False
        """Then with something that it did not get yet."""
        self._is_gone = False
        self._saved = ""
        """The cursor as it was written last."""
        self._digest = Digest()
        """What is told later, together."""

    async def send(self) -> None:
        stored = await self._store.record(CURSOR, self._subscription.id)
        if stored is None:  # it was removed
            return
        self._saved = stored.data
        seen, unsaved = read_cursor(stored), 0
        while not self._is_gone:
            parked = [read_letter(each) for each in await self._store.records(PARKED, owner=self._subscription.id)]
            await self._retry(parked)
            if self._is_given_up(parked):
                await self._outbox.subscriptions.suspend(self._subscription.id, "nothing got through for three days")
                return
            if await self._tell_together(seen) and not await self._save(seen):
                return
            room = self._room(len(parked))
            entries = await self._store.feed(seen, room) if room else []
            if not entries:
                self._is_turn_of_news = self._is_turn_of_news and not room  # there is nothing new to try it with
                await self._wait(seen, parked)
                continue
            seen, unsaved = entries[-1].sequence, unsaved + len(entries)
            wanted = await self._wanted_of(entries)
            await self._tell(wanted)
            if (wanted or unsaved >= FAR) and self._digest.is_empty:
                if not await self._save(seen):
                    return
                unsaved = 0
        await self._outbox.subscriptions.suspend(self._subscription.id, "the receiver answered that it is gone (410)")

    async def _wanted_of(self, entries: Sequence[FeedEntry]) -> list[Event]:
        events = [event for entry in entries for event in await self._events_of(entry)]
        return [event for event in events if self._wants(event)]

    async def _events_of(self, entry: FeedEntry) -> list[Event]:
        """What an append tells. One that cannot be told is said in the log; what comes after it is told."""
        try:
            return await events_of(self._store, entry)
        except StoreError:  # it is away, and comes back
            raise
        except Exception:
            fields = {"subscription": self._subscription.id, "run_id": entry.run_id, "sequence": entry.sequence}
            logger.exception("append not told", extra={"action": "append_not_told", **fields})
            return []

    async def _save(self, seen: int) -> bool:
        """What failed is parked by now, so nothing is lost if we die here. False: another process went on, and what it
        wrote stands."""
        cursor = cursor_record(self._subscription.id, seen)
        is_ours = await self._store.replace_record(cursor, was=self._saved)
        self._saved = cursor.data
        return is_ours

    async def _tell_together(self, seen: int) -> bool:
        """Tell what was collected, if it is time. Until then the cursor stands before it: whoever takes over collects
        it again."""
        digest = self._digest.due(self._subscription.every, seen, self._outbox._clock.now())
        if digest is not None:
            await self._tell_each([digest])
        return digest is not None

    def _is_given_up(self, parked: Sequence[Letter]) -> bool:
        oldest = min((each.since for each in parked), default=float("inf"))
        since = max(oldest, self._subscription.resumed_at)
        return self._failures >= IS_DOWN and since < self._outbox._clock.now() - PATIENCE

    def _room(self, parked: int) -> int:
        """How many appends may be read now. Of a receiver that seems to be down every second try is one of something
        new: perhaps it is there, and only refuses what it got so far."""
        if parked >= MOST_PARKED or self._is_gone:
            return 0
        if self._failures < IS_DOWN:
            return BATCH
        return 1 if self._is_turn_of_news and self._outbox._clock.now() >= self._probe_at else 0

    async def _wait(self, seen: int, parked: Sequence[Letter]) -> None:
        if self._room(len(parked)) < BATCH:  # news would wake us again and again
            await asyncio.sleep(min(self._pace.look, self._pace.first_retry))
            return
        first = min((each.next_at for each in parked), default=float("inf")) - self._outbox._clock.now()
        await self._store.wait_for_news(seen, max(0.01, min(self._pace.look, first)))

    def _wants(self, event: Event) -> bool:
        return self._subscription.wants(event.type, event.agent, event.tool, event.groups)

    async def _tell(self, events: Sequence[Event]) -> None:
        """Tell these, now or together with others."""
        if self._subscription.every is None:
            await self._tell_each(events)
        for event in events if self._subscription.every is not None else ():
            self._digest.add(event, self._outbox.link(event))

    async def _tell_each(self, events: Sequence[Event]) -> None:
        """Tell these: each request's in their order, several requests at once."""
        if not events:
            return
        stored = await self._store.records(PARKED, owner=self._subscription.id)
        blocked = {read_letter(each).key for each in stored}
        queues: dict[str, list[Event]] = {}
        for event in events:
            queues.setdefault(event.key, []).append(event)
        places = asyncio.Semaphore(AT_ONCE)

        async def tell(key: str, queue: Sequence[Event]) -> None:
            async with places:
                is_blocked = key in blocked
                for event in queue:
                    is_blocked = not await self._first_try(event, is_blocked=is_blocked)

        async with asyncio.TaskGroup() as tasks:
            for key, queue in queues.items():
                tasks.create_task(tell(key, queue))

    async def _first_try(self, event: Event, *, is_blocked: bool) -> bool:
        """Whether it got through. Behind one that did not, or to a receiver that is down, it is not tried."""
        message = self._outbox.message_of(self._subscription, event)
        result = Delivered(error="waits behind an earlier one")
        is_tried = not is_blocked and (self._failures < IS_DOWN or self._outbox._clock.now() >= self._probe_at)
        if is_tried:
            result = await self._outbox.try_to_send(self._subscription, message)
            self._count(result)
        if result.error is None:
            return True
        tries = 1 if is_tried else 0
        letter = Letter(
            id=f"{self._subscription.id}_{event.sequence:016d}_{event.index:04d}",
            key=event.key,
            message_id=message.id,
            type=message.type,
            body=message.body.decode(),
            tries=tries,
            next_at=self._outbox.retry_at(max(1, tries)),
            error=result.error,
            at=event.at,
            since=self._outbox._clock.now(),
        )
        await self._store.add_record(letter_record(PARKED, self._subscription.id, letter))
        return False

    def _count(self, result: Delivered) -> None:
        self._failures = 0 if result.error is None else self._failures + 1
        self._is_gone = self._is_gone or result.is_gone
        if self._failures >= IS_DOWN:
            self._probe_at = self._outbox.retry_at(self._failures - IS_DOWN + 1)
            self._is_turn_of_news = not self._is_turn_of_news

    async def _retry(self, parked: Sequence[Letter]) -> None:
        """Try what is due: of each request only the oldest, and of a receiver that is down only one."""
        passed: set[str] = set()
        for letter in self._in_turn(parked):
            now = self._outbox._clock.now()
            is_down = self._failures >= IS_DOWN
            is_turn_of_news = self._is_turn_of_news and len(parked) < MOST_PARKED
            if self._is_gone or (is_down and (is_turn_of_news or now < self._probe_at)):
                return
            is_early = letter.next_at > now and not is_down
            if letter.key in passed or is_early or not await self._try_again(letter):
                passed.add(letter.key)

    def _in_turn(self, parked: Sequence[Letter]) -> Sequence[Letter]:
        """In the order of the events, which is that of their ids. Of a receiver that is down: the oldest about each
        request, and of these first what was tried least, so that no message that it refuses stands before the rest."""
        if self._failures < IS_DOWN:
            return parked
        heads: dict[str, Letter] = {}
        for letter in parked:
            heads.setdefault(letter.key, letter)
        return sorted(heads.values(), key=lambda each: each.tries)

    async def _try_again(self, letter: Letter) -> bool:
        message = OutgoingMessage(id=letter.message_id, type=letter.type, body=letter.body.encode())
        result = await self._outbox.try_to_send(self._subscription, message)
        self._count(result)
        tries = letter.tries + 1
        if result.error is None:
            await self._store.take_record(PARKED, letter.id)
        elif tries >= self._pace.tries:
            await self._give_up(msgspec.structs.replace(letter, tries=tries, error=result.error))
        else:
            later = msgspec.structs.replace(
                letter, tries=tries, error=result.error, next_at=self._outbox.retry_at(tries)
            )
            await self._store.replace_record(letter_record(PARKED, self._subscription.id, later))
        return result.error is None

    async def _give_up(self, letter: Letter) -> None:
        logger.warning(
            "dead letter", extra={"action": "dead_letter", "subscription": self._subscription.id, "letter": letter.id}
        )
        dead = await self._store.records(DEAD, owner=self._subscription.id, limit=MOST_DEAD)
        if len(dead) >= MOST_DEAD:
            await self._store.take_record(DEAD, dead[0].id)
        await self._store.add_record(letter_record(DEAD, self._subscription.id, letter))
        await self._store.take_record(PARKED, letter.id)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""Browsers of people who want to be told: whose they are, and that nobody is told who has left."""

from __future__ import annotations

import json
from collections.abc import Sequence

from placet.channels.push import Browser, PushChannel, browser_of, push_key
from placet.facts.errors import LimitExceeded
from placet.ports import Channel, Delivered, DeskStore, OutgoingMessage
from placet.service.subscriptions import Filters, Subscription, Subscriptions

MOST_OF_ONE = 10


class OfNobody:
    """A browser whose user was removed or switched off: it is told nothing, and suspended."""

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        return Delivered(error="its user is not here any more", is_gone=True)


async def push_channel(subscription: Subscription, store: DeskStore, allowed: Sequence[str]) -> Channel:
    record = await store.record("user", subscription.created_by or "")
    if record is None or not json.loads(record.data).get("is_active", True):
        return OfNobody()
    return PushChannel(browser_of(subscription.url), push_key(), allowed)


async def browsers_of(subscriptions: Subscriptions, owner: str) -> list[Subscription]:
    return [each for each in await subscriptions.all() if each.channel == "push" and each.created_by == owner]


async def tell_browser(subscriptions: Subscriptions, browser: Browser, owner: str, label: str) -> Subscription:
    """Once for each browser, however often it asks. One that somebody else used before is now this user's."""
    url = browser.address()
    for each in await subscriptions.all():
        if each.channel == "push" and browser_of(each.url).endpoint == browser.endpoint:
            if each.created_by == owner and each.url == url and each.suspended is None:
                return each
            await subscriptions.remove(each.id, by=owner)
    if len(await browsers_of(subscriptions, owner)) >= MOST_OF_ONE:
        raise LimitExceeded(f"{MOST_OF_ONE} browsers of {owner} are told already: remove one first.")
    return await subscriptions.add(label[:100] or "a browser", url, Filters(), by=owner)


async def forget_browser(subscriptions: Subscriptions, subscription_id: str, owner: str) -> bool:
    found = await subscriptions.find(subscription_id)
    if found is None or found.channel != "push" or found.created_by != owner:
        return False
    return await subscriptions.remove(found.id, by=owner)

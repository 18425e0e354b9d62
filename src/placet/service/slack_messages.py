"""Questions in Slack: each is one message that shows how the question stands, wherever it was decided.

A message is written from what the store says at that moment, not from the event that was told: so a late event, or one
that is told twice, never shows something older.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from placet.channels.slack_blocks import Block, escaped, is_shown_whole, message_about, section
from placet.channels.slack_client import error_code
from placet.channels.targets import rest_of
from placet.channels.words import title_of
from placet.core.index import RequestRecord
from placet.facts.codec import JsonObject, encode
from placet.facts.ids import request_id, split_request_id
from placet.ports import Delivered, DeskStore, OutgoingMessage, StoredRecord
from placet.service.guest_tools import can_be_edited
from placet.service.subscriptions import CHAT_MESSAGE, Subscription

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

DAY = 86400.0
KEPT_SECONDS = 90 * DAY
"""How long the place of a message is remembered after it was written last."""
_GONE = ("is_archived",)
_LOST = ("message_not_found", "cant_update_message")


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a question is shown, and what of it."""

    channel: str
    ts: str
    """Slack's name of the message in its channel."""
    digest: str
    shows_all: bool
    """Whether the arguments are in it, uncut: then a yes needs no second look at them."""


async def message_of(store: DeskStore, subscription_id: str, request: str) -> ChatMessage | None:
    found = await store.record(CHAT_MESSAGE, f"{subscription_id}:{request}")
    return None if found is None else msgspec.json.decode(found.data, type=ChatMessage)


class SlackChannel:
    """One channel of Slack."""

    def __init__(self, subscription: Subscription, store: DeskStore, client: AsyncWebClient) -> None:
        self._it = subscription
        self._store = store
        self._client = client

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        import aiohttp
        from slack_sdk.errors import SlackApiError

        try:
            await self._send(message, now)
        except SlackApiError as error:
            code = error_code(error)
            return Delivered(error=f"Slack answered {code}", is_gone=code in _GONE)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return Delivered(error=f"{type(error).__name__}: {error}"[:300])
        return Delivered()

    async def _send(self, message: OutgoingMessage, now: float) -> None:
        data = json.loads(message.body)["data"]
        link = data.get("url")
        if message.type == "test":
            await self._post({"text": f"A test of Placet: the channel {escaped(self._it.name)} works."})
        elif "request_id" not in data:
            title = title_of(message.type, data)
            await self._post({"text": escaped(title), "blocks": [section(title), *_looked_at(link)]})
        else:
            await self._about_question(message.type, data, link, now)

    async def _about_question(self, event: str, data: JsonObject, link: str | None, now: float) -> None:
        request = await self._store.request(str(data["request_id"]))
        if request is None:  # its run was deleted
            return
        await self._show(request, link, now, posts=not self._it.filters.events or event in self._it.filters.events)
        if event == "request.escalated":
            await self._remind(request)
        for number in range(1, request.number):  # an approval was taken back: its message says so
            before = await self._store.request(request_id(request.run_id, request.call, number))
            if before is not None:
                await self._show(before, _link_to(link, before.id), now, posts=False)

    async def _show(self, request: RequestRecord, link: str | None, now: float, *, posts: bool) -> None:
        """Write the message, or write it anew."""
        from slack_sdk.errors import SlackApiError

        shown = message_about(
            request,
            self._it.id,
            link,
            shows_arguments=self._it.shows_arguments,
            can_be_edited=await can_be_edited(self._store, request),
        )
        known = await message_of(self._store, self._it.id, request.id)
        if known is not None:
            try:
                await self._client.chat_update(channel=known.channel, ts=known.ts, **shown)
                await self._remember(request, known.channel, known.ts, now)
                return
            except SlackApiError as error:
                if error_code(error) not in _LOST:
                    raise
                await self._store.take_record(CHAT_MESSAGE, f"{self._it.id}:{request.id}")
            posts = request.status == "pending"  # somebody deleted it in the chat
        if posts:
            # Dying between these two lines leaves a message that nobody knows: its buttons decide nothing, and the next
            # try writes another.
            channel, ts = await self._post(shown)
            await self._remember(request, channel, ts, now)

    async def _post(self, shown: Block, below: str | None = None) -> tuple[str, str]:
        answer = await self._client.chat_postMessage(
            channel=rest_of(self._it.url),
            mrkdwn=False,
            unfurl_links=False,
            unfurl_media=False,
            thread_ts=below,
            reply_broadcast=True if below is not None else None,
            **shown,
        )
        return str(answer["channel"]), str(answer["ts"])

    async def _remember(self, request: RequestRecord, channel: str, ts: str, now: float) -> None:
        shows_all = self._it.shows_arguments and is_shown_whole(request)
        kept = ChatMessage(channel=channel, ts=ts, digest=request.digest, shows_all=shows_all)
        record = StoredRecord(
            kind=CHAT_MESSAGE,
            id=f"{self._it.id}:{request.id}",
            data=encode(kept).decode(),
            owner=self._it.id,
            expires_at=now + KEPT_SECONDS,
        )
        if not await self._store.replace_record(record):
            await self._store.add_record(record)

    async def _remind(self, request: RequestRecord) -> None:
        """A changed message wakes nobody up."""
        known = await message_of(self._store, self._it.id, request.id)
        if known is not None and request.status == "pending":
            title = title_of("request.escalated", {"tool": request.tool})
            await self._post({"text": escaped(title)}, below=known.ts)


def _looked_at(link: str | None) -> list[Block]:
    return [] if link is None else [section(link)]


def _link_to(link: str | None, request: str) -> str | None:
    """The same address, about another question."""
    parts = split_request_id(request)
    return None if link is None or parts is None else f"{link.partition('?')[0]}?open={request}"

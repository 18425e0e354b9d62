"""What the tests of Slack share: people who are linked, a channel that is told, a question in it."""

from __future__ import annotations

import re
from typing import Any

import httpx2

from placet.desk import DeskRequest
from placet.desk.access.chat_links import ChatLinks
from placet.service.subscriptions import Filters, Subscription
from tests.desk.pages.test_deciding_pages import browser, csrf
from tests.support.desk_server import RunningDesk
from tests.support.slack_server import Message, SlackServer, View


async def tell_slack(desk: RunningDesk, url: str = "slack:#finance", **more: Any) -> Subscription:
    desk.desk.outbox.base_url = "https://desk.example.com"
    filters = more.pop("filters", Filters())
    return await desk.desk.outbox.subscriptions.add("finance", url, filters, **more)


async def post(client: httpx2.AsyncClient, path: str, **fields: object) -> httpx2.Response:
    body = {"csrf_token": await csrf(client), **{name: str(value) for name, value in fields.items()}}
    return await client.post(path, data=body)


async def word_of(client: httpx2.AsyncClient) -> str:
    page = await post(client, "/account/chat", action="begin")
    found = re.search(r"/placet link ([A-Z0-9]{4}-[A-Z0-9]{4})", page.text)
    assert found is not None, page.text
    return found[1]


async def linked(desk: RunningDesk, slack: SlackServer, name: str = "ana", user: str = "U0ANA") -> httpx2.AsyncClient:
    """A person of the desk whose Slack account is linked, by the whole ceremony; their browser."""
    client = await browser(desk, name)
    asked = await slack.command(user, f"link {await word_of(client)}")
    await slack.click(user, asked, "Yes")
    answer = await post(client, "/account/chat", action="confirm", account=f"slack:T0OURS:{user}")
    assert answer.status_code == 303, answer.text
    return client


def links(desk: RunningDesk) -> ChatLinks:
    return ChatLinks(desk.desk.store, desk.web.clock)


async def asked(desk: RunningDesk, slack: SlackServer, **more: Any) -> tuple[Message, DeskRequest]:
    """A question in Slack."""
    await tell_slack(desk, **more)
    run = await desk.waiting_run("Archivist")
    (request,) = await desk.desk.pending(run_id=run.id)
    return await slack.written(), request


async def newest_view(slack: SlackServer, count: int = 1) -> View:
    await slack.until(lambda: len(slack.views) >= count)
    return slack.views[-1]

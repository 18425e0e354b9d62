"""Desks that are killed, in processes of their own, between what Slack tells and what becomes of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.desk.access.chat_links import ChatLinks
from placet.service.subscriptions import CHAT_MESSAGE, Filters, cursor_record
from placet.testing.run_writer import until
from tests.desk.api.test_serve import SERVE, Process, running
from tests.desk.scenes import PATIENCE
from tests.support.desk_server import support_agents
from tests.support.slack_server import SlackServer

pytestmark = pytest.mark.promise("P25")


def store_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'placet.db'}"


@asynccontextmanager
async def served(slack: SlackServer, folder: Path) -> AsyncIterator[Process]:
    place = ("--store", store_of(folder), "--public-url", "https://desk.example.com")
    with running(*SERVE, *place, cwd=folder) as process:
        await asyncio.to_thread(process.read_until, "Ctrl-C ends it")
        await slack.connected()
        yield process


async def link(desk: Desk) -> None:
    links = ChatLinks(desk.store, SYSTEM_CLOCK)
    await Accounts(desk.store).add_user("ana", "reviewer")
    begun = await links.type_word("slack:T0OURS:U0ANA", "ana", await links.begin("ana"))
    await links.answer_there("slack:T0OURS:U0ANA", begun.id, is_me=True)
    await links.confirm_here("ana", "slack:T0OURS:U0ANA")


async def test_a_desk_that_is_killed_after_a_click_came_leaves_it_to_the_next_one(
    slack: SlackServer, tmp_path: Path
) -> None:
    async with Desk(store_of(tmp_path), agents=support_agents(), run=False) as desk:
        await link(desk)
        async with served(slack, tmp_path) as first:
            await desk.outbox.subscriptions.add("finance", "slack:#finance", Filters(), shows_arguments=True)
            run = await desk.start("Archivist", "Tidy up.")
            message = await slack.written()

            async def is_noted() -> bool:
                return bool(await desk.store.records(CHAT_MESSAGE))

            await until(is_noted)
            first.process.send_signal(signal.SIGSTOP)  # the click arrives, and nobody takes it
            clicking = asyncio.create_task(slack.click("U0ANA", message, "Approve"))
            await slack.until(lambda: any(each["type"] == "interactive" for each in slack.envelopes))
            first.process.kill()
            await slack.until(lambda: not slack.is_connected)
        async with served(slack, tmp_path):
            click = next(each for each in slack.envelopes if each["type"] == "interactive")
            await slack.send(click)
            clicking.cancel()
            await slack.until(lambda: "approved by ana" in message.words)
            await desk.wait(run.id, timeout=PATIENCE)
            requests = (await desk.requests(status=None, run_id=run.id)).rows

    assert [(each.status, each.decided_by) for each in requests] == [("approved", "ana")]
    assert len(slack.of("C0FINANCE")) == 1


async def test_a_message_of_which_nobody_noted_where_it_is_decides_nothing_and_another_one_does(
    slack: SlackServer, tmp_path: Path
) -> None:
    """As it is after a desk that died between writing a message and noting where it is."""
    async with Desk(store_of(tmp_path), agents=support_agents(), run=False) as desk:
        await link(desk)
        hook = await desk.outbox.subscriptions.add("finance", "slack:#finance", Filters(), shows_arguments=True)
        async with served(slack, tmp_path):
            run = await desk.start("Archivist", "Tidy up.")
            orphan = await slack.written()
            await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (request,) = await desk.pending()
        await desk.store.remove_records(CHAT_MESSAGE, hook.id)
        await desk.store.replace_record(cursor_record(hook.id, 0))
        async with served(slack, tmp_path):
            message = await slack.written(count=2)
            await slack.click("U0ANA", orphan, "Approve")
            still = (await desk.request(request.id)).status
            await slack.click("U0ANA", message, "Approve")
            await slack.until(lambda: "approved by ana" in message.words)

    assert still == "pending"


async def test_where_the_line_breaks_the_desk_connects_again(slack: SlackServer, tmp_path: Path) -> None:
    async with Desk(store_of(tmp_path), agents=support_agents(), run=False) as desk:
        await link(desk)
        async with served(slack, tmp_path):
            await desk.outbox.subscriptions.add("finance", "slack:#finance", Filters(), shows_arguments=True)
            await desk.start("Archivist", "Tidy up.")
            message = await slack.written()
            await slack.cut()
            await slack.click("U0ANA", message, "Approve")
            await slack.until(lambda: "approved by ana" in message.words)

    assert slack.calls.count("apps.connections.open") >= 2

"""Everything else, by the real apprise, which posts to a server of this test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.facts.errors import UserError
from placet.service.outbox import Outbox
from placet.service.subscriptions import Filters
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import QUICK, HTTPReceiver, receiver, serving

pytestmark = pytest.mark.promise("P25")


@pytest.fixture
async def place(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HTTPReceiver]:
    async with receiver("200 OK") as found:
        monkeypatch.setenv("PLACET_APPRISE_ONCALL", f"json://user:s3cret@localhost:{found.port}/told")
        yield found


async def test_a_question_goes_by_apprise_to_where_the_environment_says(url: str, place: HTTPReceiver) -> None:
    async with open_store(url) as store:
        outbox = Outbox(store, SYSTEM_CLOCK, base_url="https://desk.example.com", pace=QUICK)
        hook = await outbox.subscriptions.add("pager", "apprise:oncall", Filters())
        async with serving(outbox):
            (request,) = await RunWriter().ask(store, "pay")

            async def is_told() -> bool:
                return bool(place.requests)

            await until(is_told)
        records = [each.data for each in await store.records("subscription")]
    message = json.loads(place.requests[0][1])

    assert hook.channel == "apprise"
    assert message["title"] == "pay waits for a yes"
    assert f"https://desk.example.com/inbox?open={request}" in message["message"]
    assert "s3cret" not in "".join(records)


async def test_what_does_not_get_through_is_tried_again(url: str, place: HTTPReceiver) -> None:
    place.status = "500 No"
    async with open_store(url) as store:
        outbox = Outbox(store, SYSTEM_CLOCK, pace=QUICK)
        hook = await outbox.subscriptions.add("pager", "apprise:oncall", Filters())
        failed = await outbox.test(hook)
        place.status = "200 OK"
        sent = await outbox.test(hook)

    assert failed.error is not None
    assert sent.error is None


@pytest.mark.parametrize("url_of", ["apprise:json://localhost/x", "apprise:", "apprise:a b", "apprise:../etc"])
async def test_an_address_is_no_name_and_does_not_get_into_the_store(url: str, url_of: str) -> None:
    async with open_store(url) as store:
        outbox = Outbox(store, SYSTEM_CLOCK)
        with pytest.raises(UserError, match="environment"):
            await outbox.subscriptions.add("pager", url_of, Filters())
        kept = await outbox.subscriptions.all()

    assert kept == []


async def test_a_name_that_nobody_gave_an_address_is_said(url: str) -> None:
    async with open_store(url) as store:
        outbox = Outbox(store, SYSTEM_CLOCK)
        hook = await outbox.subscriptions.add("pager", "apprise:nobody", Filters())
        result = await asyncio.wait_for(outbox.test(hook), 30)

    assert result.error is not None
    assert "PLACET_APPRISE_NOBODY" in result.error

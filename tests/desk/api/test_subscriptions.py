"""Webhooks over the API and on their page: a desk that serves tells them, and people see what did not get through."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from standardwebhooks import Webhook

from placet.facts.codec import JsonObject
from placet.service.records import records
from placet.testing.run_writer import until
from tests.desk.api.scenes import problem
from tests.desk.pages.test_deciding_pages import browser, post
from tests.service.receivers import HTTPReceiver, receiver
from tests.support.desk_server import RunningDesk, running_desk

PATH = "/v1/subscriptions"


@pytest.fixture
def named_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be told: the operator of the desk says so."""
    monkeypatch.setenv("PLACET_WEBHOOK_HOSTS", "localhost, other.example.com")


@pytest.fixture(params=["sqlite", "postgresql"])
async def desk(named_hosts: None, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    url = request.getfixturevalue("postgres").store_database() if request.param == "postgresql" else None
    async with running_desk(tmp_path, url=url) as running:
        running.desk.outbox.base_url = "https://desk.example.com"
        yield running


async def add(admin: httpx2.AsyncClient, url: str, **more: object) -> JsonObject:
    answer = await admin.post(PATH, json={"name": "ops", "url": url, **more})
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()
    return found


def told(server: HTTPReceiver, count: int) -> object:
    async def enough() -> bool:
        return len(server.requests) >= count

    return enough


@pytest.mark.promise("P25")
async def test_a_served_desk_tells_a_webhook_what_waits_and_what_was_decided(desk: RunningDesk) -> None:
    admin = await desk.person("root", "admin")
    async with receiver() as server:
        made = await add(admin, server.url, tools=["refund"])
        run = await desk.waiting_run()
        await until(told(server, 2))
        first, _ = await desk.desk.pending(run_id=run.id)
        await desk.desk.decide(first.id, "approve", by="ana")
        await until(told(server, 3))

    for headers, body in server.requests:
        Webhook(str(made["secret"])).verify(body, headers)
    assert [event["type"] for event in server.events] == ["request.waiting", "request.waiting", "request.decided"]
    data = server.events[2]["data"]
    assert isinstance(data, dict)
    assert (data["request_id"], data["verdict"], data["by"]) == (first.id, "approve", "ana")
    assert data["url"] == f"https://desk.example.com/inbox?open={first.id}"
    assert b"4900" not in b"".join(body for _, body in server.requests)


async def test_only_admins_see_and_change_who_is_told(desk: RunningDesk) -> None:
    ana = await desk.person("ana", "reviewer")
    answers = [
        await ana.get(PATH),
        await ana.post(PATH, json={"name": "x", "url": "https://x.example.com/"}),
        await ana.delete(f"{PATH}/hook_1"),
        await ana.get("/subscriptions", headers={"Accept": "text/html"}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403, 403]
    assert await desk.desk.outbox.subscriptions.all() == []


async def test_a_webhook_from_its_birth_to_its_end(desk: RunningDesk) -> None:
    admin = await desk.person("root", "admin")
    async with receiver() as server:
        made = await add(admin, server.url)
        one = f"{PATH}/{made['subscription']['id']}"  # type: ignore[index, call-overload]
        tested = (await admin.post(f"{one}/test", json={})).json()
        rotated = (await admin.post(f"{one}/secret", json={})).json()
        await admin.post(f"{one}/test", json={})
        changed = (await admin.patch(one, json={"events": ["run.ended"], "shows_arguments": True})).json()
        suspended = (await admin.post(f"{one}/suspend", json={"reason": "holidays"})).json()
        resumed = (await admin.post(f"{one}/resume", json={})).json()
        listed = (await admin.get(PATH)).json()["data"]
        removed = await admin.delete(one)
        gone = await admin.get(one)
    audit = [(entry.what, entry.by) async for entry in records(desk.desk.store, "operators")]

    assert tested == {"is_delivered": True, "error": None}
    headers, body = server.requests[1]
    for secret in (made["secret"], rotated["secret"]):
        assert Webhook(str(secret)).verify(body, headers)["type"] == "test"
    assert (changed["events"], changed["shows_arguments"]) == (["run.ended"], True)
    assert (suspended["suspended"], resumed["suspended"]) == ("holidays", None)
    assert [each["id"] for each in listed] == [made["subscription"]["id"]]  # type: ignore[index, call-overload]
    assert "whsec_" not in str(listed)
    assert removed.status_code == 204
    assert problem(gone, 404, "not_found")
    assert [what for what, by in audit if by == "root" and what.startswith("subscription")] == [
        "subscription made",
        "subscription secret changed",
        "subscription changed",
        "subscription suspended",
        "subscription resumed",
        "subscription removed",
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://hooks.example.com/"},
        {"url": "https://user:word@hooks.example.com/"},
        {"url": "javascript:alert(1)"},
        {"events": ["request.unknown"]},
        {"name": " "},
        {"unknown": 1},
    ],
)
async def test_what_says_nothing_sensible_is_refused(desk: RunningDesk, given: JsonObject) -> None:
    admin = await desk.person("root", "admin")
    body: JsonObject = {"name": "x", "url": "https://x.example.com/"} | given
    answer = await admin.post(PATH, json=body)

    assert answer.status_code == 422
    assert await desk.desk.outbox.subscriptions.all() == []


@pytest.mark.promise("P25")
async def test_dead_letters_are_seen_on_the_page_and_sent_again(desk: RunningDesk) -> None:
    root = await browser(desk, "root", "admin")
    outbox = desk.desk.outbox
    outbox._pace = outbox._pace.__class__(first_retry=0.01, longest_retry=0.02, tries=2, look=0.05)
    async with receiver("500 Oh") as server:
        added = await post(root, "/subscriptions", action="add", name="ops", url=server.url, events="request.waiting")
        (subscription,) = await outbox.subscriptions.all()
        await desk.waiting_run()

        async def two_are_dead() -> bool:
            return len(await outbox.subscriptions.dead(subscription.id)) == 2

        await until(two_are_dead)
        page = await root.get("/subscriptions")
        server.status = "204 No Content"
        before = len(server.requests)
        letter = (await outbox.subscriptions.dead(subscription.id))[0].id
        await post(root, "/subscriptions", action="send", id=subscription.id, letter=letter)
        await post(root, "/subscriptions", action="send-all", id=subscription.id)
        await until(told(server, before + 2))

        async def nothing_is_left() -> bool:
            return not await outbox.subscriptions.parked(subscription.id)

        await until(nothing_is_left)
        after = await root.get("/subscriptions")
        tested = await post(root, "/subscriptions", action="test", id=subscription.id)

    assert re.search(r"whsec_[\w+/=]+", added.text)
    assert "whsec_" not in page.text
    assert "2 dead" in page.text
    assert "the receiver answered 500" in page.text
    assert "all told" in after.text
    assert "It got through." in tested.text


async def test_forms_of_the_page_do_what_they_say_and_refuse_the_rest(desk: RunningDesk) -> None:
    root = await browser(desk, "root", "admin")
    await post(root, "/subscriptions", action="add", name="ops", url="https://other.example.com/x", tools="a, b*")
    (made,) = await desk.desk.outbox.subscriptions.all()
    bad = await post(root, "/subscriptions", action="add", name="<b>", url="http://plain.example.com/")
    await post(root, "/subscriptions", action="suspend", id=made.id)
    suspended = await root.get("/subscriptions")
    await post(root, "/subscriptions", action="resume", id=made.id)
    await post(root, "/subscriptions", action="change", id=made.id, name="new", url=made.url, shows_arguments="yes")
    (changed,) = await desk.desk.outbox.subscriptions.all()
    unknown = await post(root, "/subscriptions", action="remove", id="hook_none")
    without_token = await root.post("/subscriptions", data={"action": "remove", "id": made.id})
    still = await desk.desk.outbox.subscriptions.all()
    await post(root, "/subscriptions", action="remove", id=made.id)

    assert made.filters.tools == ["a", "b*"]
    assert bad.status_code == 422
    assert "https://" in bad.text
    assert "root suspended it" in suspended.text
    assert (changed.name, changed.shows_arguments, changed.suspended, changed.filters.tools) == ("new", True, None, [])
    assert unknown.status_code == 404
    assert without_token.status_code == 403
    assert still == [changed]
    assert await desk.desk.outbox.subscriptions.all() == []

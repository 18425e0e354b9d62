"""Browsers that are told: added by their user, encrypted for them, signed with the desk's key, and nobody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet.channels.push import new_push_key, push_key
from placet.testing.run_writer import until
from tests.desk.pages.test_deciding_pages import browser, csrf
from tests.desk.scenes import PATIENCE
from tests.support.desk_server import RunningDesk, running_desk
from tests.support.push_service import PushService, push_service

pytestmark = pytest.mark.promise("P25")


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PushService]:
    monkeypatch.setenv("PLACET_PUSH_KEY", new_push_key())
    monkeypatch.setenv("PLACET_PUSH_SUBJECT", "mailto:ops@example.com")
    monkeypatch.setenv("PLACET_WEBHOOK_HOSTS", "localhost")
    async with push_service() as found:
        found.server_key = push_key().public
        yield found


@pytest.fixture
async def desk(service: PushService, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path) as running:
        running.desk.outbox.base_url = "https://desk.example.com"
        yield running


async def post(client: httpx2.AsyncClient, **fields: str) -> httpx2.Response:
    return await client.post("/account/browsers", data={"csrf_token": await csrf(client), **fields})


async def add(client: httpx2.AsyncClient, service: PushService, **changes: str) -> httpx2.Response:
    found = service.browser
    keys = {"endpoint": found.endpoint, "p256dh": found.p256dh, "auth": found.auth} | changes
    return await post(client, action="add", **keys)


async def told(service: PushService, count: int) -> list[dict[str, Any]]:
    async def so_many() -> bool:
        assert service.refused == []
        return len(service.shown) >= count

    await until(so_many)
    return service.shown


async def test_a_browser_is_told_what_waits_and_what_became_of_it(desk: RunningDesk, service: PushService) -> None:
    ana = await browser(desk, "ana")
    page = (await ana.get("/account/browsers")).text
    await add(ana, service)
    run = await desk.waiting_run("Archivist")
    (request,) = await desk.desk.pending(run_id=run.id)
    (waiting,) = (await told(service, 1))[:1]
    await desk.desk.decide(request.id, "reject", by="ben")
    decided = (await told(service, 2))[1]
    await desk.desk.wait(run.id, timeout=PATIENCE)
    listed = (await ana.get("/account/browsers")).text

    assert f'data-push-key="{service.server_key}"' in page
    assert waiting["title"] == "delete_folder waits for a yes"
    assert "/exports" not in str(waiting)
    assert waiting["url"] == f"https://desk.example.com/inbox?open={request.id}"
    assert (waiting["silent"], decided["silent"]) == (False, True)
    assert decided["title"] == "delete_folder: rejected by ben"
    assert waiting["tag"] == decided["tag"]
    assert service.headers[0]["topic"] == service.headers[1]["topic"]
    assert "localhost" in listed


async def test_a_browser_is_its_users_and_goes_with_them(desk: RunningDesk, service: PushService) -> None:
    ana, ben = await browser(desk, "ana"), await browser(desk, "ben")
    await add(ana, service)
    (hook,) = await desk.desk.outbox.subscriptions.all()
    await post(ben, action="remove", id=hook.id)
    kept = await desk.desk.outbox.subscriptions.all()
    await desk.web.accounts.remove_user("ana")
    await desk.waiting_run("Archivist")

    async def is_suspended() -> bool:
        found = await desk.desk.outbox.subscriptions.find(hook.id)
        return found is not None and found.suspended is not None

    await until(is_suspended)

    assert [each.id for each in kept] == [hook.id]
    assert service.shown == []


async def test_a_browser_that_another_user_had_is_told_for_the_one_who_sits_there_now(
    desk: RunningDesk, service: PushService
) -> None:
    await add(await browser(desk, "ana"), service)
    await add(await browser(desk, "ben"), service)
    await add(await browser(desk, "ben"), service)
    found = await desk.desk.outbox.subscriptions.all()

    assert [each.created_by for each in found] == ["ben"]


async def test_a_browser_that_is_gone_is_told_nothing_more(desk: RunningDesk, service: PushService) -> None:
    service.status = "410 Gone"
    await add(await browser(desk, "ana"), service)
    (hook,) = await desk.desk.outbox.subscriptions.all()
    await desk.waiting_run("Archivist")

    async def is_suspended() -> bool:
        found = await desk.desk.outbox.subscriptions.find(hook.id)
        return found is not None and "gone" in (found.suspended or "")

    await until(is_suspended)


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": "http://push.example.com/1"},
        {"endpoint": "https://ana:secret@push.example.com/1"},
        {"endpoint": ""},
        {"p256dh": "not a key!"},
        {"auth": ""},
    ],
)
async def test_what_is_no_browser_is_refused(desk: RunningDesk, service: PushService, changes: dict[str, str]) -> None:
    answer = await add(await browser(desk, "ana"), service, **changes)

    assert answer.status_code == 422
    assert await desk.desk.outbox.subscriptions.all() == []


async def test_a_private_address_is_not_connected_to(
    desk: RunningDesk, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody who may log in may say where a browser is reached."""
    changed = await add(await browser(desk, "ana"), service, endpoint=f"https://127.0.0.1:{service.port}/push/1")
    (hook,) = await desk.desk.outbox.subscriptions.all()
    result = await desk.desk.outbox.test(hook)

    assert changed.status_code == 303
    assert result.error is not None
    assert "private address" in result.error
    assert service.shown == []


async def test_the_worker_and_the_manifest_are_served(desk: RunningDesk, service: PushService) -> None:
    ana = await browser(desk, "ana")
    worker = await ana.get("/push-worker.js")
    manifest = await ana.get("/static/manifest.json")

    assert worker.headers["content-type"].startswith("text/javascript")
    assert "showNotification" in worker.text
    assert manifest.json()["start_url"] == "/inbox"

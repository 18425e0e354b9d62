"""What changes while somebody looks: new requests, decisions of others, runs that go on. In real browsers."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.desk.browser.scenes import Reviewer, open_request, picture, request_of, sit_down, statuses
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def mark(page: Page) -> None:
    """A reload would wipe this out."""
    await page.evaluate("() => { window.sameDocument = true; }")


async def is_same(page: Page) -> bool:
    return bool(await page.evaluate("() => window.sameDocument === true"))


async def test_a_new_request_appears_without_a_reload(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana")
    await sit_down(page)
    await expect(page.locator(".empty")).to_contain_text("Nothing waits.")
    await mark(page)

    await desk.waiting_run("Archivist")

    await expect(page.locator(".row-link", has_text="delete_folder")).to_be_visible()
    assert await is_same(page)


async def test_what_somebody_is_typing_stays_when_others_decide_and_the_card_says_who_did(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run("Archivist")
    await desk.waiting_run()
    ana, ben = await arrive("ana"), await arrive("ben")
    await sit_down(ana)
    await sit_down(ben)
    await open_request(ana, "delete_folder")
    await ana.get_by_role("button", name="Reject…").click()
    await ana.get_by_label("Message to the agent").fill("Half a senten")
    await mark(ana)

    await open_request(ben, "delete_folder")
    await ben.get_by_role("button", name="Approve").click()
    await expect(ben.locator(".toast")).to_contain_text("Approved: delete_folder")

    await expect(ana.locator("#card-status")).to_contain_text("Approved by ben")
    await expect(ana.locator("#card-status")).to_be_in_viewport()
    await expect(ana.get_by_label("Message to the agent")).to_have_value("Half a senten")
    await expect(ana.get_by_role("button", name="Reject", exact=True)).to_be_disabled()
    await expect(ana.locator(".row", has_text="delete_folder")).to_have_count(0)
    await picture(ana, "decided-by-another")
    assert await is_same(ana)
    assert (await request_of(desk, "delete_folder", "approved")).decided_by == "ben"


async def test_two_reviewers_decide_at_once_and_the_slower_one_reads_who_was_quicker(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run("Archivist")
    ana, ben = await arrive("ana"), await arrive("ben")
    await ana.route("**/v1/events*", lambda route: route.abort())  # ana's page hears nothing
    await ana.goto("/inbox")
    await sit_down(ben)
    await open_request(ana, "delete_folder")
    await open_request(ben, "delete_folder")

    await ben.get_by_role("button", name="Approve").click()
    await expect(ben.locator(".toast")).to_be_visible()
    await ana.get_by_role("button", name="Reject…").click()
    await expect(ana.locator("#card-status")).to_contain_text("Approved by ben")

    assert await statuses(desk, "delete_folder") == ["approved"]


async def test_a_form_that_was_open_when_somebody_else_decided_is_refused_and_kept(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await page.route("**/v1/events*", lambda route: route.abort())
    await page.goto("/inbox")
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Reject…").click()
    await page.get_by_label("Message to the agent").fill("No.")

    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "approve", by="ben")
    await page.get_by_role("button", name="Reject", exact=True).click()

    await expect(page.get_by_role("alert")).to_contain_text("ben was quicker.")
    await expect(page.get_by_role("alert")).to_be_in_viewport()
    await expect(page.locator("#card-status")).to_contain_text("Approved by ben")
    await expect(page.get_by_label("Message to the agent")).to_have_value("No.")
    await picture(page, "conflict")
    assert await statuses(desk, "delete_folder") == ["approved"]


async def test_an_equal_decision_that_somebody_else_made_is_no_conflict(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await page.route("**/v1/events*", lambda route: route.abort())
    await page.goto("/inbox")
    await open_request(page, "delete_folder")

    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "approve", by="ana")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".toast")).to_contain_text("Approved: delete_folder")


async def test_the_run_page_follows_the_run(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page, f"/runs/{run.id}")
    await expect(page.locator(".badge.is-waiting")).to_be_visible()
    await mark(page)

    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "approve", by="ben")

    await expect(page.locator(".final")).to_have_text("The folder is gone.")
    await expect(page.locator(".timeline .sign title")).to_contain_text("delete_folder: approved by ben")
    assert await is_same(page)


async def test_a_page_that_lost_the_desk_says_so_and_catches_up(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana")
    await sit_down(page)

    await page.context.set_offline(True)
    await desk.web.feed.close()
    desk.web.feed.is_closed = False
    await expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    await desk.waiting_run("Archivist")
    await page.context.set_offline(False)

    await expect(page.locator("#live")).to_have_attribute("data-state", "on")
    await expect(page.locator(".row-link", has_text="delete_folder")).to_be_visible()

"""Deciding several requests together, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import Reviewer, docs_picture, sit_down, statuses
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_several_alike_are_reviewed_and_approved_together_and_late_arrivals_are_not(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page, "/inbox?view=each")

    await page.locator(".row", has_text="refund").first.get_by_role("checkbox").check()
    await page.get_by_role("button", name="Select alike").click()
    await expect(page.locator(".bulk")).to_contain_text("2 selected")
    await desk.waiting_run()
    await expect(page.locator(".row", has_text="refund")).to_have_count(4)
    await expect(page.locator(".bulk")).to_contain_text("2 selected")
    await page.get_by_role("button", name="Review together").click()
    await expect(page.locator("#card-title")).to_have_text("2 requests")
    await expect(page.locator(".compare tbody tr")).to_have_count(2)
    await expect(page.locator(".compare")).to_contain_text("charged twice")
    await docs_picture(page, "inbox-together")
    await page.get_by_role("button", name="Approve these 2").click()

    await expect(page.locator("#card-title")).to_have_text("2 decided")
    assert await statuses(desk, "refund") == ["approved", "approved", "pending", "pending"]
    assert await statuses(desk, "delete_folder") == ["pending"]


async def test_what_somebody_else_decided_meanwhile_is_left_out_or_told(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    await desk.waiting_run()
    page = await arrive("ana")
    await page.route("**/v1/events*", lambda route: route.abort())
    await page.goto("/inbox?view=each")
    for box in await page.locator(".row input[type=checkbox]").all():
        await box.check()
    first, second, *_ = await desk.desk.pending()

    await desk.desk.decide(first.id, "reject", by="ben")
    await page.get_by_role("button", name="Review together").click()
    await expect(page.locator(".together .banner")).to_contain_text("rejected by ben meanwhile")
    await desk.desk.decide(second.id, "reject", by="ben")
    await page.get_by_label("Note for the record").fill("batch of the day")
    await page.get_by_role("button", name="Approve these 3").click()

    await expect(page.locator("#card-title")).to_have_text("2 decided, 1 not")
    await expect(page.locator(".outcomes .is-bad")).to_contain_text("ben was quicker: rejected.")
    assert await statuses(desk, "refund") == ["rejected", "rejected", "approved", "approved"]


async def test_one_can_still_be_taken_out_before_the_others_are_rejected(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    for box in await page.locator(".row input[type=checkbox]").all():
        await box.check()

    await page.get_by_role("button", name="Review together").click()
    await page.locator(".compare input[type=checkbox]").first.uncheck()
    await page.get_by_label("Message to the agents, if you reject").fill("Not today.")
    await page.get_by_role("button", name="Reject these 2").click()

    await expect(page.locator("#card-title")).to_have_text("1 decided")
    assert await statuses(desk, "refund") == ["pending", "rejected"]

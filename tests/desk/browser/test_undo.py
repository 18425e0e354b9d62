"""Undoing an approval while its call has not begun, in a real browser: from the message, from the card, by keyboard."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import PHONE, Reviewer, open_request, picture, request_of, sit_down, statuses
from tests.desk.browser.test_looks import complaints, is_not_wider_than_the_screen
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_approval_is_undone_from_the_message_and_asked_about_anew(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.desk.hold("tool", "delete_folder", by="ops")
    await desk.waiting_run("Archivist")
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()
    toast = page.locator(".toast", has_text="Approved: delete_folder")
    await expect(toast.get_by_role("button", name="Undo")).to_be_visible()
    await picture(page, "undo-offered")

    await toast.get_by_role("button", name="Undo").click()

    await expect(page.locator("#card-title")).to_have_text("delete_folder")
    await expect(page.locator(".card")).to_contain_text("its approval was taken back by ana")
    await expect(toast).to_have_count(0)
    await expect(page.locator(".toast")).to_contain_text("Taken back: delete_folder")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await picture(page, "undone")
    assert sorted(await statuses(desk, "delete_folder")) == ["closed", "pending"]


async def test_undo_goes_away_when_the_call_begins_and_it_is_reached_by_keyboard_until_then(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.desk.hold("tool", "delete_folder", by="ops")
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()
    await page.locator(".toast", has_text="Approved: delete_folder").get_by_role("link", name="Show").click()
    await expect(page.locator("#live")).to_have_attribute("data-state", "on")
    undo = page.locator("#card-status").get_by_role("button", name="Undo")
    await expect(undo).to_be_visible()
    await page.keyboard.press("u")
    await expect(undo).to_be_focused()

    await desk.desk.release_hold("tool", "delete_folder", by="ops")

    await expect(undo).to_have_count(0)
    await expect(page.locator("#card-status")).to_contain_text("Approved by ana")
    assert await statuses(desk, "delete_folder") == ["approved"]


async def test_the_message_of_a_call_that_begins_at_once_offers_no_undo_any_more(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.desk.hold("tool", "delete_folder", by="ops")
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()
    toast = page.locator(".toast", has_text="Approved: delete_folder")
    await expect(toast.get_by_role("button", name="Undo")).to_be_visible()
    await toast.hover()  # a message stays as long as somebody points at it

    await desk.desk.release_hold("tool", "delete_folder", by="ops")

    await expect(toast.get_by_role("button", name="Undo")).to_have_count(0)
    await expect(toast).to_be_visible()
    assert (await request_of(desk, "delete_folder", "approved")).decided_by == "ana"


async def test_what_somebody_else_takes_back_leads_from_its_card_to_the_new_question(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.desk.hold("tool", "delete_folder", by="ops")
    await desk.waiting_run("Archivist")
    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "approve", by="ana")
    page = await arrive("ana")
    await sit_down(page, f"/inbox?open={waiting.id.replace('#', '%23')}")

    await desk.desk.revoke(waiting.id, by="ben", reason="wrong folder")

    await expect(page.locator("#card-status")).to_contain_text("Taken back by ben")
    await page.locator("#card-status").get_by_role("link", name="It is asked about anew").click()
    await expect(page.locator(".card")).to_contain_text("its approval was taken back by ben: wrong folder")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_undo_and_what_stands_already_pass_the_rules_of_accessibility_also_on_a_phone(
    scheme: str, desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.desk.hold("tool", "delete_folder", by="ops")
    await desk.waiting_run("Archivist")
    await desk.waiting_run()
    await desk.desk.grant("Support", "refund", "reject", by="ben", arguments={"order_id": "1042"})
    page = await arrive("ana", color_scheme=scheme, **PHONE)
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator(".toast").get_by_role("button", name="Undo")).to_be_visible()
    found = {"toast": await complaints(page, scheme)}
    await picture(page, f"undo-phone-{scheme}")
    await page.locator(".toast").get_by_role("link", name="Show").click()
    await expect(page.locator("#card-status").get_by_role("button", name="Undo")).to_be_visible()
    found["card"] = await complaints(page, scheme)
    await picture(page, f"undo-card-phone-{scheme}")
    await page.goto("/inbox")
    await open_request(page, "refund")
    await page.get_by_role("button", name="More…").click()
    await expect(page.locator("#panel")).to_contain_text("Stands already: always reject, by ben")
    found["panel"] = await complaints(page, scheme)
    await picture(page, f"stands-phone-{scheme}")

    assert {name: each for name, each in found.items() if each} == {}
    assert await is_not_wider_than_the_screen(page)

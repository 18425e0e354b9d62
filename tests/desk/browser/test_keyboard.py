"""The inbox without a mouse, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.desk.browser.scenes import Reviewer, armed, picture, send, settled, sit_down, statuses
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_everything_is_decided_with_keys_alone(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)

    await expect(page.locator("#card-title")).to_have_text("refund")
    await press(page, "j")
    await expect(page.locator(".arguments")).to_contain_text("24800")
    await press(page, "k")
    await expect(page.locator(".arguments")).to_contain_text("4900")
    await expect(page.locator("#card-title")).to_be_focused()
    await press(page, "a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    assert await statuses(desk, "refund") == ["pending", "pending"]
    await armed(page)
    await press(page, "Enter")
    await expect(page.locator(".toast")).to_have_count(1)
    await expect(page.locator(".arguments")).to_contain_text("24800")

    await press(page, "r")
    await expect(page.get_by_label("Message to the agent")).to_be_focused()
    await page.keyboard.type("a jar of j and k")
    await send(page)
    await expect(page.locator("#card-title")).to_have_text("delete_folder")

    await press(page, "e")
    await expect(page.get_by_role("textbox", name="path")).to_be_focused()
    await press(page, "Control+A")
    await page.keyboard.type("/exports/2022")
    await send(page)

    await expect(page.locator(".welcome")).to_contain_text("All done")
    assert (await statuses(desk, "refund"), await statuses(desk, "delete_folder")) == (
        ["approved", "rejected"],
        ["edited"],
    )


async def test_no_single_key_decides_anything(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await expect(page.locator("#card-title")).to_have_text("refund")

    await press(page, *"abcdefhijklmnopqrstuvwyzAR0123456789", "Escape", "Escape", "Space", "Backspace", "Delete")

    assert await statuses(desk, "refund") == ["pending", "pending"]


async def test_keys_select_go_to_filters_show_help_and_change_pages(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)

    await press(page, "?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await picture(page, "keys")
    await press(page, "Escape")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    await press(page, "j")
    await expect(page.locator("#card-title")).to_have_text("refund")
    await press(page, "X")
    await expect(page.locator(".bulk")).to_contain_text("2 selected")
    await press(page, "x")
    await expect(page.locator(".bulk")).to_contain_text("1 selected")
    await press(page, "t")
    await expect(page.locator("#card-title")).to_have_text("1 request")
    await press(page, "/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.locator("#card-title").focus()
    await press(page, "g", "r")

    await expect(page).to_have_url(f"{desk.url}/runs")


async def test_single_keys_can_be_switched_off(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)

    await press(page, "?")
    await page.get_by_label("Single-key shortcuts are on").uncheck()
    await press(page, "Escape", "j")

    await expect(page.locator(".arguments")).to_contain_text("4900")


async def test_escape_keeps_what_was_typed_and_closes_at_the_second_time(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await press(page, "j")
    await settled(page)
    await expect(page.locator("#card-title")).to_have_text("refund")
    await press(page, "r")
    message = page.get_by_label("Message to the agent")
    await expect(message).to_be_focused()
    await page.keyboard.type("wait")

    await press(page, "Escape")
    await expect(message).to_have_value("wait")
    await press(page, "Escape")

    await expect(message).to_have_count(0)
    await expect(page.locator("#card-title")).to_be_focused()

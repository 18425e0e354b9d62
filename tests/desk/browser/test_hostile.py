"""Arguments that try to do harm, or to be something else than they are. In a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import HUGE, Reviewer, open_request, panel, picture, request_of, sit_down
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_markup_scripts_and_links_in_arguments_are_text_everywhere(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run("Hostile")
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "send_mail")
    await expect(page.locator(".arguments")).to_contain_text("<img src=x onerror=")
    await page.get_by_text("As JSON").click()
    await picture(page, "hostile")
    await page.get_by_role("button", name="Edit…").click()
    await expect(panel(page).get_by_label("body")).to_contain_text("</script><script>")
    waiting = await request_of(desk, "send_mail")
    await page.goto(f"/inbox/arguments?open={waiting.id.replace('#', '%23')}")
    await expect(page.locator("pre")).to_contain_text("javascript:document.title")
    await page.goto(f"/runs/{run.id}")
    await expect(page.locator(".log")).to_contain_text("onerror=")

    assert "owned" not in await page.title()
    assert await page.locator("img, iframe, [href^='javascript']").count() == 0


async def test_characters_that_turn_or_hide_text_are_made_visible(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Hostile")
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "send_mail")
    await expect(page.locator(".arguments .mark")).to_have_text("U+202E")
    await expect(page.locator(".arguments .mark")).to_have_attribute("title", "U+202E right-to-left override")
    await page.get_by_role("button", name="Edit…").click()

    await expect(panel(page).get_by_label("subject")).to_have_value('"\\u202etxt.exe"')
    assert "\u202e" not in await page.locator("body").inner_text()


async def test_a_million_characters_are_cut_with_their_size_and_one_click_away(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run("Writer")
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "publish")
    await expect(page.locator(".arguments .cut")).to_contain_text("show all 990 thousand characters")
    assert len(await page.locator("body").inner_text()) < 60_000
    await picture(page, "huge")
    await page.locator(".arguments .cut a").click()
    await expect(page.locator(".arguments .cut")).to_have_count(0)
    assert len(await page.locator(".arguments").inner_text()) > HUGE
    await page.get_by_text("As JSON").click()
    await page.locator("details.json .cut a").click()
    await expect(page.locator("h1")).to_have_text("publish: all arguments")

    assert len(await page.locator("pre").inner_text()) > HUGE
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_text_from_right_to_left_stands_in_its_own_direction_and_turns_nothing_else(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run("Writer")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "publish")

    title = page.locator(".arguments tbody tr").first.locator("td bdi").first
    await expect(title).to_have_attribute("dir", "auto")
    assert await title.evaluate("each => getComputedStyle(each).direction") == "rtl"
    assert await page.locator("#card-title").evaluate("each => getComputedStyle(each).direction") == "ltr"

"""A page that refreshes itself never loses what a person typed, opened, selected or focused, whatever others do."""

from __future__ import annotations

import pytest
from playwright.async_api import Dialog, Page, expect

from tests.desk.browser.scenes import Reviewer, open_request, panel, picture, sit_down
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def news(desk: RunningDesk, page: Page, rows: int) -> None:
    """Others start runs and decide; wait until the list has heard of it."""
    await desk.waiting_run("Archivist")
    await desk.waiting_run("Hostile")
    await expect(page.locator(".row")).to_have_count(rows)


async def focus_of(page: Page) -> str:
    return str(await page.evaluate("() => document.activeElement.name || document.activeElement.id"))


async def test_selected_rows_stay_selected_and_the_focus_stays_while_others_come_and_go(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page, "/inbox?view=each")
    boxes = page.locator(".row", has_text="refund").get_by_role("checkbox")
    for place in (0, 1, 3):
        await boxes.nth(place).check()
    await boxes.nth(3).focus()
    focused = await page.evaluate("() => document.activeElement.id")
    first = (await desk.desk.pending())[0]

    await desk.desk.decide(first.id, "reject", by="ben")
    await news(desk, page, 5)

    await expect(boxes.nth(0)).to_be_checked()
    await expect(boxes.nth(1)).not_to_be_checked()
    await expect(boxes.nth(2)).to_be_checked()
    await expect(page.locator("[data-picked-count]")).to_have_text("2 selected")
    await expect(page.locator("[data-pick-none]")).to_be_visible()
    assert await page.evaluate("() => document.activeElement.id") == focused
    await page.get_by_role("button", name="Review together").click()
    await expect(page.locator("#card-title")).to_have_text("2 requests")


async def test_what_is_typed_and_opened_on_a_card_stays_while_its_own_run_goes_on(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")
    await page.locator("details.json > summary").click()
    await page.locator("details.small > summary").click()
    await page.get_by_role("button", name="More…").click()
    await panel(page).get_by_text("In this run, every further call").click()
    await panel(page).get_by_text("Narrow a standing decision").click()
    await panel(page).get_by_label("At most so many times").fill("3")
    await panel(page).get_by_label("only when cents is exactly 4900").check()
    await panel(page).get_by_label("It ends").select_option("in a day")
    await panel(page).get_by_label("Note for the record").press_sequentially("half a sen")
    sibling = (await desk.desk.pending(run_id=run.id))[1]

    await desk.desk.decide(sibling.id, "reject", by="ben")
    await news(desk, page, 3)

    assert await focus_of(page) == "reason"
    await page.keyboard.type("tence")
    await expect(panel(page).get_by_label("Note for the record")).to_have_value("half a sentence")
    await expect(panel(page).get_by_label("At most so many times")).to_have_value("3")
    await expect(panel(page).get_by_label("only when cents is exactly 4900")).to_be_checked()
    await expect(panel(page).get_by_label("It ends")).to_have_value("24")
    for place in ("details.json", "details.small", "details.bounds"):
        await expect(page.locator(place)).to_have_attribute("open", "")


async def test_a_filter_that_is_being_typed_stays_while_news_come(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page, f"/inbox?run={run.id}")
    box = page.get_by_role("textbox", name="Run")
    await box.fill("")
    await box.press_sequentially("run_half")
    (_, second) = await desk.desk.pending(run_id=run.id)

    await desk.desk.decide(second.id, "reject", by="ben")
    await expect(page.locator(".row")).to_have_count(1)

    await expect(box).to_be_focused()
    await expect(box).to_have_value("run_half")


async def test_the_page_of_a_run_keeps_what_is_open_pointed_at_and_scrolled_to_while_the_run_goes_on(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run("Manager")
    page = await arrive("ana")
    await page.set_viewport_size({"width": 700, "height": 500})
    await sit_down(page, f"/runs/{run.id}")
    await page.get_by_text("End this run…").click()
    await page.get_by_label("Why").press_sequentially("not nee")
    bar = page.locator(".timeline a[aria-label^=ask_clerk]")
    await bar.focus()
    await expect(page.locator("#timeline-detail")).to_contain_text("ask_clerk: running for")
    top = await page.evaluate("() => { scrollTo(0, 120); return scrollY; }")
    (waiting,) = await desk.desk.pending(run_id=run.id)

    await desk.desk.decide(waiting.id, "edit", by="ben", arguments={**waiting.arguments, "cents": 1})  # type: ignore[dict-item]
    await expect(page.locator(".final")).to_have_text("Invoice 7 is paid.")

    await expect(bar).to_be_focused()
    await expect(page.locator("#timeline-detail")).to_contain_text("ask_clerk: finished after")
    assert await page.evaluate("() => scrollY") == top
    await picture(page, "run-kept")


async def test_a_menu_to_end_a_run_keeps_its_words_and_the_caret_while_the_run_goes_on(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page, f"/runs/{run.id}")
    await page.get_by_text("End this run…").click()
    await page.get_by_label("Why").press_sequentially("not nee")
    first = (await desk.desk.pending(run_id=run.id))[0]

    await desk.desk.decide(first.id, "reject", by="ben")
    await expect(page.locator(".banner.is-wait")).to_have_count(1)

    await expect(page.get_by_label("Why")).to_be_focused()
    await page.keyboard.type("ded")
    await expect(page.get_by_label("Why")).to_have_value("not needed")


async def test_the_page_of_people_keeps_what_is_being_written_while_others_work(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    page = await arrive("root", "admin")
    await desk.web.accounts.add_user("eva", "reviewer")
    await sit_down(page, "/people")
    await page.get_by_role("row", name="eva").get_by_text("Change").click()
    await page.get_by_role("row", name="eva").get_by_label("May decide").fill("Support refund")
    await page.locator("#main .start").get_by_label("Name").fill("half a na")

    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    await desk.web.accounts.add_user("ben", "viewer")
    other = await arrive("ben")
    await sit_down(other)
    await expect(other.locator(".row")).to_have_count(3)

    await expect(page.get_by_role("row", name="eva").get_by_label("May decide")).to_have_value("Support refund")
    await expect(page.locator("#main .start").get_by_label("Name")).to_have_value("half a na")


async def test_whoever_leaves_a_form_with_a_changed_choice_is_asked_first(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Archivist")
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Edit…").click()
    asked: list[str] = []

    async def stay(dialog: Dialog) -> None:
        asked.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", stay)
    await panel(page).get_by_label("mode").select_option("erase")
    await page.locator(".row-link", has_text="refund").first.click()

    await expect(page.locator("#card-title")).to_have_text("delete_folder")
    await expect(panel(page).get_by_label("mode")).to_have_value("1")
    assert asked == ["Discard what you have typed?"]

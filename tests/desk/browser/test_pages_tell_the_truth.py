"""What pages say is so, and can be read: messages, filters, times, words, narrow screens. In a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.desk.browser.scenes import Reviewer, armed, open_request, panel, picture, request_of, sit_down, statuses
from tests.desk.browser.test_looks import is_not_wider_than_the_screen
from tests.support.desk_server import PATIENCE, RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")

NARROW: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
BROKEN_WORDS = """
() => [...document.querySelectorAll('.table td, .table .badge, .table th')].flatMap((cell) => {
  const found = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const word of node.data.matchAll(/[A-Za-z]{2,20}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
})
"""
NARROW_FIELDS = """
() => [...document.querySelectorAll('input:not([type=checkbox], [type=radio], [type=hidden]), textarea, select')]
  .filter((each) => each.offsetParent !== null && each.getBoundingClientRect().width < 90)
  .map((each) => `${each.name}: ${each.getBoundingClientRect().width}`)
"""
COVERED = """
() => {
  const toast = document.querySelector('.toast').getBoundingClientRect();
  return [...document.querySelectorAll('.card, .rows, .act')].some((each) => {
    const { left, right, top, bottom } = each.getBoundingClientRect();
    const inSight = { top: Math.max(top, each.closest('.pane').getBoundingClientRect().top), bottom };
    return left < toast.right && toast.left < right && inSight.top < toast.bottom && toast.top < inSight.bottom;
  });
}
"""


@pytest.mark.promise("P22")
async def test_after_a_lost_answer_the_page_claims_nothing_and_finds_out(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    desk_watch = arrive._watch

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/inbox/decide", lose)
    await sit_down(page)
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".toast.is-bad")).to_contain_text("Your decision may have arrived")
    await expect(page.locator("#card-status")).to_contain_text("Approved by ana")
    await expect(page.locator("body")).not_to_contain_text("Nothing was sent")
    assert await statuses(desk, "delete_folder") == ["approved"]
    desk_watch.troubles = [each for each in desk_watch.troubles if "htmx:error" not in each]


@pytest.mark.promise("P22")
async def test_all_done_is_said_only_if_no_filter_hides_what_waits_and_only_while_it_is_so(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page, "/inbox?tool=delete_folder")
    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".welcome")).to_contain_text("Nothing left in this list")
    await expect(page.get_by_role("heading", name="All done")).to_be_hidden()
    await expect(page.locator(".empty")).to_contain_text("2 other requests wait.")
    await picture(page, "hidden-by-a-filter")
    for waiting in await desk.desk.pending():
        await desk.desk.decide(waiting.id, "reject", by="ben")
    await expect(page.get_by_role("heading", name="All done")).to_be_visible()
    await desk.waiting_run("Archivist")
    await expect(page.locator("#card-title")).to_have_text("delete_folder")
    await expect(page.get_by_role("heading", name="All done")).to_be_hidden()


@pytest.mark.parametrize("options", [{"viewport": {"width": 1440, "height": 900}}, NARROW], ids=["desktop", "phone"])
async def test_messages_do_not_pile_up_and_cover_nothing(
    desk: RunningDesk, arrive: Reviewer, options: dict[str, Any]
) -> None:
    for _ in range(3):
        await desk.waiting_run()
    page = await arrive("ana", **options)
    await sit_down(page, "/inbox?view=each")
    await open_request(page, "refund")
    for _ in range(4):
        before = await page.locator(".card").get_attribute("data-request")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator(".card")).not_to_have_attribute("data-request", before or "")
    await expect(page.locator(".toast")).to_have_count(1)
    await picture(page, f"message-{options['viewport']['width']}")

    assert not await page.evaluate(COVERED)
    assert await is_not_wider_than_the_screen(page)


async def test_times_are_the_readers_own_and_name_their_zone_on_every_page(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run("Archivist")
    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "approve", by="ben")
    await desk.desk.wait(run.id, timeout=PATIENCE)
    page = await arrive("ana", timezone_id="Asia/Kolkata")
    await sit_down(page, f"/runs/{run.id}")

    zone = "GMT+5:30"
    await expect(page.locator("[data-zone]")).to_have_text(zone)
    await expect(page.locator(".timeline .tick").first).to_contain_text(zone)
    await expect(page.locator(".timeline .sign")).to_have_attribute("aria-label", re.compile(re.escape(zone)))
    first = page.locator(".log time").first
    shown, hint = await first.inner_text(), await first.get_attribute("title") or ""
    assert shown in hint
    assert zone in hint
    await page.goto("/audit")
    await expect(page.locator(".table tbody time").first).to_contain_text(zone)
    await page.goto(f"/inbox?status=all&open={waiting.id.replace('#', '%23')}")
    await expect(page.locator(".facts time")).to_have_attribute("title", re.compile(re.escape(zone)))


async def decided_in_many_ways(desk: RunningDesk) -> str:
    run = await desk.waiting_run()
    first, second = await desk.desk.pending(run_id=run.id)
    note = "a note of some length, as people write it when they have looked at something for a while"
    edited = {"order_id": "1042", "cents": 1, "reason": "half"}
    await desk.desk.decide(first.id, "edit", by="ben", arguments=edited, reason=note)
    await desk.desk.decide(second.id, "approve", by="bartholomew-the-second", reason=note)
    await desk.desk.wait(run.id, timeout=PATIENCE)
    await desk.waiting_run("Archivist")
    return run.id


@pytest.mark.parametrize("width", [1440, 1000, 830, 360])
async def test_no_word_of_the_audit_is_broken(desk: RunningDesk, arrive: Reviewer, width: int) -> None:
    await decided_in_many_ways(desk)
    page = await arrive("ana", viewport={"width": width, "height": 900})
    await sit_down(page, "/audit")
    await picture(page, f"audit-{width}", full_page=True)

    assert await page.evaluate(BROKEN_WORDS) == []


async def test_at_360_pixels_nothing_is_wider_than_the_screen_and_every_field_can_be_used(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run_id = await decided_in_many_ways(desk)
    await desk.web.accounts.add_user("eva", "reviewer")
    page = await arrive("ana", "admin", **NARROW)
    found: dict[str, Any] = {}

    async def look(name: str) -> None:
        assert await page.locator(".top").evaluate("each => each.getBoundingClientRect().height") < 60
        found[name] = (await is_not_wider_than_the_screen(page), await page.evaluate(NARROW_FIELDS))
        await picture(page, f"narrow-{name.replace('/', '-').strip('-')}")

    for path in ("/inbox", "/runs", f"/runs/{run_id}", "/audit", "/people", "/account"):
        await page.goto(path)
        for summary in await page.locator("main details > summary").all():
            if await summary.is_visible():
                await summary.click()
        await look(path.replace(run_id, "one"))
    await sit_down(page)
    await open_request(page, "delete_folder")
    await look("card")
    titles = {"Reject…": "Reject", "Edit…": "Change the arguments", "More…": "Approve, with a note or for longer"}
    for verb, title in titles.items():
        await page.get_by_role("button", name=verb).tap()
        await expect(panel(page).locator("h3")).to_have_text(title)
        await armed(page)
        await look(verb)

    assert {name: each for name, each in found.items() if each != (True, [])} == {}


async def test_characters_that_deceive_are_marked_on_the_card(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run("Archivist")
    waiting = await request_of(desk, "delete_folder")
    await desk.desk.decide(waiting.id, "reject", by="ben", reason="p\u0430ypal\u2800 says\nno")
    await desk.desk.wait(run.id, timeout=PATIENCE)
    page = await arrive("ana")
    await page.goto("/audit")

    await expect(page.locator(".table .mark")).to_have_text(["\u0430 U+0430", "U+2800"])
    await expect(page.locator(".table .break")).to_have_text("↵")

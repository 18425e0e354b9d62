"""One gesture decides at most one thing that was in sight: real clicks, taps and keys, at many paces."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Page, Route, expect

from tests.desk.browser.scenes import PATIENCE, PHONE, Reviewer, open_request, picture, settled, sit_down, statuses
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")

GAPS = (30, 60, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600)
"""Milliseconds between two presses."""
PACE = 800
TRIES = 20
NOTE_PRESSES = """
window.presses = [];
const note = (event) => window.presses.push(event.timeStamp);
for (const kind of ['pointerdown', 'keydown']) addEventListener(kind, note, true);
"""


async def press_twice(page: Page, press: Any, gap: int) -> bool:
    """Whether the two presses were no further apart than asked for: a busy machine may be slower."""
    await page.evaluate("() => { window.presses = []; }")
    await press()
    await page.wait_for_timeout(gap)
    await press()
    first, *_, last = await page.evaluate("() => window.presses")
    return bool(last - first < PACE - 50)


async def middle(page: Page, name: str) -> tuple[float, float]:
    """Where a button is, once it takes a decision."""
    button = page.get_by_role("button", name=name, exact=True).first
    box = None
    while box is None:  # the card may be drawn anew in between; the test's own time is the limit
        await expect(button).to_be_enabled()
        box = await button.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def decided(desk: RunningDesk) -> int:
    return sum(status != "pending" for status in await statuses(desk, "refund"))


async def at_every_gap(desk: RunningDesk, page: Page, begin: Any, press: Any) -> dict[int, int]:
    """How many requests two presses decided, by the milliseconds between them."""
    found: dict[int, int] = {}
    for gap in GAPS:
        for _ in range(TRIES):
            while len(await desk.desk.pending()) < 3:
                await desk.waiting_run()
            before = await decided(desk)
            await begin()
            in_time = await press_twice(page, press, gap)
            await settled(page)
            if in_time:
                found[gap] = await decided(desk) - before
                break
    return found


@pytest.mark.promise("P22")
@pytest.mark.parametrize("order", ["first", "last"])
async def test_two_clicks_decide_one_request_whatever_the_gap(desk: RunningDesk, arrive: Reviewer, order: str) -> None:
    page = await arrive("ana")
    await page.add_init_script(NOTE_PRESSES)
    await desk.waiting_run()
    await sit_down(page, "/inbox?view=each")
    place = (0.0, 0.0)

    async def begin() -> None:
        nonlocal place
        rows = page.locator(".row-link", has_text="refund")
        await (rows.first if order == "first" else rows.last).click()
        await settled(page)
        place = await middle(page, "Approve")

    found = await at_every_gap(desk, page, begin, lambda: page.mouse.click(*place))

    assert found == dict.fromkeys(GAPS, 1)


@pytest.mark.promise("P22")
async def test_enter_twice_decides_one_request_whatever_the_gap(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana")
    await page.add_init_script(NOTE_PRESSES)
    await desk.waiting_run()
    await sit_down(page, "/inbox?view=each")
    await open_request(page, "refund")

    async def begin() -> None:
        await middle(page, "Approve")

    async def press() -> None:
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")

    found = await at_every_gap(desk, page, begin, press)

    assert found == dict.fromkeys(GAPS, 1)


@pytest.mark.promise("P22")
async def test_a_held_enter_and_hasty_clicks_decide_one_request(desk: RunningDesk, arrive: Reviewer) -> None:
    for _ in range(3):
        await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page, "/inbox?view=each")
    await open_request(page, "refund")
    x, y = await middle(page, "Approve")

    for _ in range(12):
        await page.mouse.click(x, y)
        await page.wait_for_timeout(120)
    await settled(page)
    clicked = await decided(desk)
    await middle(page, "Approve")
    await page.keyboard.press("a")
    for _ in range(30):
        await page.keyboard.down("Enter")  # repeated, as by a key that is held
        await page.wait_for_timeout(30)
        await page.keyboard.press("a")
    await page.keyboard.up("Enter")
    await settled(page)

    assert (clicked, await decided(desk)) == (1, 2)


@pytest.mark.promise("P22")
async def test_on_a_phone_a_double_tap_on_reject_does_not_approve_what_comes_next(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    page = await arrive("ana", **PHONE)
    await sit_down(page)
    await page.locator(".row-link", has_text="refund").first.tap()
    await page.get_by_role("button", name="Reject…").tap()
    x, y = await middle(page, "Reject")

    for _ in range(4):
        await page.touchscreen.tap(x, y)
        await page.wait_for_timeout(120)
    await settled(page)

    assert sorted(await statuses(desk, "refund")) == ["pending", "rejected"]


@pytest.mark.promise("P22")
async def test_a_button_that_waits_shows_it_and_takes_a_decision_afterwards(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await page.locator(".row-link", has_text="refund").first.click()
    button = page.get_by_role("button", name="Approve")

    await expect(page.locator(".card [data-waits]")).to_be_visible()
    await expect(button).to_have_attribute("aria-disabled", "true")
    await picture(page, "waits")
    await page.keyboard.press("a")
    await expect(button).to_be_focused()
    await expect(button).not_to_have_attribute("data-waits", "")
    await page.keyboard.press("Enter")

    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    assert await decided(desk) == 1


@pytest.mark.promise("P22")
async def test_without_a_script_a_double_click_decides_one_request_too(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana", java_script_enabled=False)
    await page.goto("/inbox")
    await page.locator(".row-link", has_text="refund").first.click()
    await page.get_by_role("button", name="Approve").hover()
    box = await page.get_by_role("button", name="Approve").bounding_box()
    assert box is not None
    await page.wait_for_timeout(PACE)

    for _ in range(5):
        await page.mouse.click(box["x"] + 20, box["y"] + 20)
        await page.wait_for_timeout(150)
    await expect(page.locator("#toasts")).to_contain_text("Approved: refund")

    assert await decided(desk) == 1


@pytest.mark.promise("P22")
async def test_an_answer_about_another_request_does_not_land_in_the_card_that_is_open(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    first, second = await desk.desk.pending()
    page = await arrive("ana")
    answered = asyncio.Event()

    async def about_the_first(route: Route) -> None:
        address = route.request.url.replace(quote(second.id, safe=""), quote(first.id, safe=""))
        await route.fulfill(response=await route.fetch(url=address))
        answered.set()

    await page.route("**/inbox/status*", about_the_first)
    await sit_down(page)
    await open_request(page, "refund", 1)
    await desk.desk.decide(first.id, "approve", by="ben")
    async with asyncio.timeout(PATIENCE / 1000):
        await answered.wait()
    await expect(page.locator(".row")).to_have_count(1)
    await settled(page)

    await expect(page.locator(".arguments")).to_contain_text("24800")
    await expect(page.locator("#card-status")).to_have_text("")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    assert (await desk.desk.request(second.id)).decided_by == "ana"


@pytest.mark.promise("P22")
async def test_a_slow_answer_to_a_decision_does_not_replace_the_card_that_was_opened_since(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    late = asyncio.Event()

    async def slowly(route: Route) -> None:
        answer = await route.fetch()
        await late.wait()
        await route.fulfill(response=answer)

    await page.route("**/inbox/decide", slowly)
    await sit_down(page)
    await open_request(page, "refund")
    await page.get_by_role("button", name="Approve").click()
    await open_request(page, "delete_folder")
    late.set()

    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    await expect(page.locator(".row")).to_have_count(2)
    await expect(page.locator("#card-title")).to_have_text("delete_folder")
    assert "open=" in page.url
    assert await statuses(desk, "delete_folder") == ["pending"]


@pytest.mark.promise("P22")
@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 560}, {"width": 360, "height": 640}])
@pytest.mark.parametrize("key", ["a", "r", "m"])
async def test_a_key_leaves_the_arguments_in_sight(
    desk: RunningDesk, arrive: Reviewer, viewport: dict[str, int], key: str
) -> None:
    await desk.waiting_run()
    page = await arrive("ana", viewport=viewport)
    await sit_down(page)
    await open_request(page, "refund")
    amount = page.locator(".arguments td", has_text="4900")
    await amount.scroll_into_view_if_needed()
    before = await page.evaluate("() => document.querySelector('.card-pane').scrollTop + scrollY")

    await page.keyboard.press(key)
    focused = {"a": "BUTTON", "r": "TEXTAREA", "m": "INPUT"}[key]
    await page.wait_for_function("tag => document.activeElement.tagName === tag", arg=focused)
    if key != "a":
        await page.keyboard.type("wait")

    assert await page.evaluate("() => document.querySelector('.card-pane').scrollTop + scrollY") == before
    if key == "a":
        await expect(amount).to_be_in_viewport(ratio=1)

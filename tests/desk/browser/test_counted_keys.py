"""How many keys a day of reviewing takes, counted; and how much waits, in the tab. In a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from placet.facts.codec import JsonObject
from tests.desk.browser.scenes import Reviewer, armed, sit_down
from tests.support.decided import remembered, waiting
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")

USUAL: list[JsonObject] = [{"order": f"{1000 + n}", "cents": 3900 + n * 50} for n in range(24)]


NOTIFICATIONS = """
window.told = [];
window.Notification = class {
  static permission = 'granted';
  static requestPermission() { return Promise.resolve('granted'); }
  constructor(title, given) { told.push(given.body); }
  close() {}
};
"""
"""What the browser would show outside of the page, kept."""


class Keyboard:
    """Counts what is pressed. Text that is written is not counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    async def press(self, key: str) -> None:
        await armed(self.page)
        await self.page.keyboard.press(key)
        self.count += 1


async def test_twenty_usual_cards_take_twenty_one_keys(desk: RunningDesk, arrive: Reviewer) -> None:
    await remembered(desk.desk.store, "Cashier", "refund", USUAL)
    run = await waiting(desk.desk.store, "Cashier", "refund", USUAL[:20])
    page = await arrive("ana")
    await sit_down(page)
    keys = Keyboard(page)

    await keys.press("v")
    await expect(page.locator(".row")).to_have_count(20)
    for left in range(20, 0, -1):
        await expect(page.locator(".row")).to_have_count(left)
        await expect(page.locator(".card[data-request] .yes")).to_be_visible()
        await keys.press("a")
    await expect(page.locator(".row")).to_have_count(0)

    rows = (await desk.desk.requests(status=None, run_id=run.id)).rows
    assert [row.status for row in rows] == ["approved"] * 20
    assert keys.count <= 25


async def test_to_reject_with_a_message_takes_two_keys_and_the_text(desk: RunningDesk, arrive: Reviewer) -> None:
    await waiting(desk.desk.store, "Cashier", "mail", [{"to": "ana"}])
    page = await arrive("ana")
    await sit_down(page)
    await expect(page.locator(".card[data-request]")).to_be_visible()
    keys = Keyboard(page)

    await keys.press("r")
    await expect(page.get_by_label("Message to the agent")).to_be_focused()
    await page.keyboard.type("not without a ticket")
    await keys.press("Control+Enter")
    await expect(page.locator(".toast")).to_contain_text("Rejected: mail")

    assert keys.count <= 3


async def test_a_standing_decision_from_a_deck_takes_two_keys(desk: RunningDesk, arrive: Reviewer) -> None:
    await remembered(desk.desk.store, "Cashier", "refund", USUAL)
    await waiting(desk.desk.store, "Cashier", "refund", USUAL[:5])
    page = await arrive("ana")
    await sit_down(page)
    await expect(page.locator(".card[data-deck]")).to_be_visible()
    keys = Keyboard(page)

    await keys.press("o")
    await keys.press("Enter")
    await expect(page.locator("#card")).to_contain_text("are approved without asking")

    (grant,) = await desk.desk.store.grants()
    assert (grant.by, grant.scope) == ("ana", "agent")
    assert keys.count <= 3


async def test_the_tab_says_how_much_waits_also_while_nobody_looks(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana", permissions=["notifications"])
    await page.add_init_script(NOTIFICATIONS)
    await sit_down(page)
    await expect(page).to_have_title("Inbox · Placet")
    await waiting(desk.desk.store, "Cashier", "mail", [{"to": "ana"}])
    await expect(page).to_have_title("(1) mail · Inbox · Placet")
    await expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("icon-waiting"))
    await page.keyboard.press("?")
    await page.get_by_label("Notifications of this browser").check()
    await page.keyboard.press("Escape")

    await page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    await waiting(desk.desk.store, "Cashier", "wire", [{"cents": 1}, {"cents": 2}])

    await expect(page).to_have_title("(3) mail · Inbox · Placet")
    assert await page.evaluate("told") == ["2 requests wait for a decision."]

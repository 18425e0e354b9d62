"""What is unusual is acknowledged before a yes counts, with mouse and keys; what cannot be undone has no quick yes."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from placet.facts.codec import JsonObject
from tests.desk.browser.scenes import PHONE, Reviewer, armed, docs_picture, open_request, sit_down
from tests.desk.browser.test_looks import complaints, is_not_wider_than_the_screen
from tests.support.decided import remembered
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS: list[JsonObject] = [{"order_id": f"{1000 + n}", "cents": 4000 + n * 50, "reason": "broken"} for n in range(24)]


@pytest.mark.promise("P22")
async def test_an_unusual_call_is_approved_only_with_each_odd_value_ticked(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    _, unusual = await desk.desk.pending()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund", 1)
    await expect(page.locator(".odd")).to_contain_text("5.42 times the median")
    await docs_picture(page, "inbox-unusual")

    await armed(page)
    await page.get_by_role("button", name="Approve").click()
    assert (await desk.desk.request(unusual.id)).status == "pending"
    for name in ("cents", "reason"):
        await page.keyboard.press("a")
        await expect(page.locator(f'.odd input[value="{name}"]')).to_be_focused()
        await page.keyboard.press("Space")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".toast")).to_contain_text("Approved: refund")

    assert (await desk.desk.request(unusual.id)).status == "approved"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_cards_of_all_cares_pass_axe_and_fit_a_phone(desk: RunningDesk, arrive: Reviewer, scheme: str) -> None:
    await desk.waiting_run()
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    usual, unusual = await desk.desk.pending()
    page = await arrive("ana", color_scheme=scheme, **PHONE)
    found: list[str] = []
    for each in (usual, unusual):
        await sit_down(page, f"/inbox?open={each.id}")
        await expect(page.locator(".differs")).to_be_visible()
        found += await complaints(page, scheme)
        assert await is_not_wider_than_the_screen(page)

    assert found == []

"""How the pages look and sound: phone width, dark mode, and the rules of accessibility by axe. In a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.desk.browser.scenes import (
    PHONE,
    Reviewer,
    docs_picture,
    open_request,
    picture,
    request_of,
    sit_down,
    statuses,
)
from tests.support.desk_server import RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")

RULES: dict[str, object] = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "dark": {"type": "rule", "values": ["color-contrast"]},  # everything else is the same
}


async def complaints(page: Page, scheme: str) -> list[str]:
    """What axe finds, in words."""
    options = {"runOnly": RULES[scheme], "resultTypes": ["violations"]}
    results: Any = await Axe().run(page, options=options)
    return [
        f"{each['id']}: {each['help']} ({', '.join(str(node['target']) for node in each['nodes'][:3])})"
        for each in results.response["violations"]
    ]


async def is_not_wider_than_the_screen(page: Page) -> bool:
    return bool(await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_passes_the_rules_of_accessibility(desk: RunningDesk, arrive: Reviewer, scheme: str) -> None:
    run = await desk.waiting_run("Manager")
    await desk.waiting_run("Archivist")
    await desk.waiting_run()
    wire = await request_of(desk, "wire")
    await desk.desk.decide(wire.id, "approve", by="ben", reason="invoice checked")
    await desk.desk.wait(run.id, timeout=120)
    page = await arrive("ana", "admin", color_scheme=scheme)
    found: dict[str, list[str]] = {}
    await sit_down(page)
    found["inbox"] = await complaints(page, scheme)
    await open_request(page, "delete_folder")
    found["card"] = await complaints(page, scheme)
    await picture(page, f"inbox-{scheme}")
    for word in ("Reject…", "Edit…", "Answer…", "More…"):
        await page.get_by_role("button", name=word).click()
        await expect(page.locator(".panel h3")).to_be_visible()
        found[word] = await complaints(page, scheme)
    await page.locator(".row input[type=checkbox]").first.check()
    page.on("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Review together").click()
    await expect(page.locator("#card-title")).to_have_text("1 request")
    found["together"] = await complaints(page, scheme)
    for path in ("/runs", f"/runs/{run.id}", "/audit", "/numbers", "/people", "/account", "/nowhere"):
        await page.goto(path)
        found[path] = await complaints(page, scheme)
        await picture(page, f"{path.strip('/').partition('/')[0]}-{scheme}{'-one' if run.id in path else ''}")
    stranger = await arrive(None, color_scheme=scheme)
    await stranger.goto("/login")
    found["login"] = await complaints(stranger, scheme)
    await picture(stranger, f"login-{scheme}")

    assert {name: each for name, each in found.items() if each} == {}


async def test_on_a_phone_the_list_and_the_card_are_two_screens_and_deciding_works(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana", "admin", **PHONE)
    await sit_down(page)
    await expect(page.locator(".card-pane")).to_be_hidden()
    widths = [await is_not_wider_than_the_screen(page)]
    await picture(page, "phone-list")

    await page.locator(".row-link", has_text="refund").first.tap()
    await expect(page.locator("#card-title")).to_have_text("refund")
    await expect(page.locator(".list-pane")).to_be_hidden()
    widths.append(await is_not_wider_than_the_screen(page))
    await docs_picture(page, "inbox-phone")
    await page.get_by_role("button", name="Edit…").tap()
    await expect(page.locator(".panel")).to_be_visible()
    widths.append(await is_not_wider_than_the_screen(page))
    await picture(page, "phone-edit")
    await page.get_by_role("link", name="Close").tap()
    await page.get_by_role("button", name="Approve").tap()
    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    await page.get_by_text("All requests").tap()
    await expect(page.locator(".list-pane")).to_be_visible()
    for path in ("/runs", f"/runs/{run.id}", "/audit", "/numbers", "/people", "/account"):
        await page.goto(path)
        widths.append(await is_not_wider_than_the_screen(page))
        await picture(page, f"phone-{path.strip('/').replace('/', '-')[:5]}")

    assert await statuses(desk, "refund") == ["approved", "pending"]
    assert widths == [True] * 9


async def test_list_and_card_scroll_on_their_own_and_the_buttons_are_always_in_sight(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    for _ in range(4):
        await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana", viewport={"width": 1100, "height": 560})
    await sit_down(page)

    await open_request(page, "delete_folder")
    await expect(page.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("button", name="Review together")).to_be_in_viewport(ratio=1)
    assert await page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")


async def test_dark_mode_is_dark(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana", color_scheme="dark")
    await sit_down(page)

    colour = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(20, 21, 23)"


async def test_news_is_announced_and_focus_goes_where_the_reader_is(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "refund")
    await expect(page.locator("#card-title")).to_be_focused()
    await page.get_by_role("button", name="Approve").click()

    await expect(page.get_by_role("status", name="Messages")).to_contain_text("Approved: refund")
    await expect(page.get_by_role("status", name="Messages")).to_have_attribute("aria-live", "polite")
    await expect(page.locator("#card-title")).to_be_focused()

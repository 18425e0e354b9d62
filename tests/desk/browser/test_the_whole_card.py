"""A card with much on it, and one of a call in doubt: nothing is left out, and no reflex decides. In a real browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.desk.browser.scenes import Reviewer, armed, open_request, panel, picture, sit_down, statuses
from tests.desk.browser.test_looks import complaints, is_not_wider_than_the_screen
from tests.desk.pages.test_what_a_card_says import RECORDS, coder, importer, in_doubt, payer
from tests.support.desk_server import RunningDesk, running_desk, support_agents

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    agents = [*support_agents(), importer(), payer(), coder(tmp_path)]
    async with running_desk(tmp_path, agents=agents) as running:
        yield running


@pytest.mark.promise("P22")
async def test_a_list_unfolds_in_place_and_what_is_copied_is_all_of_it(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Importer")
    page = await arrive("ana", permissions=["clipboard-read", "clipboard-write"])
    await sit_down(page)
    await open_request(page, "load")
    await expect(page.locator(".arguments", has_text="truncate_first").first).to_be_in_viewport()
    await picture(page, "folded")

    await page.get_by_text("330 in a list").click()
    await expect(page.get_by_text("record 17", exact=True)).to_be_visible()
    await page.get_by_role("link", name="Show the next ones: 130 of 330 are left").click()
    await expect(page.get_by_text("record 329", exact=True)).to_have_count(1)
    await picture(page, "unfolded")
    troubles = await complaints(page, "light")
    await page.get_by_role("button", name="Copy JSON").click()
    await expect(page.locator(".toast")).to_contain_text("Copied: all arguments")

    copied = await page.evaluate("() => navigator.clipboard.readText()")
    assert json.loads(copied) == {"records": RECORDS, "truncate_first": True}
    assert troubles == []


async def test_of_sixty_thousand_commands_more_are_shown_where_they_stand(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Coder")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "shell")
    await expect(page.locator(".preview .is-command")).to_have_count(150)
    await expect(page.locator(".preview > div").last).to_have_text("timeout_ms: 60000")

    await page.get_by_role("link", name="more lines").click()

    await expect(page.locator(".preview .is-command")).to_have_count(1150)
    await expect(page.get_by_role("link", name="58850 more lines")).to_have_count(1)


@pytest.mark.promise("P22")
@pytest.mark.parametrize("width", [1440, 360])
async def test_a_call_in_doubt_is_not_run_again_by_reflex(desk: RunningDesk, arrive: Reviewer, width: int) -> None:
    await in_doubt(desk)
    page = await arrive("ana", viewport={"width": width, "height": 800})
    await sit_down(page)
    await open_request(page, "pay")
    await expect(page.locator("#doubt")).to_contain_text("Approved by ben")
    await picture(page, f"in-doubt-{width}")
    green = await page.locator(".actions .primary").count()
    troubles = await complaints(page, "light")
    fits = await is_not_wider_than_the_screen(page)

    for key in ("a", "Enter", "a", "Enter", "Control+Enter"):
        await page.keyboard.press(key)
    await page.get_by_role("button", name="Run it again…").click()
    await expect(panel(page)).to_contain_text("If it happened, this does it twice.")
    await armed(page)
    await page.keyboard.press("Control+Enter")
    await picture(page, f"in-doubt-form-{width}")

    assert (green, troubles, fits) == (0, [], True)
    assert await statuses(desk, "pay") == ["approved", "pending"]

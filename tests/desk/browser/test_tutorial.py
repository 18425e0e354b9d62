"""The tutorial, walked through as it stands: its own file, the real command, a real browser; and its pictures.

`PLACET_DOCS_PICTURES=1 python3 dev.py test tests/desk/browser` writes the pictures of the documentation anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.desk.browser.scenes import DOCS_PICTURES, ROOT, Watch, armed, docs_picture
from tests.docs.pages import blocks_of, links_of
from tests.support.desk_server import PASSWORD

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = ROOT / "docs" / "tutorial.md"


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """The desk as the page starts it; gives the link that it prints."""
    (program,) = [block for block in blocks_of(PAGE) if block.info == "python"]
    (folder / "shop.py").write_text(program.text)
    command = [sys.executable, "-m", "placet.cli.main", "serve", "shop:agents", "--port", "0"]
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            while line := (await process.stdout.readline()).decode():
                if found := re.search(r"http://\S+/invitation\?key=\S+", line):
                    yield found[0]
                    return
        raise AssertionError("the desk ended without printing a link")
    finally:
        process.terminate()
        await process.wait()


async def test_the_tutorial_leads_from_its_file_to_the_first_approved_call(browser: Browser, tmp_path: Path) -> None:
    async with served(tmp_path) as link:
        url = link.partition("/invitation")[0]
        context = await browser.new_context(
            base_url=url, viewport={"width": 1120, "height": 700}, locale="en-GB", reduced_motion="reduce"
        )
        page = await context.new_page()
        watch = Watch(url)
        watch.over(page)

        await page.goto(link)
        await page.get_by_label("Name").fill("ana")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_label("The same again").fill(PASSWORD)
        await docs_picture(page, "tutorial-welcome")
        await page.get_by_role("button", name="Make me the admin").click()
        await expect(page.get_by_role("heading", name="This is your inbox")).to_be_visible()
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.get_by_label("What should it do?").fill("Order 1042 never came. I want my money back.")
        await docs_picture(page, "tutorial-start")
        await page.get_by_role("button", name="Start").click()
        await expect(page.locator(".banner.is-wait")).to_contain_text("refund waits for a decision")
        await page.get_by_role("link", name="Inbox", exact=True).click()
        await page.locator(".row-link", has_text="refund").click()
        await expect(page.locator(".arguments")).to_contain_text("4900")
        await docs_picture(page, "tutorial-card")
        await page.keyboard.press("a")
        await armed(page)
        await page.keyboard.press("Enter")
        await expect(page.locator(".toast")).to_contain_text("Approved: refund")
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.locator(".table tbody a").first.click()
        await expect(page.locator(".final")).to_have_text("About the refund: 4900 cents were paid back for order 1042.")
        await docs_picture(page, "tutorial-run")
        await context.close()

    assert watch.troubles == []


async def test_the_page_shows_the_pictures_that_the_walk_makes() -> None:
    shown = {Path(link).name for link in links_of(PAGE) if link.endswith(".png")}

    assert shown == {f"tutorial-{name}.png" for name in ("welcome", "start", "card", "run")}
    assert all((DOCS_PICTURES / name).stat().st_size < 150_000 for name in shown)

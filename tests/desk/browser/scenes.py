"""What the browser tests share: agents with something to decide, people, and words for what one does on a page."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from placet import Agent, function_tool
from placet.desk import DeskRequest
from placet.desk.access.people import Role
from placet.testing import function_call
from tests.desk.scenes import Planned
from tests.support.desk_server import RunningDesk, support_agents

ROOT = Path(__file__).resolve().parents[3]
SCREENSHOTS = ROOT / ".dev" / "screenshots"
DOCS_PICTURES = ROOT / "docs" / "img"
PATIENCE = 90_000
"""Milliseconds in which a page shows what it should."""
DESKTOP = {"width": 1280, "height": 800}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
HUGE = 990_000
"""Characters: just below what a log takes as one call's arguments."""


def agents() -> list[Agent[Any]]:
    return [*support_agents(), _writer(), _manager()]


def _writer() -> Agent[Any]:
    """Arguments that are large, and text that runs from right to left."""

    @function_tool(needs_approval=True)
    async def publish(title: str, text: str) -> str:
        """Put a text on the public site."""
        return "published"

    calls = [
        function_call("publish", {"title": "שלום עולם – عاجل", "text": "lorem ipsum " * (HUGE // 12)}, call_id="p1")
    ]
    return Agent("Writer", tools=[publish], model=Planned(calls, says="It is public."))


def _manager() -> Agent[Any]:
    """An agent behind a tool: what waits is nested."""

    @function_tool(needs_approval=True)
    async def wire(iban: str, cents: int) -> str:
        """Wire money to an account."""
        return f"wired {cents}"

    clerk = Agent(
        "Clerk",
        tools=[wire],
        model=Planned([function_call("wire", {"iban": "DE02 1203 0000 0000 2020 51", "cents": 129900}, call_id="w1")]),
    )
    ask = clerk.as_tool("ask_clerk", "Have the clerk pay something.")
    calls = [function_call("ask_clerk", {"input": "Pay invoice 7 of Nordwind, 1,299 EUR."}, call_id="k1")]
    return Agent("Manager", tools=[ask], model=Planned(calls, says="Invoice 7 is paid."))


class Watch:
    """What must not happen on any page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.troubles: list[str] = []

    def over(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("request", lambda request: self._request(request.url))

    def _console(self, kind: str, text: str) -> None:
        is_answer = text.startswith("Failed to load resource")  # the browser's note of a 4xx that the test expects
        is_overtaken = "AbortError" in text  # htmx's note that a newer request took the place of one under way
        if kind in ("error", "warning") and not is_answer and not is_overtaken:
            self.troubles.append(f"console: {text}")

    def _request(self, url: str) -> None:
        if not url.startswith((self._url, "data:", "about:")):
            self.troubles.append(f"request to elsewhere: {url}")


class Reviewer:
    """Lets people sit down before the desk, each in a browser context of their own."""

    def __init__(self, browser: Browser, desk: RunningDesk, watch: Watch) -> None:
        self._browser = browser
        self._desk = desk
        self._watch = watch
        self._contexts: list[BrowserContext] = []

    async def __call__(self, name: str | None = "ana", role: Role = "reviewer", **options: Any) -> Page:
        """With `name` None: somebody whom the desk does not know."""
        given = {"viewport": DESKTOP, "locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce"} | options
        context = await self._browser.new_context(base_url=self._desk.url, **given)
        self._contexts.append(context)
        if name is not None:
            accounts = self._desk.web.accounts
            if await accounts.user(name) is None:
                await accounts.add_user(name, role)
            cookie, value = await self._desk.session(name)
            await context.add_cookies([{"name": cookie, "value": value, "url": self._desk.url}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        self._watch.over(page)
        return page

    async def leave(self) -> None:
        async with asyncio.timeout(PATIENCE / 1000):
            for context in self._contexts:
                await context.close()


async def sit_down(page: Page, path: str = "/inbox") -> None:
    """Open a page and wait until it is live."""
    await page.goto(path)
    await expect(page.locator("#live")).to_have_attribute("data-state", "on")


async def open_request(page: Page, tool: str, index: int = 0) -> None:
    await page.locator(".row-link", has_text=tool).nth(index).click()
    await settled(page)  # another request of this tool may have stood there before
    await expect(page.locator("#card-title")).to_have_text(tool)


async def settled(page: Page) -> None:
    """Until nothing is on its way any more."""
    await expect(page.locator(".htmx-request")).to_have_count(0)


async def armed(page: Page) -> None:
    """Until the buttons that decide take a decision: what has just come into sight does not yet."""
    await expect(page.locator("[data-waits]")).to_have_count(0)


async def send(page: Page) -> None:
    """Send the open form by keyboard."""
    await armed(page)
    await page.keyboard.press("Control+Enter")


def panel(page: Page) -> Locator:
    """The form that is open."""
    return page.locator("#panel")


async def docs_picture(page: Page, name: str) -> None:
    """A screenshot that a page of the documentation shows; `PLACET_DOCS_PICTURES=1` writes it there."""
    await armed(page)
    made = await picture(page, name)
    if os.environ.get("PLACET_DOCS_PICTURES"):
        shutil.copy(made, DOCS_PICTURES / made.name)


async def picture(page: Page, name: str, **options: Any) -> Path:
    """A screenshot, kept as an artefact."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    await page.screenshot(path=path, caret="initial", **options)  # hiding the caret takes inline styles
    return path


async def request_of(desk: RunningDesk, tool: str, status: str = "pending") -> DeskRequest:
    found = [row for row in (await desk.desk.requests(status=None)).rows if row.tool == tool and row.status == status]  # type: ignore[comparison-overlap]
    assert found, f"no {status} request of {tool}"
    return found[0]


async def statuses(desk: RunningDesk, tool: str) -> list[str]:
    return [row.status for row in (await desk.desk.requests(status=None)).rows if row.tool == tool]

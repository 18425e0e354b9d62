"""Browsers, a desk that serves, and people who sit before it.

One event loop for all browser tests of a process: the browser starts once. Every page is watched: an error in its
script, something that the content policy refused, or a request to anywhere but the desk fails the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.desk.browser.scenes import PATIENCE, Reviewer, Watch, agents, sit_down
from tests.support.browser import launch
from tests.support.desk_server import RunningDesk, running_desk

expect.set_options(timeout=PATIENCE)  # five seconds are not enough where other programs are at work

Arrive = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        found = await launch(playwright)
        yield found
        await found.close()


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=agents()) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def arrive(browser: Browser, desk: RunningDesk) -> AsyncIterator[Reviewer]:
    """`page = await arrive("ana")`: somebody who is signed in, in a browser of their own."""
    watch = Watch(desk.url)
    reviewer = Reviewer(browser, desk, watch)
    yield reviewer
    await reviewer.leave()
    assert watch.troubles == []


__all__ = ["sit_down"]

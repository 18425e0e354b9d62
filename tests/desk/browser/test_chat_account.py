"""Linking a chat account as a person does it at the desk: a word, the look at who typed it, and the yes."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from placet.desk.access.chat_links import ChatLinks
from tests.desk.browser.scenes import PHONE, Reviewer, docs_picture, sit_down
from tests.desk.browser.test_looks import complaints, is_not_wider_than_the_screen
from tests.support.desk_server import RunningDesk

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("P25")]

ACCOUNT = "slack:T0OURS:U0ANA"


async def test_a_chat_account_is_linked_at_the_desk_and_unlinked(
    desk: RunningDesk, arrive: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACET_SLACK_APP_TOKEN", "xapp-for-the-page")
    links = ChatLinks(desk.desk.store, desk.web.clock)
    page = await arrive("ana")
    await sit_down(page, "/account")
    await page.get_by_role("link", name="Chat accounts").click()
    await page.get_by_role("button", name="Link a Slack account").click()
    shown = await page.locator("#secret").inner_text()
    found = re.fullmatch(r"/placet link (\S+)", shown.strip())
    assert found is not None
    begun = await links.type_word(ACCOUNT, "ana.b", found[1])
    await page.get_by_role("link", name="Then go on here").click()
    await expect(page.get_by_role("heading", name="Is this you?")).to_be_visible()
    assert await page.get_by_role("button", name="Yes, that is me").count() == 0
    await links.answer_there(ACCOUNT, begun.id, is_me=True)
    await page.get_by_role("link", name="look again").click()
    await expect(page.get_by_role("button", name="Yes, that is me")).to_be_visible()
    await docs_picture(page, "chat-account")
    troubles = await complaints(page, "light")
    await page.get_by_role("button", name="Yes, that is me").click()
    await expect(page.get_by_role("button", name="Unlink")).to_be_visible()
    linked = await links.find(ACCOUNT)
    await page.get_by_role("button", name="Unlink").click()
    await expect(page.get_by_text("No chat account is linked.")).to_be_visible()

    assert troubles == []
    assert linked is not None
    assert (linked.owner, linked.label) == ("ana", "ana.b")
    assert await links.find(ACCOUNT) is None


@pytest.mark.parametrize("path", ["/account/chat", "/account/browsers"])
async def test_the_pages_fit_a_phone_and_pass_axe(desk: RunningDesk, arrive: Reviewer, path: str) -> None:
    page = await arrive("ana", **PHONE)
    await sit_down(page, path)

    assert await complaints(page, "light") == []
    assert await is_not_wider_than_the_screen(page)

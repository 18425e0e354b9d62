"""The first minutes at a new desk, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import Reviewer, picture, sit_down
from tests.support.desk_server import PASSWORD, RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_one_time_link_makes_the_first_admin_and_the_empty_inbox_explains_itself(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    key = await desk.web.accounts.first_admin_key()
    page = await arrive(None)

    await page.goto(f"/invitation?key={key}")
    await picture(page, "first-admin")
    await page.get_by_label("Name").fill("ana")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_label("The same again").fill("something else")
    await page.get_by_role("button", name="Make me the admin").click()
    await expect(page.get_by_role("alert")).to_have_text("The two passwords are not the same.")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_label("The same again").fill(PASSWORD)
    await page.get_by_role("button", name="Make me the admin").click()

    await expect(page.get_by_role("heading", name="This is your inbox")).to_be_visible()
    await expect(page.locator("#live")).to_have_attribute("data-state", "on")
    await picture(page, "first-inbox")
    user = await desk.web.accounts.user("ana")
    assert user is not None
    assert user.role == "admin"
    await page.goto(f"/invitation?key={key}")
    await expect(page.locator("main")).to_contain_text("this desk has users by now")


async def test_whoever_is_not_known_is_asked_to_sign_in_and_comes_back_to_where_they_wanted(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.web.accounts.add_user("ana", "reviewer", password=PASSWORD)
    page = await arrive(None)

    await page.goto("/runs")
    await expect(page).to_have_url(f"{desk.url}/login?next=%2Fruns")
    await page.get_by_label("Name").fill("ana")
    await page.get_by_label("Password").fill("not the password")
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("alert")).to_have_text("Name and password do not fit.")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page).to_have_url(f"{desk.url}/runs")
    await page.locator(".menu summary", has_text="ana").click()
    await page.get_by_role("button", name="Sign out").click()

    await expect(page).to_have_url(f"{desk.url}/login")
    await page.goto("/inbox")
    await expect(page).to_have_url(f"{desk.url}/login?next=%2Finbox")


async def test_a_session_that_was_ended_elsewhere_leads_to_the_sign_in_page_at_the_next_step(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    (session,) = await desk.web.accounts.sessions("ana")

    await desk.web.accounts.end_session(session.id, owner="ana")
    await page.locator(".row-link").first.click()

    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_an_admin_invites_a_reviewer_for_some_tools_and_takes_the_right_away_again(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    admin = await arrive("ana", "admin")
    await admin.goto("/people")
    await admin.get_by_label("Name").fill("ben")
    await admin.get_by_label("May decide (empty: everything)").fill("Support refund")
    await admin.get_by_role("button", name="Make a link").click()
    link = await admin.locator("#secret").inner_text()
    await picture(admin, "people")

    ben = await arrive(None)
    await ben.goto(link.removeprefix(desk.url))
    await ben.get_by_label("Password").fill(PASSWORD)
    await ben.get_by_label("The same again").fill(PASSWORD)
    await ben.get_by_role("button", name="Sign in", exact=True).click()
    await ben.locator(".row-link", has_text="delete_folder").click()
    await expect(ben.locator(".act")).to_contain_text("ben may not decide calls of delete_folder by Archivist")
    await ben.locator(".row-link", has_text="refund").first.click()
    await expect(ben.get_by_role("button", name="Approve")).to_be_visible()
    await admin.locator("tr", has_text="ben").locator("summary").click()
    await admin.get_by_role("button", name="Deactivate").click()
    await expect(admin.locator("tr", has_text="ben")).to_contain_text("inactive")
    await ben.goto("/inbox")

    await expect(ben.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana")
    await page.goto("/account")
    await page.get_by_label("What it is for").fill("deploy script")
    await page.get_by_role("button", name="Make a token").click()
    token = (await page.locator("#secret").inner_text()).strip()
    program = desk.client(token)
    before = await program.get("/v1/approvals")

    await page.goto("/account")
    await expect(page.locator("main")).not_to_contain_text(token)
    await page.get_by_role("button", name="Revoke deploy script").click()
    await expect(page.locator("main")).not_to_contain_text("deploy script")

    after = await program.get("/v1/approvals")
    assert (before.status_code, after.status_code) == (200, 401)

"""The form of a standing decision and the pages about the policy, as people use them: clicked and typed in a real
browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.desk.browser.scenes import PHONE, Reviewer, Watch, agents, open_request, picture, request_of, sit_down
from tests.desk.browser.test_looks import complaints, is_not_wider_than_the_screen
from tests.support.desk_server import RunningDesk, running_desk

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = """
[[rule]]
name = "large-refunds"
tool = "refund"
args.cents = { above = 10000 }
ask = { because = "Above 100 €." }

[[rule]]
name = "small-refunds"
tool = "refund"
args.cents = { above = 0, at_most = 10000 }
allow = true
relax = true
budget = { sum = "cents", most = 50000, every = "day" }

[rollout]
small-refunds = "shadow"
"""


@pytest_asyncio.fixture(loop_scope="session")
async def ruled(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    file = tmp_path / "policy.toml"
    file.write_text(TEXT, encoding="utf-8")
    async with running_desk(tmp_path, agents=agents(), policy=file) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def come(browser: Browser, ruled: RunningDesk) -> AsyncIterator[Reviewer]:
    watch = Watch(ruled.url)
    reviewer = Reviewer(browser, ruled, watch)
    yield reviewer
    await reviewer.leave()
    assert watch.troubles == []


async def test_always_is_narrowed_tried_and_looked_at_twice(ruled: RunningDesk, come: Reviewer) -> None:
    await ruled.waiting_run()
    page = await come("ana")
    await sit_down(page)
    await open_request(page, "refund")
    first = await request_of(ruled, "refund")
    await page.goto(f"/inbox?open={first.id.replace('#', '%23')}")
    await page.get_by_role("button", name="More…").click()
    await page.get_by_role("link", name="Ranges, sets, commands, a sum").click()
    await expect(page.get_by_role("heading", name="Always: refund")).to_be_visible()

    await page.get_by_label("The most of cents").fill("90000")
    await page.get_by_role("button", name="Look again").click()
    await expect(page.locator("#wider")).to_contain_text("cents may be 4900 to 90000; people approved 4900 to 4900")
    await page.get_by_role("button", name="Approve, and calls like it").click()
    await expect(page.get_by_role("alert")).to_contain_text("It reaches further than what people approved")
    assert (await ruled.desk.request(first.id)).status == "pending"
    await page.get_by_label("to say that this is meant").fill("refund")
    await page.get_by_role("button", name="Approve, and calls like it").click()
    await expect(page.locator(".toast")).to_contain_text("Approved: refund")

    (grant,) = await ruled.desk.grants()
    assert grant.terms is not None
    assert [each.values for each in grant.terms.matching if each.argument == "cents"] == [[4900, 90000]]


async def test_from_the_card_to_every_rule_and_from_the_policy_to_its_back_test(
    ruled: RunningDesk, come: Reviewer
) -> None:
    await ruled.waiting_run()
    for each in await ruled.desk.pending():
        await ruled.desk.decide(each.id, "reject", by="ben")
    await ruled.waiting_run()
    page = await come("ana")
    await sit_down(page, "/inbox?view=each")
    await page.locator(".row-link", has_text="24800").click()
    await expect(page.locator(".card-head")).to_contain_text("rule «large-refunds» (policy.toml, line 2) asks")
    await page.get_by_role("link", name="Every rule").click()
    await expect(page.get_by_role("row", name="large-refunds")).to_contain_text("decides")

    await page.get_by_role("link", name="Policy", exact=True).click()
    await expect(page.get_by_role("row", name="small-refunds").last).to_contain_text("shadow")
    await expect(page.locator("meter").first).to_be_visible()
    await page.get_by_role("link", name="Try it on the last 30 days").click()
    await expect(page.locator("#backtest")).to_contain_text("contradicted 1 rejections")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_these_pages_pass_axe_and_fit_a_phone(ruled: RunningDesk, come: Reviewer, scheme: str) -> None:
    await ruled.waiting_run()
    first = await request_of(ruled, "refund")
    named = first.id.replace("#", "%23")
    page, phone = await come("ana", "admin", color_scheme=scheme), await come("ben", "admin", **PHONE)
    found: dict[str, list[str]] = {}
    widths: list[bool] = []
    for path in (f"/inbox/always?open={named}", f"/inbox/why?open={named}", "/policy?backtest=1", "/policy/suggested"):
        await page.goto(path)
        found[path] = await complaints(page, scheme)
        await picture(page, f"{path.strip('/').partition('?')[0].replace('/', '-')}-{scheme}")
        await phone.goto(path)
        widths.append(await is_not_wider_than_the_screen(phone))

    assert {name: each for name, each in found.items() if each} == {}
    assert widths == [True] * 4

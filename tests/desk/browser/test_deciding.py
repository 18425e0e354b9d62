"""Deciding on the page, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import (
    Reviewer,
    docs_picture,
    open_request,
    panel,
    picture,
    request_of,
    send,
    sit_down,
    statuses,
)
from tests.support.desk_server import PATIENCE, RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_reviewer_approves_what_they_see_and_the_next_request_is_shown(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "refund")
    await expect(page.locator(".arguments")).to_contain_text("4900")
    await expect(page.locator(".before")).to_contain_text("order 1042: 49.00 EUR")
    await picture(page, "card")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    await expect(page.locator(".arguments")).to_contain_text("24800")
    await expect(page.locator(".row")).to_have_count(1)
    decided = await request_of(desk, "refund", "approved")
    assert (decided.decided_by, decided.run_id) == ("ana", run.id)


async def test_a_double_click_decides_one_request_and_not_the_one_that_takes_its_place(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")

    await page.get_by_role("button", name="Approve").dblclick()
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".toast")).to_have_count(1)
    await expect(page.locator(".arguments")).to_contain_text("24800")

    assert sorted(await statuses(desk, "refund")) == ["approved", "pending"]


async def test_a_rejection_carries_the_message_that_the_agent_reads(desk: RunningDesk, arrive: Reviewer) -> None:
    run = await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)

    await open_request(page, "delete_folder")
    await page.get_by_role("button", name="Reject…").click()
    await expect(page.get_by_label("Message to the agent")).to_be_focused()
    await expect(page.get_by_role("button", name="Approve")).to_be_hidden()
    await page.keyboard.type("Ask the owner of the folder first.")
    await page.get_by_label("Note for the record").fill("no ticket")
    await picture(page, "reject")
    await page.get_by_role("button", name="Reject", exact=True).click()

    await expect(page.locator(".toast")).to_contain_text("Rejected: delete_folder")
    await expect(page.locator(".welcome")).to_contain_text("All done")
    ended = await desk.desk.wait(run.id, timeout=PATIENCE)
    decided = await request_of(desk, "delete_folder", "rejected")
    assert (ended.status, decided.decided_by, decided.reason) == ("ended", "ana", "no ticket")
    await page.goto(f"/runs/{run.id}")
    await expect(page.locator(".log")).to_contain_text("Ask the owner of the folder first.")


async def test_an_edit_with_a_wrong_value_is_refused_beside_its_field_and_a_right_one_runs(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")

    await page.get_by_role("button", name="Edit…").click()
    await panel(page).get_by_label("keep_days").fill("soon")
    await panel(page).get_by_label("mode").select_option("erase")
    await page.get_by_role("button", name="Approve with these arguments").click()

    wrong = panel(page).get_by_label("keep_days")
    await expect(wrong).to_have_attribute("aria-invalid", "true")
    await expect(wrong).to_have_value("soon")
    await expect(wrong).to_be_focused()
    await expect(page.locator(".problem")).to_have_text("Write a whole number, like 42.")
    await expect(panel(page).get_by_label("mode")).to_have_value("1")
    assert await statuses(desk, "delete_folder") == ["pending"]
    await docs_picture(page, "inbox-edit")

    await wrong.fill("3")
    await page.get_by_role("button", name="Add to notify").click()
    await page.locator("[id='field-retention-2e-notify-5b-1-5d-']").fill("legal")
    await page.get_by_role("button", name="Approve with these arguments").click()

    await expect(page.locator(".toast")).to_contain_text("Approved with changed arguments")
    ended = await desk.desk.wait(run.id, timeout=PATIENCE)
    await page.goto(f"/runs/{run.id}")
    changed = (
        '{"path":"/exports/2023","mode":"erase","retention":{"keep_days":3,"notify":["ops","legal"]},"older_than":null}'
    )
    await expect(page.locator(".log")).to_contain_text(changed)
    assert (ended.status, await statuses(desk, "delete_folder")) == ("ended", ["edited"])


async def test_what_the_tool_itself_refuses_stands_beside_the_field_too(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")

    await page.get_by_role("button", name="Edit…").click()
    await panel(page).get_by_label("cents").fill("-5")
    await send(page)

    await expect(panel(page).get_by_label("cents")).to_have_attribute("aria-invalid", "true")
    await expect(page.locator(".problem")).to_contain_text("greater than 0")
    assert await statuses(desk, "refund") == ["pending", "pending"]


async def test_all_arguments_can_be_edited_as_json(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")

    await page.get_by_role("button", name="Edit…").click()
    await page.get_by_role("link", name="Edit as JSON").click()
    whole = page.get_by_label("All arguments, as JSON")
    await whole.fill('{"order_id": "1042", "cents": 1, "cents": 2}')
    await send(page)
    await expect(page.locator("#whole-problem")).to_contain_text("a key stands twice")
    await whole.fill('{"order_id": "1042", "cents": "none", "reason": "half"}')
    await send(page)
    await expect(page.locator(".panel .banner")).to_contain_text("cents: Input should be a valid integer")
    await whole.fill('{"order_id": "1042", "cents": 2000, "reason": "half"}')
    await send(page)

    await expect(page.locator(".toast")).to_contain_text("Approved with changed arguments")
    assert sorted(await statuses(desk, "refund")) == ["edited", "pending"]


async def test_an_answer_in_the_tools_place_reaches_the_agent_and_the_tool_does_not_run(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "delete_folder")

    await page.get_by_role("button", name="Answer…").click()
    await page.get_by_role("button", name="Send this answer").click()
    await expect(page.locator(".panel .banner")).to_contain_text("Write what the agent is to read.")
    await page.get_by_role("textbox", name="Answer in the tool's place").fill("It was deleted by hand yesterday.")
    await page.get_by_role("button", name="Send this answer").click()

    await expect(page.locator(".toast")).to_contain_text("Answered in the tool's place")
    await desk.desk.wait(run.id, timeout=PATIENCE)
    await page.goto(f"/runs/{run.id}")
    await expect(page.locator(".log")).to_contain_text('"output":"It was deleted by hand yesterday."')
    assert await statuses(desk, "delete_folder") == ["answered"]


async def test_always_says_what_it_covers_and_covers_that(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")

    await page.get_by_role("button", name="More…").click()
    await page.get_by_label("In this run, every further call of refund by Support is approved without asking.").check()
    await page.get_by_label("Note for the record").fill("the whole batch")
    await picture(page, "always")
    await page.get_by_role("button", name="Approve", exact=True).click()

    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    await expect(page.locator(".row")).to_have_count(0)
    assert await statuses(desk, "refund") == ["approved", "approved"]


async def test_a_narrowed_standing_decision_holds_for_later_runs_with_the_same_value_only(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    await desk.waiting_run()
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "refund")

    await page.get_by_role("button", name="More…").click()
    await page.get_by_label("In this run and in all later runs").check()
    await page.get_by_text("Narrow a standing decision").click()
    await page.get_by_label('only when order_id is exactly "1042"').check()
    await page.get_by_label("At most so many times").fill("x")
    await send(page)
    await expect(page.locator(".panel .banner")).to_contain_text("a whole number, 1 or more")
    await page.get_by_label("At most so many times").fill("5")
    await page.get_by_label("Where it reaches further than what people approved").fill("refund")
    await send(page)
    await expect(page.locator(".toast")).to_contain_text("Approved: refund")
    run = await desk.waiting_run()

    waits = await desk.desk.pending(run_id=run.id)
    assert [row.arguments["order_id"] for row in waits if isinstance(row.arguments, dict)] == ["1077"]
    (grant,) = await desk.desk.grants()
    assert (grant.by, grant.arguments, grant.uses) == ("ana", {"order_id": "1042"}, 5)


async def test_a_viewer_sees_everything_and_decides_nothing(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    page = await arrive("vera", "viewer")
    await sit_down(page)
    await open_request(page, "refund")

    await expect(page.locator(".act")).to_contain_text("vera may look, not decide")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    await expect(page.locator(".row input[type=checkbox]")).to_have_count(0)


async def test_without_a_script_one_can_still_read_approve_reject_and_edit(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana", java_script_enabled=False)
    await page.goto("/inbox")

    await page.locator(".row-link", has_text="refund").first.click()
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator("#toasts")).to_contain_text("Approved: refund")
    await page.get_by_role("button", name="Reject…").click()
    await page.get_by_label("Message to the agent").fill("Not twice.")
    await page.get_by_role("button", name="Reject", exact=True).click()
    await page.get_by_role("button", name="Edit…").click()
    await panel(page).get_by_label("keep_days").fill("x")
    await page.get_by_role("button", name="Approve with these arguments").click()
    await expect(page.locator(".problem")).to_be_visible()
    await panel(page).get_by_label("keep_days").fill("9")
    await page.get_by_role("button", name="Approve with these arguments").click()

    await expect(page.locator(".empty")).to_contain_text("Nothing waits.")
    assert (await statuses(desk, "refund"), await statuses(desk, "delete_folder")) == (
        ["approved", "rejected"],
        ["edited"],
    )

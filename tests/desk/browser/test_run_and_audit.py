"""The pages about what happened: runs as pictures, filters in the address, the audit. In a real browser."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.desk.browser.scenes import Reviewer, docs_picture, open_request, picture, request_of, sit_down
from tests.support.desk_server import PATIENCE, RunningDesk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_picture_of_a_run_shows_turns_calls_waits_decisions_and_nested_runs(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run("Manager")
    wire = await request_of(desk, "wire")
    await desk.desk.decide(wire.id, "approve", by="ben", reason="invoice checked")
    await desk.desk.wait(run.id, timeout=PATIENCE)
    page = await arrive("ana")
    await sit_down(page, f"/runs/{run.id}")

    await expect(page.locator(".timeline .row-label.is-run title")).to_have_text(
        ["Manager", "Manager/ask_clerk(Clerk)"]
    )
    await expect(page.locator(".timeline .is-turn")).to_have_count(4)
    await expect(page.locator(".timeline .is-wait")).to_have_count(1)
    sign = page.locator(".timeline .sign")
    await sign.focus()
    await expect(page.locator("#timeline-detail")).to_contain_text("wire: approved by ben")
    await expect(page.locator("#timeline-detail")).to_contain_text("invoice checked")
    await docs_picture(page, "run-page")
    await sign.click()

    await expect(page.locator(".log li:target")).to_contain_text("response received")
    await expect(page.locator(".badge.is-whole")).to_have_text("chain whole")


async def test_a_run_is_started_and_ended_on_the_page(desk: RunningDesk, arrive: Reviewer) -> None:
    page = await arrive("ana")
    await sit_down(page, "/runs")

    await page.get_by_label("What should it do?").fill("Clean up the exports of 2023.")
    await page.locator("form[action='/runs'] select").first.select_option("Archivist")
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator(".banner.is-wait")).to_contain_text("delete_folder waits for a decision")
    await page.get_by_text("End this run…").click()
    await page.get_by_label("Why").fill("a mistake")
    await page.get_by_role("button", name="End the run").click()

    await expect(page.locator(".badge.is-cancelled")).to_be_visible()
    row = (await desk.desk.runs()).rows[0]
    assert (row.started_by, row.status) == ("ana", "ended")


async def test_a_page_that_refreshes_itself_leaves_what_a_person_opened_and_typed(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run()
    first, _ = await desk.desk.pending()
    page = await arrive("ana")
    await sit_down(page, f"/runs/{run.id}")
    await page.get_by_text("End this run…").click()
    await page.get_by_label("Why").fill("a mistake")
    await page.get_by_text("End this run…").focus()

    await desk.desk.decide(first.id, "approve", by="ben")

    await expect(page.locator(".banner.is-wait")).to_have_count(1)
    await expect(page.get_by_role("button", name="End the run")).to_be_visible()
    await expect(page.get_by_label("Why")).to_have_value("a mistake")


async def test_filters_stay_in_the_address_and_survive_a_reload(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run()
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page)

    await page.get_by_label("Tool all tools").select_option("delete_folder")
    await expect(page.locator(".row")).to_have_count(1)
    await open_request(page, "delete_folder")
    address = page.url
    await page.reload()

    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator("#card-title")).to_have_text("delete_folder")
    assert "tool=delete_folder" in address
    assert page.url == address
    await page.go_back()
    await expect(page).to_have_url(f"{desk.url}/inbox?status=pending&tool=delete_folder")


async def test_the_audit_tells_who_decided_what_and_finds_a_log_that_was_altered(
    desk: RunningDesk, arrive: Reviewer, tmp_path: Path
) -> None:
    await desk.waiting_run()
    first, second = await desk.desk.pending()
    await desk.desk.decide(first.id, "approve", by="ben", reason="checked")
    await desk.desk.decide(second.id, "reject", by="ana", message="no")
    await desk.waiting_run("Archivist")
    page = await arrive("ana")
    await sit_down(page, "/audit")

    await expect(page.locator(".table tbody tr")).to_have_count(2)
    await expect(page.locator(".banner")).to_contain_text("1 log behind this page checked just now: whole.")
    await page.get_by_label("Decided by").fill("ben")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator(".table tbody tr")).to_have_count(1)
    await expect(page.locator(".table tbody tr")).to_contain_text("checked")
    await picture(page, "audit")
    alter(tmp_path / "placet.db", first.run_id)
    await page.reload()

    await expect(page.get_by_role("alert")).to_contain_text("1 of the logs behind this page is not what it was")


def alter(file: Path, run_id: str) -> None:
    """Change one line of a stored log, as somebody with a hold of the file could, checksum included."""
    with sqlite3.connect(file) as db:
        (number,) = db.execute("SELECT number FROM placet_runs WHERE id = ?", (run_id,)).fetchone()
        (text,) = db.execute("SELECT text FROM placet_lines WHERE run = ? AND position = 0", (number,)).fetchone()
        other = text.replace(b"A customer", b"Some people")
        assert other != text
        db.execute(
            "UPDATE placet_lines SET text = ?, checksum = ? WHERE run = ? AND position = 0",
            (other, zlib.crc32(other), number),
        )

"""Cards with more than a table, in a real browser: a call that asks for values, commands and patches in colours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import pytest_asyncio
from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from playwright.async_api import expect
from pydantic import BaseModel, Field

from placet import Agent
from placet.mcp import MCPServerInProcess
from placet.testing import function_call
from placet.tools import ApplyPatchTool, LocalEditor, LocalShell, ShellTool
from tests.desk.browser.scenes import Reviewer, docs_picture, open_request, panel, picture, send, sit_down
from tests.desk.browser.test_looks import complaints
from tests.desk.scenes import Planned
from tests.support.desk_server import PATIENCE, RunningDesk, running_desk

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEFORE = "def greet(name):\n    return 'hello'\n"
DIFF = "@@ def greet(name):\n-    return 'hello'\n+    return f'good day, {name} <b>!</b>'\n"


class Address(BaseModel):
    street: str
    number: Annotated[int, Field(ge=1)]
    speed: Literal["standard", "express"] = "standard"


async def ask_address(order_id: str) -> Elicit[Address]:
    return Elicit(f"Where should order {order_id} go?", Address)


def shop() -> MCPServer[Any]:
    """A real server of the protocol, which asks in the middle of a call."""
    orders: MCPServer[Any] = MCPServer("orders")

    @orders.tool()
    async def ship(order_id: str, address: Annotated[Address, Resolve(ask_address)]) -> str:
        """Send an order to a customer."""
        return f"order {order_id} goes to {address.street} {address.number}, {address.speed}"

    return orders


def clerk() -> Agent[Any]:
    calls = [function_call("ship", {"order_id": "7"}, call_id="s")]
    return Agent("Clerk", mcp_servers=[MCPServerInProcess(shop())], model=Planned(calls, says="It is on its way."))


def coder(folder: Path) -> Agent[Any]:
    (folder / "app.py").write_text(BEFORE)
    commands = {
        "commands": ["python -m pytest -q tests", "rm -rf build \\\n  && git push origin main", "echo '\u202etxt.sh'"],
        "timeout_ms": 60_000,
        "max_output_length": None,
    }
    patch = {"operations": [{"type": "update_file", "path": "app.py", "diff": DIFF}]}
    calls = [function_call("shell", commands, call_id="c"), function_call("apply_patch", patch, call_id="p")]
    tools = [ShellTool(LocalShell(folder)), ApplyPatchTool(LocalEditor(folder))]
    return Agent("Coder", tools=tools, model=Planned(calls, says="The greeting is politer now."))


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    folder = tmp_path / "project"
    folder.mkdir()
    async with running_desk(tmp_path, agents=[clerk(), coder(folder)]) as running:
        yield running


async def test_a_call_that_asks_is_answered_in_a_form_made_from_its_question(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    run = await desk.waiting_run("Clerk")
    page = await arrive("ana")
    await sit_down(page)
    await expect(page.locator(".row .badge")).to_have_text("asks")
    await open_request(page, "ship")
    await expect(page.locator(".card .ask")).to_have_text("This call runs, and asks you something.")
    await expect(page.locator(".asks")).to_have_text("Where should order 7 go?")
    await expect(page.get_by_role("button", name="Agree")).to_have_count(0)

    await page.keyboard.press("w")
    await panel(page).get_by_label("street").fill("Main Street")
    await panel(page).get_by_label("number").fill("0")
    await docs_picture(page, "inbox-asks")
    await panel(page).get_by_role("button", name="Send this answer").click()
    await expect(panel(page).get_by_role("alert")).to_contain_text("Not sent.")
    await expect(panel(page).get_by_label("street")).to_have_value("Main Street")
    await picture(page, "asks-not-sent")
    troubles = await complaints(page, "light")
    await panel(page).get_by_label("number").fill("5")
    await expect(panel(page).get_by_label("give a value")).not_to_be_checked()
    await panel(page).get_by_label("speed").select_option("express")
    await expect(panel(page).get_by_label("give a value")).to_be_checked()
    await send(page)
    await expect(page.locator(".toast")).to_contain_text("Answered in the tool's place: ship")

    ended = await desk.desk.wait(run.id, timeout=PATIENCE)
    stored = await desk.desk.store.load(run.id)
    assert stored is not None
    assert stored.log is not None
    assert troubles == []
    assert ended.final_output == "It is on its way."
    assert b"order 7 goes to Main Street 5, express" in b"".join(stored.log.lines)


async def test_commands_are_shown_line_by_line_with_what_limits_them(desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Coder")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "shell")

    lines = page.locator(".preview > div")
    await expect(lines).to_have_text(
        [
            "$ python -m pytest -q tests",
            "$ rm -rf build \\",
            "  && git push origin main",
            "$ echo 'U+202Etxt.sh'",
            "timeout_ms: 60000",
        ]
    )
    await expect(lines.nth(2)).to_have_class("is-more")
    await docs_picture(page, "inbox-shell")
    assert await complaints(page, "light") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_patch_is_shown_as_a_diff_in_colours(scheme: str, desk: RunningDesk, arrive: Reviewer) -> None:
    await desk.waiting_run("Coder")
    page = await arrive("ana", color_scheme=scheme)
    await sit_down(page)
    await open_request(page, "apply_patch")

    added, removed = page.locator(".preview .is-added"), page.locator(".preview .is-removed")
    await expect(added).to_contain_text("+    return f'good day, {name} <b>!</b>'")
    await expect(removed).to_contain_text("-    return 'hello'")
    colours = [await each.evaluate("e => getComputedStyle(e).backgroundColor") for each in (added, removed)]
    await expect(page.locator(".preview > div")).to_have_count(4)
    await picture(page, f"patch-{scheme}")
    if scheme == "light":
        await docs_picture(page, "inbox-patch")
    assert len(set(colours)) == 2
    assert await complaints(page, scheme) == []

"""A running call's question on the page: shown, answered in a form that fits it, declined; commands and patches line by
line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, NeedsInput, ToolContext, function_tool
from placet.testing import function_call
from placet.tools import ApplyPatchTool, LocalEditor, LocalShell, ShellTool
from tests.desk.pages.test_deciding_pages import browser, post
from tests.desk.scenes import Planned
from tests.support.desk_server import PATIENCE, RunningDesk, running_desk

FORM = {
    "mode": "form",
    "message": "Which size <b>exactly</b>?",
    "requestedSchema": {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
        "required": ["size"],
    },
}
LINK = {"mode": "url", "message": "Sign in at the bank.", "url": "https://bank.example/confirm"}


def asking(question: dict[str, Any]) -> Agent[Any]:
    @function_tool
    async def order(ctx: ToolContext[Any], item: str) -> Any:
        """Order something."""
        return f"ordered: {ctx.answers}" if ctx.answers else NeedsInput({"q": question})

    return Agent("Buyer", tools=[order], model=Planned([function_call("order", {"item": "lamp"}, call_id="o")]))


def coder(folder: Path) -> Agent[Any]:
    commands = {"commands": ["rm -rf build\necho <script>"], "timeout_ms": None, "max_output_length": None}
    patch = {"operations": [{"type": "create_file", "path": "a.txt", "diff": "+new <i>line</i>\n"}]}
    calls = [function_call("shell", commands, call_id="s"), function_call("apply_patch", patch, call_id="p")]
    tools = [ShellTool(LocalShell(folder)), ApplyPatchTool(LocalEditor(folder))]
    return Agent("Coder", tools=tools, model=Planned(calls))


@pytest.fixture
async def desk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[RunningDesk]:
    agents = [asking(getattr(request, "param", FORM)), coder(tmp_path)]
    async with running_desk(tmp_path, agents=agents) as running:
        yield running


async def test_a_question_is_shown_and_answered_by_a_form_that_fits_it(desk: RunningDesk) -> None:
    run = await desk.waiting_run("Buyer")
    (asked,) = await desk.desk.pending()
    ana = await browser(desk)

    card = await ana.get("/inbox", params={"open": asked.id, "do": "respond"})
    wrong = await post(
        ana, "/inbox/decide", open=asked.id, digest=asked.digest, decision="respond", panel="respond", **{"v.size": "0"}
    )
    right = await post(
        ana,
        "/inbox/decide",
        open=asked.id,
        digest=asked.digest,
        decision="respond",
        panel="respond",
        **{"v.size": "3"},
    )

    assert "Which size &lt;b&gt;exactly&lt;/b&gt;?" in card.text
    assert 'name="v.size"' in card.text
    assert 'value="approve"' not in card.text
    assert (wrong.status_code, right.status_code) == (422, 303)
    ended = await desk.desk.wait(run.id, timeout=PATIENCE)
    stored = await desk.desk.store.load(run.id)
    assert stored is not None
    assert stored.log is not None
    assert ended.status == "ended"
    assert b'"size":3' in b"".join(stored.log.lines)


@pytest.mark.parametrize("desk", [LINK], indirect=True)
async def test_a_question_with_a_page_to_go_to_links_there_and_can_be_agreed_to(desk: RunningDesk) -> None:
    run = await desk.waiting_run("Buyer")
    (asked,) = await desk.desk.pending()
    ana = await browser(desk)

    card = await ana.get("/inbox", params={"open": asked.id})
    await post(ana, "/inbox/decide", open=asked.id, digest=asked.digest, decision="approve")

    assert 'href="https://bank.example/confirm"' in card.text
    assert (await desk.desk.wait(run.id, timeout=PATIENCE)).status == "ended"


@pytest.mark.parametrize("desk", [LINK | {"url": "javascript:alert(1)"}], indirect=True)
async def test_an_address_that_is_none_of_the_web_is_no_link(desk: RunningDesk) -> None:
    await desk.waiting_run("Buyer")
    (asked,) = await desk.desk.pending()

    card = await (await browser(desk)).get("/inbox", params={"open": asked.id})

    assert 'href="javascript' not in card.text


async def test_commands_and_patches_are_shown_line_by_line_and_cannot_deceive(desk: RunningDesk) -> None:
    await desk.waiting_run("Coder")
    shell, patch = await desk.desk.pending()
    ana = await browser(desk)

    commands = (await ana.get("/inbox", params={"open": shell.id})).text
    diff = (await ana.get("/inbox", params={"open": patch.id})).text

    assert 'class="is-command"' in commands
    assert "echo &lt;script&gt;" in commands
    assert 'class="is-added"' in diff
    assert "+new &lt;i&gt;line&lt;/i&gt;" in diff

"""What a card, the list and the audit say about a call: all of it, what ran, and who decided. Asked over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, function_tool
from placet.desk import DeskRequest
from placet.desk.pages.argument_parts import FIRST_LINES, NEXT_LINES, shown_lines
from placet.facts.errors import ToolOutcomeUnknown
from placet.testing import function_call
from placet.tools import LocalShell, ShellTool
from tests.desk.pages.test_deciding_pages import browser, post
from tests.desk.scenes import Planned
from tests.support.desk_server import PATIENCE, RunningDesk, running_desk, support_agents

RECORDS = [{"id": n, "name": f"record {n}"} for n in range(330)]


def importer() -> Agent[Any]:
    @function_tool(needs_approval=True, strict_mode=False)
    async def load(records: list[dict[str, Any]], truncate_first: bool = False) -> str:
        """Load records into the table of customers."""
        return "loaded"

    calls = [function_call("load", {"records": RECORDS, "truncate_first": True}, call_id="l1")]
    return Agent("Importer", tools=[load], model=Planned(calls, says="Loaded."))


def payer() -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def pay(cents: int) -> str:
        """Pay somebody."""
        raise ToolOutcomeUnknown("the bank did not answer")

    return Agent("Payer", tools=[pay], model=Planned([function_call("pay", {"cents": 100}, call_id="p")], says="Paid."))


def coder(folder: Path) -> Agent[Any]:
    commands = {"commands": [f"echo {n}" for n in range(60_000)], "timeout_ms": 60_000}
    calls = [function_call("shell", commands, call_id="c")]
    return Agent("Coder", tools=[ShellTool(LocalShell(folder))], model=Planned(calls, says="Done."))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    agents = [*support_agents(), importer(), payer(), coder(tmp_path)]
    async with running_desk(tmp_path, agents=agents) as running:
        yield running


async def in_doubt(desk: RunningDesk) -> DeskRequest:
    """A call that was approved, began, and whose end nobody knows."""
    run = await desk.waiting_run("Payer")
    (asked,) = await desk.desk.pending(run_id=run.id)
    await desk.desk.decide(asked.id, "approve", by="ben")
    while True:
        await desk.desk.wait(run.id, until="paused", timeout=PATIENCE)
        found = await desk.desk.pending(run_id=run.id)
        if found:
            return found[0]


@pytest.mark.promise("P22")
async def test_every_top_level_argument_is_on_the_card_and_a_list_unfolds_in_place(desk: RunningDesk) -> None:
    await desk.waiting_run("Importer")
    (waiting,) = await desk.desk.pending()
    ana = await browser(desk)

    card = (await ana.get("/inbox", params={"open": waiting.id})).text
    first = (await ana.get("/inbox/part", params={"open": waiting.id, "at": "/records"})).text
    second = (await ana.get("/inbox/part", params={"open": waiting.id, "at": "/records", "start": "200"})).text
    nowhere = await ana.get("/inbox/part", params={"open": waiting.id, "at": "/records/999"})

    assert "truncate_first" in card
    assert "<summary>330 in a list</summary>" in card
    assert "record 17" not in card.partition('id="arguments-json"')[0]
    assert first.count('<span class="name"><bdi dir="auto">name</bdi>') == 200
    assert "Show the next ones: 130 of 330 are left" in first
    assert "Show the next ones" not in second
    assert nowhere.status_code == 404


@pytest.mark.promise("P22")
async def test_what_is_copied_is_all_of_it_and_says_which_request_it_is_of(desk: RunningDesk) -> None:
    await desk.waiting_run("Importer")
    (waiting,) = await desk.desk.pending()
    ana = await browser(desk)

    answer = await ana.get("/inbox/arguments.json", params={"open": waiting.id})

    assert json.loads(answer.text) == {"records": RECORDS, "truncate_first": True}
    assert answer.headers["Placet-Request"] == waiting.id


PARTIAL = {"HX-Request": "true"}


async def test_the_form_to_edit_sixty_thousand_commands_is_small_and_says_how_else(desk: RunningDesk) -> None:
    await desk.waiting_run("Coder")
    (waiting,) = await desk.desk.pending()
    ana = await browser(desk)

    forms = [
        (await ana.get("/inbox/panel", params={"open": waiting.id, "do": "edit", **more}, headers=PARTIAL)).text
        for more in ({}, {"as": "json"})
    ]

    for form in forms:
        assert len(form) < 20_000
        assert "too large to be edited on a page" in form
        assert "placet edit" in form
        assert "textarea" not in form
        assert 'type="submit"' not in form


async def test_a_card_of_sixty_thousand_commands_is_small_and_says_how_many_there_are(desk: RunningDesk) -> None:
    await desk.waiting_run("Coder")
    (waiting,) = await desk.desk.pending()
    ana = await browser(desk)

    card = (await ana.get("/inbox", params={"open": waiting.id})).text
    following = (await ana.get("/inbox/lines", params={"open": waiting.id, "start": str(FIRST_LINES)})).text
    refused = await ana.get("/inbox/part", params={"open": waiting.id, "at": "/commands/x"})

    assert len(card) < 200_000
    assert f"{60_000 - FIRST_LINES} more lines, {60_000 - FIRST_LINES} of them commands" in card
    assert card.index("more lines") < card.index("timeout_ms: 60000")
    assert following.count('class="is-command"') == NEXT_LINES
    assert f"echo {FIRST_LINES}<" in following
    assert refused.status_code == 404


def test_all_lines_of_commands_and_patches_are_reached() -> None:
    arguments = {"commands": [f"echo {n}\nexit" for n in range(3000)], "timeout_ms": 5}
    found: list[str] = []
    start = 0
    while True:
        shown = shown_lines(arguments, start)
        assert shown is not None
        found += [each.text for each in shown.lines]
        start = shown.following
        if not start:
            break

    assert found == [line for n in range(3000) for line in (f"echo {n}", "exit")]
    assert shown_lines({"a": 1}) is None


def test_a_line_of_a_command_that_is_cut_shows_its_end_and_its_size() -> None:
    shown = shown_lines({"commands": ["x" * 9000 + " && rm -rf /"]})

    assert shown is not None
    assert "9,012 characters in all" in shown.lines[0].text
    assert shown.lines[0].text.endswith("&& rm -rf /")


@pytest.mark.promise("P22")
async def test_a_call_in_doubt_has_no_default_and_tells_of_its_first_approval(desk: RunningDesk) -> None:
    waiting = await in_doubt(desk)
    ana = await browser(desk)

    card = (await ana.get("/inbox", params={"open": waiting.id})).text
    form = (await ana.get("/inbox", params={"open": waiting.id, "do": "more"})).text
    note = re.search(r'id="doubt">(.*?)</p>', card)

    assert note is not None
    assert "Approved by <bdi>ben</bdi>" in note[1]
    assert note[1].count("<time ") == 2
    assert "running it again does it twice" in note[1]
    assert 'data-key="a"' not in card
    assert "Run it again…" in card
    assert 'class="primary yes"' not in card
    assert 'class="no">Run it again</button>' in form
    assert "If it happened, this does it twice." in form


@pytest.mark.promise("P22")
async def test_calls_in_doubt_are_not_run_again_together(desk: RunningDesk) -> None:
    waiting = await in_doubt(desk)
    ana = await browser(desk)

    listed = (await ana.get("/inbox")).text
    shown = await post(ana, "/inbox/together", pick=[f"{waiting.id} {waiting.digest}"])

    assert 'name="pick"' not in listed
    assert "it is unknown whether it happened" in shown.text
    assert "Nothing is left to decide" in shown.text


@pytest.mark.promise("P22")
async def test_after_an_edit_card_list_audit_and_message_show_what_ran_and_what_was_asked_for(
    desk: RunningDesk,
) -> None:
    run = await desk.waiting_run()
    first, second = await desk.desk.pending()
    ana = await browser(desk)
    edited = {"order_id": "1042", "cents": 1234, "reason": "half"}

    answer = await post(
        ana,
        "/inbox/decide",
        open=first.id,
        digest=first.digest,
        decision="edit",
        panel="edit",
        **{"as": "json", "j.": json.dumps(edited)},
    )
    message = (await ana.get(answer.headers["location"])).text
    await desk.desk.decide(second.id, "reject", by="ana")
    await desk.desk.wait(run.id, timeout=PATIENCE)
    card = (await ana.get("/inbox", params={"open": first.id})).text
    listed = (await ana.get("/inbox", params={"status": "edited"})).text
    audit = (await ana.get("/audit", params={"status": "edited"})).text
    before = (await ana.get("/inbox", params={"open": second.id})).text.partition("What led to it")[2]
    copied = await ana.get("/inbox/arguments.json", params={"open": first.id})

    assert "Approved with changed arguments: refund, order_id: 1042 · cents: 1234" in message
    assert "What ran</h3>" in card
    assert card.index("1234") < card.index("What the agent asked for") < card.index(">4900<")
    for page in (listed, audit):
        told = re.sub(r"<[^>]+>", "", page)
        assert "cents: 1234" in told
        assert "asked for: order_id: 1042 · cents: 4900" in told
    assert "1234" in before
    assert "4900" not in before
    assert json.loads(copied.text) == edited


async def test_a_decided_card_says_what_became_of_its_call(desk: RunningDesk) -> None:
    await desk.waiting_run()
    first, second = await desk.desk.pending()
    ana = await browser(desk)
    waits = (await ana.get("/inbox", params={"open": first.id})).text
    await desk.desk.decide(first.id, "reject", by="ana")
    await desk.desk.hold("tool", "refund", by="ops")
    await desk.desk.decide(second.id, "approve", by="ana")

    rejected = (await ana.get("/inbox", params={"open": first.id})).text
    held = (await ana.get("/inbox", params={"open": second.id})).text

    assert "What will run</h3>" in waits
    assert "What was asked for</h3>" in rejected
    assert "What will run</h3>" in held


@pytest.mark.promise("P22")
async def test_before_always_is_said_the_form_says_what_it_would_decide_and_afterwards_all_say_what_did(
    desk: RunningDesk,
) -> None:
    run = await desk.waiting_run()
    await desk.waiting_run()
    first, second, *_ = await desk.desk.pending(run_id=run.id)
    ana = await browser(desk)

    form = (await ana.get("/inbox", params={"open": first.id, "do": "more"})).text
    fields = {"open": first.id, "digest": first.digest, "decision": "approve", "panel": "more", "always": "run"}
    await post(ana, "/inbox/decide", **fields)
    await desk.desk.wait(run.id, timeout=PATIENCE)
    card = (await ana.get("/inbox", params={"open": second.id})).text
    own = (await ana.get("/inbox", params={"open": first.id})).text
    listed = (await ana.get("/inbox", params={"status": "approved"})).text
    audit = (await ana.get("/audit")).text

    assert "1 other call that waits now would be approved with it, unless you narrow it." in form
    assert "3 other calls that wait now (2 in other runs) would be approved with it" in form
    assert "Approved by a standing decision of <bdi>ana</bdi>" in card
    assert "Approved by <bdi>ana</bdi>" in own
    assert listed.count("by a standing decision of <bdi>ana</bdi>") == 1
    assert audit.count("standing decision of</span>") == 1


async def test_a_card_names_its_run_by_what_it_was_asked_and_nothing_in_it_is_markup(desk: RunningDesk) -> None:
    run = await desk.desk.start("Payer", "Pay <b>ana</b>\nfor the " + "very " * 40 + "late order")
    await desk.desk.wait(run.id, until="paused", timeout=PATIENCE)
    (row,) = await desk.desk.pending()
    ana = await browser(desk)

    page = (await ana.get(f"/inbox?open={row.id}")).text
    title = re.search(r'<span class="run-title">(.*?)</span>', page)

    assert title is not None
    assert "Pay &lt;b&gt;ana&lt;/b&gt; for the very" in title[1]
    assert len(re.sub("<[^>]+>", "", title[1])) < 100
    assert run.id in page

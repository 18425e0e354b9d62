"""The card leads with a sentence and what is unusual; a yes to something unusual names it. Asked over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet import Agent, function_tool
from placet.desk import DeskRequest
from placet.desk.pages.differences import origins_of
from placet.desk.pages.history import HistoryRow
from placet.facts.codec import JsonObject
from placet.testing import function_call
from tests.desk.pages.test_deciding_pages import browser, post
from tests.desk.scenes import Planned
from tests.support.decided import remembered
from tests.support.desk_server import RunningDesk, running_desk, support_agents

ORDERS: list[JsonObject] = [{"order_id": f"{1000 + n}", "cents": 4000 + n * 50, "reason": "broken"} for n in range(24)]


def eraser() -> Agent[Any]:
    @function_tool(needs_approval=True, irreversible=True, describe="Erase <b>{name}</b> for good")
    async def erase(name: str) -> str:
        return "gone"

    calls = [function_call("erase", {"name": "backup-7"}, call_id="e1")]
    return Agent("Eraser", tools=[erase], model=Planned(calls, says="Erased."))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=[*support_agents(), eraser()]) as running:
        yield running


async def two_refunds(desk: RunningDesk) -> tuple[DeskRequest, DeskRequest]:
    """4,900 cents for 1042, broken; and 24,800 cents for 1077, charged twice."""
    await desk.waiting_run()
    first, second = await desk.desk.pending()
    return first, second


async def card_of(client: httpx2.AsyncClient, request: DeskRequest) -> str:
    return (await client.get("/inbox", params={"open": request.id})).text


def text_of(markup: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", markup)))


async def test_a_card_says_in_one_sentence_what_would_happen_and_how_it_compares(desk: RunningDesk) -> None:
    usual, unusual = await two_refunds(desk)
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    ana = await browser(desk)

    said, warned = await card_of(ana, usual), await card_of(ana, unusual)

    assert "Refund: order id 1042, cents 4900, reason broken" in text_of(said)
    assert "24 like it approved in 2 runs, none rejected." in text_of(said)
    assert 'class="badge is-usual"' in said
    assert "usually 4000 to 5150, median 4575" in text_of(said)
    assert 'name="seen"' not in said
    assert 'class="badge is-unusual"' in warned
    assert "cents: 5.42 times the median; 4000 to 5150 before" in text_of(warned)
    assert "reason: first time; broken before" in text_of(warned)
    assert set(re.findall(r'name="seen" value="([^"]+)"', warned)) == {"cents", "reason"}


async def test_a_yes_to_something_unusual_counts_only_with_all_of_it_acknowledged(desk: RunningDesk) -> None:
    _, unusual = await two_refunds(desk)
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    ana = await browser(desk)
    form = {"open": unusual.id, "digest": unusual.digest, "decision": "approve"}

    plain = await post(ana, "/inbox/decide", **form)
    half = await post(ana, "/inbox/decide", **form, seen=["cents"])
    by_form = await post(ana, "/inbox/decide", **form, panel="more", always="agent")
    still = (await desk.desk.request(unusual.id)).status
    done = await post(ana, "/inbox/decide", **form, seen=["cents", "reason"])

    assert [each.status_code for each in (plain, half, by_form)] == [422, 422, 422]
    assert "tick it first: reason" in text_of(half.text)
    assert still == "pending"
    assert done.status_code == 303
    assert (await desk.desk.request(unusual.id)).status == "approved"


async def test_a_no_needs_no_acknowledgement(desk: RunningDesk) -> None:
    _, unusual = await two_refunds(desk)
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    ana = await browser(desk)

    await post(ana, "/inbox/decide", open=unusual.id, digest=unusual.digest, decision="reject", panel="reject")

    assert (await desk.desk.request(unusual.id)).status == "rejected"


async def test_the_odd_ones_are_not_approved_together_with_others(desk: RunningDesk) -> None:
    usual, unusual = await two_refunds(desk)
    await remembered(desk.desk.store, "Support", "refund", ORDERS)
    ana = await browser(desk)
    picks = [f"{each.id} {each.digest}" for each in (usual, unusual)]

    shown = await post(ana, "/inbox/together", pick=picks)
    await post(ana, "/inbox/decide-together", pick=picks, decision="approve")

    assert "it is unusual: decide about it alone" in shown.text
    assert (await desk.desk.request(usual.id)).status == "approved"
    assert (await desk.desk.request(unusual.id)).status == "pending"


async def test_what_cannot_be_undone_has_no_quick_yes(desk: RunningDesk) -> None:
    await desk.waiting_run("Eraser")
    (request,) = await desk.desk.pending()
    ana = await browser(desk)

    card = await card_of(ana, request)
    form = (await ana.get("/inbox", params={"open": request.id, "do": "more"})).text

    assert (request.irreversible, request.summary) == (True, "Erase <b>backup-7</b> for good")
    assert "Erase &lt;b&gt;backup-7&lt;/b&gt; for good" in card
    assert "cannot be undone" in card
    assert 'data-key="a"' not in card
    assert 'class="primary yes"' not in card + form
    assert "Nobody can undo this." in form


async def test_a_desk_without_the_code_knows_the_sentence_and_that_it_is_final(tmp_path: Path) -> None:
    async with running_desk(tmp_path, agents=[eraser()]) as desk:
        await desk.waiting_run("Eraser")
    async with running_desk(tmp_path, agents=[], run=False) as desk:
        (request,) = await desk.desk.pending()

        card = await card_of(await browser(desk), request)

    assert "Erase &lt;b&gt;backup-7&lt;/b&gt; for good" in card
    assert 'data-key="a"' not in card


def test_where_a_value_occurs_earlier_is_said_for_whole_values_alone() -> None:
    earlier = [
        HistoryRow("asked", "web", "Refund order 1042 please", 0),
        HistoryRow("call", "look_up", "order 1042: 4900 cents, mail 24800x", 0),
        HistoryRow("said", "Support", "I pay to DE123", 0),
    ]

    found = origins_of({"order": "1042", "cents": 4900, "more": 24800, "iban": "DE123", "n": 7, "on": True}, earlier)

    assert found == {
        "order": "in what the run was asked",
        "cents": "in the output of look_up",
        "more": "nowhere earlier in this run",
        "iban": "in the agent's own words",
    }

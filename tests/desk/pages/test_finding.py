"""Finding things in the inbox: searching, orders, totals, saved views. Asked over HTTP as a browser does."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.service.search_index import SearchIndex
from tests.desk.pages.test_deciding_pages import browser, post
from tests.support.decided import decided, remembered, waiting
from tests.support.desk_server import RunningDesk, running_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, run=False) as running:
        yield running


def tools(page: str) -> list[str]:
    """The tools of the list, in its order."""
    return re.findall(r'<li class="row[^>]*>.*?class="tool"><bdi[^>]*>(\w+)', page, re.DOTALL)


def totals(page: str) -> str:
    text = re.search(r'<p class="totals">(.*?)</p>', page, re.DOTALL)
    return " ".join(re.sub("<[^>]+>", " ", text[1]).split()) if text else ""


async def test_words_find_what_waits_and_what_was_decided_each_in_a_line_of_its_own(desk: RunningDesk) -> None:
    store = desk.desk.store
    await waiting(store, "Support", "refund", [{"order": f"A{n}"} for n in range(5)])
    await waiting(store, "Support", "mail", [{"to": "berlin@example.com"}])
    await decided(store, "Ops", "deploy", [{"place": "Berlin"}], by="carol")
    await SearchIndex(store).fill()
    ana = await browser(desk)

    waits = (await ana.get("/inbox?q=BERL")).text
    all_of_it = (await ana.get("/inbox?q=berlin&status=all")).text
    alike = (await ana.get("/inbox?q=refund")).text
    nothing = (await ana.get("/inbox?q=berlin+refund")).text

    assert tools(waits) == ["mail"]
    assert totals(waits) == "1 found of 6"
    assert tools(all_of_it) == ["mail", "deploy"]
    assert tools((await ana.get("/inbox?q=carol&status=approved")).text) == ["deploy"]
    assert tools(alike) == ["refund"] * 5
    assert "Nothing found for «berlin refund»." in nothing


async def test_the_list_is_in_the_order_that_was_chosen_and_pages_go_on_in_it(desk: RunningDesk) -> None:
    store = desk.desk.store
    now = SYSTEM_CLOCK.now()
    await remembered(store, "Support", "refund", [{"order": f"{n}", "cents": 100} for n in range(24)])
    await waiting(store, "Support", "refund", [{"order": "7", "cents": 100}], at=now - 500)
    await waiting(store, "Support", "refund", [{"order": "7", "cents": 99999}], at=now - 400)
    await waiting(store, "Ops", "restart", [{"n": 1}], at=now - 300, expires_at=now + 900)
    await waiting(store, "Ops", "drop", [{"n": 1}], at=now - 200, irreversible=True)
    await waiting(store, "Ops", "deploy", [{"n": 1}], at=now - 100, expires_at=now + 300)
    ana = await browser(desk)

    orders = {sort: tools((await ana.get(f"/inbox?sort={sort}")).text) for sort in ("", "newest", "deadline", "risk")}

    assert orders == {
        "": ["refund", "refund", "restart", "drop", "deploy"],
        "newest": ["deploy", "drop", "restart", "refund", "refund"],
        "deadline": ["deploy", "restart", "refund", "refund", "drop"],
        "risk": ["drop", "refund", "restart", "deploy", "refund"],
    }


@pytest.mark.parametrize("sort", ["", "newest", "deadline", "risk"])
async def test_the_pages_of_every_order_show_each_request_once(desk: RunningDesk, sort: str) -> None:
    for n in range(4):
        await waiting(desk.desk.store, "Ops", f"tool{n}", [{"n": each} for each in range(30)])
    ana = await browser(desk)
    address, seen, pages = f"/inbox?view=each&sort={sort}", [], 0
    while address:
        page = (await ana.get(address)).text
        seen += re.findall(r'<li class="row[^>]* data-id="([^"]+)"', page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        address, pages = following[1].replace("&amp;", "&") if following else "", pages + 1

    assert totals(page) == "120 wait"
    assert (len(seen), len(set(seen)), pages) == (120, 120, 3)
    assert (await ana.get("/inbox?cursor=nonsense")).status_code == 422


async def test_filters_can_be_saved_under_a_name_by_each_person_and_forgotten(desk: RunningDesk) -> None:
    ana, ben = await browser(desk), await browser(desk, "ben")

    saved = await post(ana, "/inbox/views", query="agent=Ops&sort=risk", name="<b>Ops</b> first")
    again = await post(ana, "/inbox/views", query="agent=Ops&sort=deadline", name="<b>Ops</b> first")
    hers, his = (await ana.get("/inbox")).text, (await ben.get("/inbox")).text
    await post(ana, "/inbox/views", query="", forget="<b>Ops</b> first")
    nameless = await post(ana, "/inbox/views", query="agent=Ops", name=" ")

    assert (saved.status_code, again.status_code, nameless.status_code) == (303, 303, 422)
    assert hers.count("&lt;b&gt;Ops&lt;/b&gt; first") >= 1
    assert 'href="/inbox?agent=Ops&amp;sort=deadline"' in hers
    assert "first</bdi>" not in his
    assert "&lt;b&gt;" not in (await ana.get("/inbox")).text

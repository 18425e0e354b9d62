"""Standing decisions with ranges, commands and sums over the API, on the form and in the terminal; what reaches further
than what people approved is looked at twice."""

from __future__ import annotations

import asyncio
import json
import re
from html import unescape
from pathlib import Path

import pytest

from placet import Grant
from placet.cli.main import main
from placet.desk import Desk
from placet.gate import Gate
from placet.stores.opening import open_store
from placet.testing import ManualClock
from tests.desk.api.scenes import at, decide, problem, two_refunds
from tests.desk.pages.test_deciding_pages import browser, post
from tests.support.desk_server import PATIENCE, RunningDesk

NARROW = {"order_id": {"one_of": ["1042"]}, "cents": {"min": 4900, "max": 4900}, "reason": {"one_of": ["broken"]}}
BOUNDED = {"agent": "Support", "tool": "refund", "decision": "approve"}


async def test_always_with_bounds_decides_what_is_within_them_and_asks_about_the_rest(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, second) = await two_refunds(server)
    always = {"scope": "agent", "matching": NARROW, "budget": {"sum": "cents", "most": 5000, "every": "day"}}

    found = (await decide(ana, first.id, "approve", always=always)).json()
    waits = await server.desk.pending(run_id=run_id)
    (grant,) = (await ana.get("/v1/grants")).json()["data"]

    assert found["status"] == "approved"
    assert [each.id for each in waits] == [second.id]
    assert grant["matching"] == NARROW
    assert grant["budget"] == [{"sum": "cents", "most": "5000", "every": "day"}]
    assert [(each["most"], each["left"], each["taken"]) for each in grant["left"]] == [("5000", "5000", "0")]


async def test_what_is_left_of_a_budget_is_shown(server: RunningDesk) -> None:
    ana = await server.person("ana")
    made = (await ana.post("/v1/grants", json={**BOUNDED, "budget": {"uses": 3}, "confirm": "refund"})).json()
    run = await server.desk.start("Support", "hi")
    await server.desk.wait(run.id, timeout=PATIENCE)
    (grant,) = (await ana.get("/v1/grants")).json()["data"]

    assert [each["left"] for each in made["left"]] == ["3"]
    assert [(each["taken"], each["left"], each["calls"], each["limit"]) for each in grant["left"]] == [
        ("2", "1", 2, "3 calls")
    ]


async def test_bounds_about_an_argument_that_the_tool_does_not_have_are_refused_and_others_are_shown(
    server: RunningDesk,
) -> None:
    ana, page = await server.person("api"), await browser(server)
    _, (first, _) = await two_refunds(server)
    given = {**BOUNDED, "confirm": "refund"}

    wrong = problem(await ana.post("/v1/grants", json={**given, "matching": {"cens": {"max": 9}}}), 422, "user_error")
    bounds = {"matching": {"cents": {"max": 9}}, "budget": {"uses": 3, "every": "day"}}
    made = await ana.post("/v1/grants", json={**given, **bounds})
    panel = unescape((await page.get("/inbox", params={"open": first.id, "do": "more"})).text)
    audit = unescape((await page.get("/audit")).text)

    assert "takes no argument 'cens'" in wrong["detail"]
    assert made.status_code == 201
    for shown in (panel, audit):
        assert "[null,9]" in shown.replace(" ", "")
        assert 'at most <bdi dir="auto">3 calls a day' in shown


async def test_what_reaches_further_than_what_people_approved_needs_the_tools_name(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    wide = {"scope": "agent", "matching": {"cents": {"max": 100_000}}}

    refused = problem(await decide(ana, first.id, "approve", always=wide), 422, "second_look")
    wrong = problem(await decide(ana, first.id, "approve", always={**wide, "confirm": "yes"}), 422, "second_look")
    still = await server.desk.request(first.id)
    in_this_run = await decide(ana, first.id, "approve", always={**wide, "scope": "run"})
    made = problem(
        await ana.post("/v1/grants", json={**BOUNDED, "matching": {"cents": {"max": 9}}}), 422, "second_look"
    )
    no = await ana.post("/v1/grants", json={**BOUNDED, "decision": "reject"})

    assert "cents may be any to 100000; people approved 4900 to 4900" in refused["detail"]
    assert refused["errors"] == [{"field": "confirm", "message": "type refund"}]
    assert "not the word to type" in wrong["detail"]
    assert still.status == "pending"
    assert (in_this_run.status_code, no.status_code) == (200, 201)
    assert "Nothing was decided" in made["detail"]
    assert [each.verdict for each in await server.desk.grants()] == ["reject"]


async def test_the_form_is_filled_in_and_says_what_it_would_have_decided(server: RunningDesk) -> None:
    ana = await browser(server)
    _, (first, second) = await two_refunds(server)
    await server.desk.decide(second.id, "reject", by="ben")
    api = await server.person("api")

    page = unescape((await ana.get("/inbox/always", params={"open": first.id})).text)
    suggested = (await api.get(at(first.id, "/always"))).json()
    fields = {"open": first.id, "digest": first.digest, "scope": "agent", "until": "24", "every": ""}
    lines = {"kind0": "any", "kind1": "range", "value1": "1", "high1": "90000", "kind2": "any"}
    looked = unescape((await post(ana, "/inbox/always", **fields, **lines, action="look")).text)
    refused = await post(ana, "/inbox/always", **fields, **lines, action="approve")
    silly = await post(ana, "/inbox/always", **fields, **{**lines, "value1": "many"}, action="approve")
    before = await server.desk.request(first.id)
    done = await post(
        ana, "/inbox/always", **fields, **lines, action="approve", confirm="refund", most="90000", sum="cents"
    )
    (grant,) = await server.desk.grants()

    assert re.search(r'name="value1"[^>]*>4900</textarea>', page)
    assert "Of the last call like it, it would have decided 0" in page
    assert suggested["matching"]["cents"] == {"min": 4900, "max": 4900}
    assert suggested["trial"]["wider"] == []
    assert "it would have decided 1, 1 of them against what a person said" in looked
    assert "cents may be 1 to 90000; people approved 4900 to 4900" in looked
    assert (refused.status_code, silly.status_code, before.status) == (422, 422, "pending")
    assert "'many' is no number" in unescape(silly.text)
    assert done.status_code == 303
    assert grant.terms is not None
    assert [(each.argument, each.values) for each in grant.terms.matching] == [("cents", [1, 90000])]
    assert [(each.sum, each.most) for each in grant.terms.budget] == [("cents", "90000")]


async def test_a_form_of_a_request_that_is_decided_or_of_somebody_who_may_not_is_refused(server: RunningDesk) -> None:
    ana, viewer = await browser(server), await browser(server, "vera", "viewer")
    _, (first, _) = await two_refunds(server)
    hidden = await viewer.get("/inbox/always", params={"open": first.id})
    await server.desk.decide(first.id, "reject", by="ben")
    late = await ana.get("/inbox/always", params={"open": first.id})

    assert (hidden.status_code, late.status_code) == (403, 409)


@pytest.fixture
def spent(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    asyncio.run(_spend(url))
    return url


async def _spend(url: str) -> None:
    clock = ManualClock()
    async with (
        open_store(url, clock=clock) as store,
        Desk(store, run=False, clock=clock) as desk,
        Gate(store, guest="jobs", clock=clock) as gate,
    ):
        first = await gate.propose("pay", {"cents": 300}, session="s", call_id="c0")
        bounds = Grant(scope="agent", budget={"sum": "cents", "most": 1000})
        await desk.decide(first.request_id or "", "approve", by="ana", always=bounds)
        await gate.claim(await gate.propose("pay", {"cents": 250}, session="s", call_id="c1"))


def test_placet_grants_shows_a_bar_of_what_is_left(spent: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["grants", "--store", spent])
    shown = capsys.readouterr().out
    main(["grants", "--store", spent, "--json"])
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())

    assert "750 of 1000 cents left" in shown
    assert re.search(r"[█#]{3}[░.]{9}", shown)
    assert found["left"][0]["share"] == 0.25

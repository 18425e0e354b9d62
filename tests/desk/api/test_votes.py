"""Votes over HTTP: groups of users, what is missing, who voted what, on the API and on the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Needs, function_tool
from placet.testing import function_call
from tests.desk.api.scenes import at, decide, problem
from tests.desk.scenes import Planned
from tests.support.desk_server import RunningDesk, running_desk

pytestmark = pytest.mark.promise("P24")


def treasury() -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=Needs(2, group="finance", distinct_from="starter"))
    async def transfer(cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents}"

    return Agent("Treasury", tools=[transfer], model=Planned([function_call("transfer", {"cents": 5}, call_id="t1")]))


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=[treasury()]) as running:
        yield running


async def test_a_vote_is_counted_and_the_answer_says_how_many_are_missing(bank: RunningDesk) -> None:
    root = await bank.person("root", "admin")
    ana, ben, flo = [await bank.person(name) for name in ("ana", "ben", "flo")]
    for name in ("ana", "ben"):
        changed = await root.patch(f"/v1/users/{name}", json={"groups": ["Finance"]})
        assert changed.json()["groups"] == ["finance"]
    run = await bank.waiting_run("Treasury", by="web-form")
    [request] = await bank.desk.pending(run_id=run.id)

    refused = await decide(flo, request.id, "approve")
    before = (await ben.get(at(request.id))).json()
    first = await decide(ana, request.id, "approve", reason="checked")
    repeated = await decide(ana, request.id, "approve")
    of_ana = (await ana.get(at(request.id))).json()
    shown = (await ben.get(at(request.id))).json()
    listed = (await flo.get("/v1/approvals")).json()["data"][0]
    last = await decide(ben, request.id, "approve")

    problem(refused, 403, "access_denied")
    assert (before["missing"], before["your_vote"]) == (2, "leaves 1 missing")
    assert (first.status_code, first.json()["status"], first.json()["missing"]) == (200, "pending", 1)
    assert (first.json()["voted_by"], first.json()["stood_already"]) == ("ana", False)
    assert (repeated.json()["voted_by"], repeated.json()["stood_already"]) == ("ana", True)
    assert (last.json()["voted_by"], last.json()["stood_already"]) == (None, False)
    assert of_ana["your_vote"] == "is counted"
    assert shown["standing"] == "1 of 2 from finance · not web-form, who started it"
    assert (shown["your_vote"], shown["you_may_not"]) == ("completes it", None)
    [vote] = listed["votes"]
    assert (vote["by"], vote["decision"], vote["reason"], vote["via"], vote["assurance"]) == (
        "ana",
        "approve",
        "checked",
        "token",
        "token",
    )
    assert listed["needs"] == "2 of finance, not the starter"
    assert (last.json()["status"], last.json()["missing"]) == ("approved", None)


async def test_who_cannot_vote_reads_why_and_a_vote_can_be_taken_back(bank: RunningDesk) -> None:
    await bank.web.accounts.add_user("dora", "reviewer", groups=["finance"])
    ana, flo = await bank.person("ana"), await bank.person("flo")
    await bank.web.accounts.change_user("ana", groups=["finance"], by="root")
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)
    await decide(ana, request.id, "approve")

    outside = (await flo.get(at(request.id))).json()
    not_theirs = await flo.post(at(request.id, "/revocation"), json={})
    back = await ana.post(at(request.id, "/revocation"), json={"reason": "too hasty"})

    assert "not in finance" in outside["you_may_not"]
    problem(not_theirs, 403, "access_denied")
    assert (back.status_code, back.json()["id"], back.json()["votes"]) == (200, request.id, [])


async def test_the_inbox_and_the_card_say_how_it_stands_in_one_line(bank: RunningDesk) -> None:
    for name in ("ana", "ben"):
        await bank.web.accounts.add_user(name, "reviewer", groups=["finance"])
    run = await bank.waiting_run("Treasury", by="ben")
    [request] = await bank.desk.pending(run_id=run.id)
    await bank.desk.decide(request.id, "approve", by="ana", assurance="password", reason="matches the invoice")
    reader = bank.client()
    cookie, value = await bank.session("ana")
    reader.cookies.set(cookie, value)

    page = (await reader.get("/inbox", params={"open": request.id}, headers={"Accept": "text/html"})).text

    assert page.count("1 of 2 from finance · not ben, who started it") == 2
    assert "matches the invoice" in page
    assert "your yes is counted" in page

"""Who approves, over HTTP and on the pages: rules, delegations, rotations, break-glass and its review."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Needs, function_tool
from placet.desk.asked_changes import CHANGE
from placet.testing import function_call
from placet.testing.desk_contracts import until
from tests.desk.api.scenes import at, decide, problem
from tests.desk.scenes import Planned
from tests.support.desk_server import RunningDesk, running_desk

pytestmark = pytest.mark.promise("P24")


def treasury() -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=Needs(2, group="finance", break_glass="board"))
    async def transfer(cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents}"

    return Agent("Treasury", tools=[transfer], model=Planned([function_call("transfer", {"cents": 5}, call_id="t1")]))


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=[treasury()]) as running:
        for name, groups in (("ana", ["finance"]), ("ben", ["finance"]), ("dora", ["board"]), ("flo", [])):
            await running.web.accounts.add_user(name, "reviewer", groups=groups)
        yield running


def tomorrow() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


async def test_a_vote_is_delegated_shown_cast_and_ended_over_the_api(bank: RunningDesk) -> None:
    ana, flo = await _program(bank, "ana"), await _program(bank, "flo")
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)

    stolen = await flo.post("/v1/delegations", json={"delegate": "flo", "principal": "ben", "until": tomorrow()})
    made = await ana.post("/v1/delegations", json={"delegate": "flo", "until": tomorrow(), "reason": "away"})
    seen = (await flo.get("/v1/delegations")).json()["data"]
    before = (await flo.get(at(request.id))).json()
    cast = await decide(flo, request.id, "approve", on_behalf_of="ana")
    other = await decide(flo, request.id, "approve", on_behalf_of="ben")
    ended = await flo.delete(f"/v1/delegations/{made.json()['id']}")

    problem(stolen, 403, "access_denied")
    assert made.status_code == 201
    assert [(each["principal"], each["delegate"], each["reason"]) for each in seen] == [("ana", "flo", "away")]
    assert before["votes_for"] == {"ana": "leaves 1 missing"}
    assert (cast.status_code, cast.json()["missing"]) == (200, 1)
    assert [(vote["by"], vote["on_behalf_of"]) for vote in cast.json()["votes"]] == [("flo", "ana")]
    problem(other, 403, "access_denied")
    assert ended.status_code == 204


async def test_a_delegate_can_decide_no_more_than_their_principal(bank: RunningDesk) -> None:
    root = await _admin(bank)
    flo = await _program(bank, "flo")
    await root.patch("/v1/users/ana", json={"decides": [{"agent": "Support", "tool": "*"}]})
    await bank.desk.delegate("ana", "flo", until=datetime.now(UTC).timestamp() + 600, by="ana")
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)

    shown = (await flo.get(at(request.id))).json()
    refused = await decide(flo, request.id, "approve", on_behalf_of="ana")

    assert shown["votes_for"] == {}
    problem(refused, 403, "access_denied")


async def test_break_glass_is_offered_told_owed_shown_and_counted(bank: RunningDesk) -> None:
    dora, ben, root = await _program(bank, "dora"), await _program(bank, "ben"), await _admin(bank)
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)

    offered = (await dora.get(at(request.id))).json()
    silent = await decide(dora, request.id, "approve", break_glass=True)
    done = await decide(dora, request.id, "approve", break_glass=True, reason="the shop is down")
    owed = (await ben.get("/v1/reviews")).json()["data"]
    metrics = (await root.get("/metrics")).text
    page = (await _reader(bank, "ben")).get("/inbox", headers={"Accept": "text/html"})
    inbox = (await page).text
    own = await dora.post(f"/v1/reviews/{request.id}", json={"was_right": True})
    given = await ben.post(f"/v1/reviews/{request.id}", json={"was_right": True, "reason": "it was"})
    twice = await ben.post(f"/v1/reviews/{request.id}", json={"was_right": True})
    after = (await root.get("/metrics")).text

    assert (offered["may_break_glass"], offered["your_vote"]) == (True, None)
    problem(silent, 403, "access_denied")
    assert (done.status_code, done.json()["status"]) == (200, "approved")
    assert [(each["by"], each["reason"]) for each in owed] == [("dora", "the shop is down")]
    assert "placet_reviews_owed 1.0" in metrics
    assert "placet_break_glass_total 1.0" in metrics
    assert "1 review is</a>" in inbox or "1 review is owed" in inbox
    problem(own, 403, "access_denied")
    assert given.status_code == 200
    problem(twice, 409, "stale_approval")
    assert "placet_reviews_owed 0.0" in after


async def test_the_page_goes_ahead_alone_only_with_a_note_and_takes_the_review(bank: RunningDesk) -> None:
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)
    dora, ben = await _reader(bank, "dora"), await _reader(bank, "ben")

    card = (await dora.get("/inbox", params={"open": request.id, "do": "more"})).text
    form = {
        "open": request.id,
        "digest": request.digest,
        "decision": "approve",
        "panel": "more",
        "whose": "alone",
        "csrf_token": _csrf(card),
    }
    without = await dora.post("/inbox/decide", data=form)
    still = await bank.desk.request(request.id)
    done = await dora.post("/inbox/decide", data=form | {"reason": "the shop is down"})
    owed = (await ben.get("/approvers")).text
    given = {"csrf_token": _csrf(owed), "id": request.id, "action": "wrong", "reason": "no need"}
    reviewed = await ben.post("/approvers", data=given)

    assert "Go ahead alone." in card
    assert (without.status_code, still.status) == (422, "pending")
    assert "say why" in without.text
    assert done.status_code == 303
    assert (await bank.desk.request(request.id)).status == "approved"
    assert "went ahead alone" in owed
    assert reviewed.status_code == 303
    assert await bank.desk.reviews_owed() == []


async def test_who_is_on_call_stands_in_a_calendar_on_the_page(bank: RunningDesk) -> None:
    root = await _admin(bank)
    ana = await _program(bank, "ana")
    rotation = {"people": ["ana", "ben"], "since": "2026-01-05T09:00", "zone": "Europe/Berlin", "days": 1}

    refused = await ana.put("/v1/rotations/payments", json=rotation)
    strange = await root.put("/v1/rotations/payments", json=rotation | {"people": ["nobody"]})
    made = (await root.put("/v1/rotations/payments", json=rotation)).json()
    page = (await (await _reader(bank, "flo")).get("/approvers")).text

    problem(refused, 403, "access_denied")
    problem(strange, 422, "user_error")
    assert made["on_call"] in ("ana", "ben")
    assert [each["person"] for each in made["shifts"][:2]] in (["ana", "ben"], ["ben", "ana"])
    assert f"payments: <bdi>{made['on_call']}</bdi> now" in page.replace('<bdi dir="auto">payments</bdi>', "payments")
    assert page.count("<td") >= 42


async def test_a_question_of_which_too_few_voters_are_left_is_shown_as_stuck(bank: RunningDesk) -> None:
    run = await bank.waiting_run("Treasury")
    [request] = await bank.desk.pending(run_id=run.id)
    ana = await _program(bank, "ana")
    before = (await ana.get(at(request.id))).json()
    await bank.web.accounts.change_user("ben", is_active=False, by="root")
    await bank.web.accounts.change_user("dora", groups=[], by="root")

    after = (await ana.get(at(request.id))).json()
    page = (await (await _reader(bank, "ana")).get("/inbox", params={"open": request.id})).text

    assert (before["is_stuck"], after["is_stuck"]) == (False, True)
    assert "Too few people are left" in page
    assert "stuck: too few people are left · 0 of 2 from finance" in page


DESK_RULE = {"agent": "desk/*", "tool": "*", "needs": [{"from": ["board"], "distinct_from": ["starter"]}]}


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_where_the_desk_is_set_so_a_change_of_who_may_decide_waits_for_votes(
    bank: RunningDesk, verdict: str
) -> None:
    await bank.web.accounts.add_user("root", "admin", groups=["board"])
    root, dora = await _program(bank, "root"), await _program(bank, "dora")
    first = (await root.put("/v1/approvers", json=DESK_RULE)).json()
    wanted = {"agent": "Treasury", "tool": "*", "needs": [{"approve": 2, "from": ["finance"]}]}

    asked = (await root.put("/v1/approvers", json=wanted | {"reason": "the auditors asked"})).json()
    member = (await root.patch("/v1/users/flo", json={"groups": ["finance"]})).json()
    waiting = await bank.desk.pending()
    own = [await decide(root, each.id, "approve") for each in waiting]
    before = (await root.get("/v1/approvers")).json()["data"]
    for each in waiting:
        await decide(dora, each.id, verdict)

    async def is_over() -> bool:
        return await bank.desk.store.records(CHANGE) == []

    await until(is_over)
    after = (await root.get("/v1/approvers")).json()["data"]
    flo = await bank.web.accounts.user("flo")
    acts = (await root.get("/v1/operators")).json()["data"]

    assert first["asked"] is None
    assert asked["asked"] in [each.id for each in waiting]
    assert [each.tool for each in waiting] == ["approvers.set", "groups.set"]
    assert member["groups"] == []
    assert [each.status_code for each in own] == [403, 403]
    assert [each["agent"] for each in before] == ["desk/*"]
    assert flo is not None
    if verdict == "approve":
        assert [each["agent"] for each in after] == ["desk/*", "Treasury"]
        assert flo.groups == ("finance",)
        assert ("approvers set", "root", "the auditors asked") in [(e["what"], e["by"], e["why"]) for e in acts]
    else:
        assert [each["agent"] for each in after] == ["desk/*"]
        assert flo.groups == ()


async def _admin(bank: RunningDesk) -> Any:
    return await bank.person("root", "admin")


async def _program(bank: RunningDesk, name: str) -> Any:
    token, _ = await bank.web.accounts.add_token(name, "tests")
    return bank.client(token)


async def _reader(bank: RunningDesk, name: str) -> Any:
    reader = bank.client()
    cookie, value = await bank.session(name)
    reader.cookies.set(cookie, value)
    reader.headers["Accept"] = "text/html"
    return reader


def _csrf(page: str) -> str:
    return page.split('name="csrf_token" value="', 1)[1].split('"', 1)[0]

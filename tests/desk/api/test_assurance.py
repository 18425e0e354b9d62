"""Through which door a decision, vote or grant came and how sure it is who it was: recorded, shown, and demanded in one
place for all doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet import AccessDenied, Agent, Grant, Needs, Runner, function_tool
from placet.cli.main import main
from placet.core.log import read_lines
from placet.desk import DeskRequest
from placet.facts.events import DecisionMade, GrantMade
from placet.service.records import records
from placet.testing import function_call
from tests.desk.api.scenes import at, decide, problem
from tests.desk.pages.test_deciding_pages import browser, post
from tests.desk.scenes import PATIENCE, Planned
from tests.support.desk_server import RunningDesk, running_desk

pytestmark = pytest.mark.promise("P25")


def bank(approvers: Needs | None) -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=approvers)
    async def transfer(cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents}"

    calls = [function_call("transfer", {"cents": cents}, call_id=f"t{cents}") for cents in (5, 6)]
    return Agent("Bank", tools=[transfer], model=Planned(calls))


@pytest.fixture(params=["sqlite", "postgresql"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    url = request.getfixturevalue("postgres").store_database() if request.param == "postgresql" else None
    async with running_desk(tmp_path, url=url, agents=[bank(None)]) as running:
        yield running


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """Whoever decides here has to have said a password."""
    async with running_desk(tmp_path, agents=[bank(Needs(1, assurance="password"))]) as running:
        yield running


async def two_requests(desk: RunningDesk) -> tuple[DeskRequest, DeskRequest]:
    run = await desk.waiting_run("Bank")
    first, second = await desk.desk.pending(run_id=run.id)
    return first, second


async def facts(desk: RunningDesk, run_id: str) -> list[Any]:
    stored = await desk.desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return [fact for record in read_lines(stored.log.lines) for fact in record.facts]


# -- recorded and shown -----------------------------------------------------------------------------------------------


async def test_a_decision_says_through_which_door_it_came_and_how_sure_that_is(desk: RunningDesk) -> None:
    first, second = await two_requests(desk)
    ana, ben = await desk.person("ana"), await browser(desk, "ben")
    by_token = (await decide(ana, first.id, "approve")).json()
    await post(ben, "/inbox/decide", open=second.id, digest=second.digest, decision="reject")
    decided = [fact for fact in await facts(desk, first.run_id) if isinstance(fact, DecisionMade)]
    shown = (await ana.get(at(second.id))).json()
    listed = {row["id"]: row for row in (await ana.get("/v1/approvals?status=all")).json()["data"]}
    card = (await ben.get(f"/inbox?open={second.id}&status=all")).text
    audit = (await ben.get("/audit")).text
    told = [entry async for entry in records(desk.desk.store, first.run_id)]

    assert [(fact.by, fact.via, fact.assurance) for fact in decided] == [
        ("ana", "token", "token"),
        ("ben", "session", "password"),
    ]
    assert (by_token["decided_via"], by_token["assurance"]) == ("token", "token")
    assert (shown["decided_via"], shown["assurance"]) == ("session", "password")
    assert [(listed[each.id]["decided_via"], listed[each.id]["assurance"]) for each in (first, second)] == [
        ("token", "token"),
        ("session", "password"),
    ]
    assert "Known by a password." in card
    assert "by a token" in audit
    assert [(each.by, each.via, each.assurance) for each in told if each.what in ("approved", "rejected")] == [
        ("ana", "token", "token"),
        ("ben", "session", "password"),
    ]


async def test_a_standing_decision_keeps_its_door_and_gives_it_to_what_it_decides(desk: RunningDesk) -> None:
    first, second = await two_requests(desk)
    ben = await browser(desk, "ben")
    given = {"open": first.id, "digest": first.digest, "decision": "approve", "panel": "more", "always": "agent"}
    await post(ben, "/inbox/decide", **given, confirm=first.tool)
    await desk.desk.wait(first.run_id, timeout=PATIENCE)
    said = await facts(desk, first.run_id)
    grants = [fact for fact in said if isinstance(fact, GrantMade)]
    decided = [fact for fact in said if isinstance(fact, DecisionMade)]

    assert [(grant.via, grant.assurance) for grant in grants] == [("session", "password")]
    assert [(fact.grant is None, fact.via, fact.assurance) for fact in decided] == [
        (True, "session", "password"),
        (False, "session", "password"),
    ]
    assert decided[1].call == second.call


async def test_a_grant_over_the_api_and_in_the_export(desk: RunningDesk) -> None:
    ana = await desk.person("ana")
    made = await ana.post(
        "/v1/grants", json={"agent": "Bank", "tool": "transfer", "decision": "approve", "confirm": "transfer"}
    )
    (listed,) = (await ana.get("/v1/grants")).json()["data"]
    told = [entry async for entry in records(desk.desk.store, "operators") if entry.what == "grant made"]

    assert (made.json()["via"], made.json()["assurance"]) == ("token", "token")
    assert (listed["via"], listed["assurance"]) == ("token", "token")
    assert [(entry.via, entry.assurance) for entry in told] == [("token", "token")]


async def test_a_program_and_a_state_are_a_name_alone(desk: RunningDesk, capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = await two_requests(desk)
    await desk.desk.decide(first.id, "approve", by="ana")
    result = await Runner.run(bank(None), "pay")
    state = result.to_state()
    state.approve(state.get_interruptions()[0], by="ana")
    row = await desk.desk.request(first.id)
    decided = [fact for fact in await facts(desk, first.run_id) if isinstance(fact, DecisionMade)]

    assert (row.decided_via, row.assurance) == (None, "none")
    assert [(fact.via, fact.assurance) for fact in decided] == [(None, "none")]


async def test_the_commands_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running_desk(tmp_path, agents=[bank(None)]) as desk:
        first, _ = await two_requests(desk)
        await decide(await desk.person("ana"), first.id, "approve")
    store = f"sqlite:///{tmp_path / 'placet.db'}"
    await asyncio.to_thread(main, ["audit", "list", "--store", store])
    lines = capsys.readouterr().out
    await asyncio.to_thread(main, ["audit", "list", "--json", "--store", store])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    await asyncio.to_thread(main, ["show", first.id, "--store", store])
    card = capsys.readouterr().out

    assert "by ana (by a token)" in lines
    assert [(row["via"], row["assurance"]) for row in rows if row["what"] == "approved"] == [("token", "token")]
    assert "by ana (by a token)" in card


# -- demanded ---------------------------------------------------------------------------------------------------------


async def test_below_the_least_assurance_no_door_decides_and_the_session_does(strict: RunningDesk) -> None:
    first, second = await two_requests(strict)
    ana, ben = await strict.person("ana"), await browser(strict, "ben")

    by_token = await decide(ana, first.id, "approve")
    edit = await decide(ana, first.id, "edit", arguments={"cents": 4})
    always = await decide(ana, first.id, "approve", always=True)
    with pytest.raises(AccessDenied, match="below «password»"):
        await strict.desk.decide(first.id, "approve", by="ben")
    with pytest.raises(AccessDenied, match="below «password»"):
        await strict.desk.decide(first.id, "approve", by="ben", always=Grant(scope="agent"))
    still = [row.status for row in await strict.desk.pending(run_id=first.run_id)]
    by_session = await post(ben, "/inbox/decide", open=first.id, digest=first.digest, decision="approve")
    kept = await strict.desk.request(first.id)

    for refused in (by_token, edit, always):
        assert "«token» is below «password»" in problem(refused, 403, "access_denied")["detail"]
    assert still == ["pending", "pending"]
    assert by_session.status_code in (200, 303)
    assert (kept.status, kept.assurance) == ("approved", "password")
    assert (await strict.desk.request(second.id)).status == "pending"


@pytest.mark.parametrize(("door", "covers"), [("token", False), ("session", True)])
async def test_a_standing_decision_covers_only_what_its_author_could_have_decided_that_way(
    strict: RunningDesk, door: str, covers: bool
) -> None:
    assurance: Any = {"token": "token", "session": "password"}[door]
    await strict.desk.grant("Bank", "transfer", "approve", by="ana", via=door, assurance=assurance)
    run = await strict.desk.start("Bank", "pay", by="web-form")
    await strict.desk.wait(run.id, until="paused", timeout=PATIENCE)
    waiting = await strict.desk.pending(run_id=run.id)

    assert len(waiting) == (0 if covers else 2)


async def test_where_several_decide_the_least_sure_vote_is_what_is_said(tmp_path: Path) -> None:
    async with running_desk(tmp_path, agents=[bank(Needs(2))]) as desk:
        first, _ = await two_requests(desk)
        await decide(await desk.person("ana"), first.id, "approve")
        await post(await browser(desk, "ben"), "/inbox/decide", open=first.id, digest=first.digest, decision="approve")
        kept = await desk.desk.request(first.id)

    assert (kept.status, kept.decided_by, kept.decided_via, kept.assurance) == ("approved", "ben", "session", "token")
    assert [(vote.by, vote.via, vote.assurance) for vote in kept.votes] == [
        ("ana", "token", "token"),
        ("ben", "session", "password"),
    ]

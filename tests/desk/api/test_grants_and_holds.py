"""Standing decisions and holds that would surprise somebody: contradicting, over, or about what nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Grant
from placet.desk.web.grant_checks import would_decide
from tests.desk.api.scenes import decide, problem, two_refunds
from tests.support.desk_server import RunningDesk, running_desk

GRANT = {"agent": "Support", "tool": "refund", "decision": "approve", "confirm": "refund"}


async def test_a_standing_decision_that_contradicts_another_names_it_and_the_newer_one_wins(
    any_server: RunningDesk,
) -> None:
    ana, ben = await any_server.person("ana"), await any_server.person("ben")
    first = (await ana.post("/v1/grants", json=GRANT)).json()
    second = (await ben.post("/v1/grants", json={**GRANT, "decision": "reject"})).json()

    run = await any_server.desk.start("Support", "hi")
    await any_server.desk.wait(run.id, timeout=120)
    decided = (await any_server.desk.requests(status=None, run_id=run.id)).rows

    (warning,) = second["warnings"]
    assert first["warnings"] == []
    assert warning.startswith(f"It contradicts {first['id']}, by which ana has such calls approved: the newer one wins")
    assert f"placet grants revoke {first['id']}" in warning
    assert {row.status for row in decided} == {"rejected"}


async def test_what_a_standing_decision_decided_says_so_and_whose_it_was(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    run_id, (first, second) = await two_refunds(any_server)
    would = [
        await would_decide(any_server.web, first),
        await would_decide(any_server.web, first, "reject", Grant(scope="agent")),
        await would_decide(any_server.web, first, always=Grant(arguments={"order_id": "nobody's"})),
        await would_decide(any_server.web, first, always=False),
    ]
    await decide(ana, first.id, "approve", always=True)
    await any_server.desk.wait(run_id, timeout=120)
    by_hand, by_grant = [await any_server.desk.request(each.id) for each in (first, second)]
    shown = {each["id"]: each for each in (await ana.get("/v1/approvals", params={"status": "all"})).json()["data"]}

    assert would == [[second.id], [second.id], [], []]
    assert (by_hand.status, by_hand.decided_by, by_hand.grant) == ("approved", "ana", None)
    assert (by_grant.status, by_grant.decided_by) == ("approved", "ana")
    assert by_grant.grant is not None
    assert by_grant.grant.startswith("grant_")
    assert [shown[each.id]["grant"] for each in (first, second)] == [None, by_grant.grant]


@pytest.mark.parametrize(
    ("standing", "made", "contradicts"),
    [
        ({}, {"arguments": {"cents": 1}}, True),
        ({"arguments": {"cents": 1}}, {"arguments": {"cents": 2}}, False),
        ({"arguments": {"cents": 1}}, {"arguments": {"order_id": "7"}}, True),
        ({"decision": "reject"}, {}, False),
    ],
)
async def test_only_those_that_can_reach_the_same_call_contradict_each_other(
    server: RunningDesk, standing: Any, made: Any, contradicts: bool
) -> None:
    ana = await server.person("ana")
    await ana.post("/v1/grants", json={**GRANT, **standing})

    found = (await ana.post("/v1/grants", json={**GRANT, "decision": "reject", **made})).json()

    assert bool(found["warnings"]) is contradicts


async def test_one_that_ends_says_that_the_older_one_decides_again(server: RunningDesk) -> None:
    ana = await server.person("ana")
    await ana.post("/v1/grants", json=GRANT)

    found = (await ana.post("/v1/grants", json={**GRANT, "decision": "reject", "uses": 2})).json()

    assert "when it ends, the older one decides again" in found["warnings"][0]


async def test_always_that_contradicts_what_stands_is_remarked_on_with_the_decision(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, second) = await two_refunds(server)
    await decide(ana, first.id, "approve", always={"arguments": {"order_id": "nobody's"}})

    plain = (await decide(ana, second.id, "reject")).json()
    always = (await decide(ana, second.id, "reject", always=True)).json()

    assert plain["warnings"] == []
    assert "has such calls approved in this run" in always["warnings"][0]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"agent": "Suport"}, "agent", "It has: Support, Archivist, Hostile"),
        ({"tool": "refnd"}, "tool", "Agent 'Support' has no tool 'refnd'. It has: refund, look_up."),
        ({"arguments": {"cent": 1}}, "arguments", "takes no argument 'cent'"),
        ({"until": "2020-01-01T00:00:00Z"}, "until", "over already"),
    ],
)
async def test_one_that_no_call_could_meet_is_refused_in_words(
    server: RunningDesk, changes: Any, field: str, words: str
) -> None:
    ana = await server.person("ana")

    found = problem(await ana.post("/v1/grants", json={**GRANT, **changes}), 422, "user_error")

    assert words in found["detail"]
    assert [each["field"] for each in found["errors"]] == [field]
    assert (await ana.get("/v1/grants")).json()["data"] == []


async def test_always_until_a_time_that_is_over_decides_nothing(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    over = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    found = await decide(ana, first.id, "approve", always={"scope": "agent", "until": over})

    assert "over already" in problem(found, 422, "user_error")["detail"]
    assert (await server.desk.request(first.id)).status == "pending"


async def test_one_about_calls_that_nobody_is_asked_about_says_what_to_do_instead(server: RunningDesk) -> None:
    ana = await server.person("ana")

    found = (await ana.post("/v1/grants", json={**GRANT, "tool": "look_up", "decision": "reject"})).json()
    ill = (await ana.post("/v1/grants", json={**GRANT, "arguments": {"cents": "many"}})).json()

    assert "placet grants hold tool look_up" in found["warnings"][0]
    assert "cents: should be integer" in ill["warnings"][0]


async def test_a_desk_without_the_agents_code_says_how_a_standing_decision_is_made(tmp_path: Path) -> None:
    async with running_desk(tmp_path, agents=[], run=False) as server:
        ana = await server.person("ana")
        found = problem(await ana.post("/v1/grants", json=GRANT), 422, "user_error")

    assert "--agents MODULE:NAME" in found["detail"]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("tool", "refund", None),
        ("tool", "Support.refund", None),
        ("agent", "Support", None),
        ("tool", "refnd", "This desk knows no tool 'refnd'"),
        ("agent", "Suport", "It knows: Support, Archivist, Hostile"),
        ("run", "run_nope", "There is no run 'run_nope'"),
    ],
)
async def test_a_hold_on_what_nobody_knows_stands_and_is_remarked_on(
    server: RunningDesk, kind: str, name: str, words: str | None
) -> None:
    ana = await server.person("ana")

    found = (await ana.post("/v1/holds", json={"kind": kind, "name": name})).json()

    assert [each["name"] for each in found["data"]] == [name]
    assert [words in each for each in found["warnings"] if words] == ([True] if words else found["warnings"])


async def test_without_the_agents_code_what_was_asked_about_is_known(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as server:
        await server.waiting_run()
    async with running_desk(tmp_path, agents=[], run=False) as server:
        ana = await server.person("ana")
        known = (await ana.post("/v1/holds", json={"kind": "tool", "name": "refund"})).json()
        unknown = (await ana.post("/v1/holds", json={"kind": "agent", "name": "Suport"})).json()

    assert known["warnings"] == []
    assert "check it" in unknown["warnings"][0]

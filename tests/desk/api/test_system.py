"""Agents, health, figures, the description of the API; and errors of ours."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from placet.desk.api.v1 import openapi
from placet.desk.app import create_app
from placet.desk.desk import Desk
from placet.facts.errors import StoreError
from tests.desk.api.scenes import decide, problem, two_refunds
from tests.support.desk_server import RunningDesk, running_desk

PATIENCE = 90


async def test_agents_are_listed_with_the_schemas_of_their_tools(server: RunningDesk) -> None:
    vic = await server.person("vic", "viewer")
    agents = (await vic.get("/v1/agents")).json()["data"]

    support = next(agent for agent in agents if agent["name"] == "Support")
    refund, look_up = support["tools"]
    assert (refund["name"], refund["needs_approval"], look_up["needs_approval"]) == ("refund", True, False)
    assert refund["parameters"]["required"] == ["order_id", "cents", "reason"]


async def test_a_store_that_is_away_is_not_ready_and_not_a_500(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await server.person("ana")

    async def away(*_: object) -> int:
        raise StoreError("PostgreSQL cannot be reached: see whether it runs, and try again.")

    monkeypatch.setattr(server.desk.store, "latest_sequence", away)
    monkeypatch.setattr(server.desk.store, "runs", away)
    not_ready, alive, listing = await ana.get("/readyz"), await ana.get("/healthz"), await ana.get("/v1/runs")

    problem(not_ready, 503, "not_ready")
    assert alive.status_code == 200
    problem(listing, 503, "store_error")
    assert "retry-after" in listing.headers


async def test_a_desk_whose_engine_stopped_is_not_ready_and_one_that_only_looks_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with running_desk(tmp_path / "a", run=False) as server:
        looking = await server.client().get("/readyz")
    async with running_desk(tmp_path) as server:
        assert server.desk._serving is not None
        server.desk._serving.cancel()
        await asyncio.gather(server.desk._serving, return_exceptions=True)
        stopped = await server.client().get("/readyz")

    assert looking.json()["drives_runs"] is False
    problem(stopped, 503, "not_ready")


async def test_figures_are_what_prometheus_reads(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    await decide(ana, first.id, "approve")
    await decide(ana, first.id, "reject")
    answer = await ana.get("/metrics")
    lines = answer.text.splitlines()

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "placet_runs_waiting 1.0" in lines
    assert "placet_requests_pending 1.0" in lines
    assert 'placet_decisions_total{outcome="taken",verdict="approve"} 1.0' in lines
    assert 'placet_decisions_total{outcome="refused",verdict="reject"} 1.0' in lines
    assert any(line.startswith('placet_http_requests_total{method="POST",route="/v1/approvals/') for line in lines)
    sample = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+$')
    assert [line for line in lines if not line.startswith("# ") and not sample.match(line)] == []
    assert float(next(line.split()[1] for line in lines if line.startswith("placet_requests_oldest_seconds "))) >= 0


async def test_the_description_names_every_route_and_nothing_else(server: RunningDesk) -> None:
    found = (await server.client().get("/openapi.json")).json()
    described = {(path, method.upper()) for path, methods in found["paths"].items() for method in methods}
    app = create_app(Desk(server.desk.store, run=False), pages=[])
    routed = {
        (re.sub(r":path\}", "}", route.path), method)
        for route in app.routes
        if isinstance(route, Route) and route.path != "/openapi.json"
        for method in route.methods or ()
        if method != "HEAD"
    }

    assert found["openapi"] == "3.1.0"
    assert found == json.loads(openapi())
    assert described == routed


async def test_an_error_of_ours_is_a_problem_too_and_tells_nothing(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await server.person("ana")

    async def broken(*_: object) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(server.desk.store, "grants", broken)
    answer = await ana.get("/v1/grants")

    assert "42" not in problem(answer, 500, "internal_error")["detail"]


async def test_holds_keep_calls_from_starting_and_are_listed_with_who_placed_them(server: RunningDesk) -> None:
    ana, root = await server.person("ana"), await server.person("root", "admin")
    run_id, (first, second) = await two_refunds(server)
    placed = await ana.post("/v1/holds", json={"kind": "tool", "name": "refund", "reason": "the bank is down"})
    for each in (first, second):
        await decide(ana, each.id, "approve")
    held = (await ana.get(f"/v1/runs/{run_id}")).json()
    ben = await server.person("ben")
    not_his = await ben.delete("/v1/holds", params={"kind": "tool", "name": "refund"})
    released = await root.delete("/v1/holds", params={"kind": "tool", "name": "refund"})
    run = await server.desk.wait(run_id, timeout=PATIENCE)

    assert (placed.status_code, placed.json()["data"][0]["by"]) == (201, "ana")
    assert held["status"] == "running"
    problem(not_his, 403, "access_denied")
    assert released.status_code == 204
    assert run.status == "ended"
    problem(await root.delete("/v1/holds", params={"kind": "tool", "name": "refund"}), 404, "not_found")


async def test_a_standing_decision_decides_later_calls_and_a_tool_that_is_not_there_has_none(
    any_server: RunningDesk,
) -> None:
    ana = await any_server.person("ana")
    given = {"agent": "Support", "tool": "refund", "decision": "reject", "message": "No refunds today."}
    made = await ana.post("/v1/grants", json=given)
    run = await any_server.desk.start("Support", "hi")
    run = await any_server.desk.wait(run.id, timeout=PATIENCE)
    log = (await ana.get(f"/v1/runs/{run.id}/log", params={"limit": 200})).json()
    missing = await ana.post("/v1/grants", json={**given, "tool": "nothing"})

    assert made.status_code == 201
    ended = [fact["data"] for line in log["data"] for fact in line["facts"] if fact["kind"] == "call_ended"]
    assert [each["output"] for each in ended if each["outcome"] == "rejected"] == ["No refunds today."] * 2
    problem(missing, 422, "user_error")

"""Guests' sessions at the desk: pages, commands, audit, erasure and engines treat them as runs."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from placet import AccessDenied, Agent
from placet.cli.main import main
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.desk.app import create_app
from placet.desk.web.settings import WebSettings
from placet.facts.ids import split_call_id
from placet.gate import CallNotFound, Gate
from placet.service.audit import verify
from placet.service.doctor import examine
from placet.service.guest_limits import GuestLimits
from placet.service.records import records
from tests.gate.scenes import RemoteScene, Scene, embedded_scene, remote_scene, serving

PATIENCE = 90.0


async def settled(scene: Scene, gate: Gate) -> str:
    """A session in which one call was approved and reported, one rejected, and one was in doubt and given up."""
    calls = [await gate.propose("refund", {"order": str(n)}, session="s", call_id=f"c{n}") for n in range(3)]
    await scene.decide(calls[0].request_id or "", "approve", reason="fine")
    await scene.decide(calls[1].request_id or "", "reject")
    await scene.decide(calls[2].request_id or "", "approve")
    await gate.report(await gate.claim(calls[0]), "finished", "paid")
    await gate.claim(calls[2], lease=10)
    scene.clock.advance(11)
    await scene.sweep()
    doubtful = await gate.look(calls[2])
    await scene.decide(doubtful.request_id or "", "reject")
    await gate.close("s")
    return split_call_id(calls[0].id)[0]


def command(*arguments: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        main(list(arguments))
    return out.getvalue()


async def test_show_the_record_and_the_audit_tell_of_a_guests_session(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    async with embedded_scene(url) as scene, scene.gate() as gate:
        run_id = await settled(scene, gate)
        told = [entry.what async for entry in records(scene.store, run_id)]
        problems = [each async for each in verify(scene.store)]
        shown = await asyncio.to_thread(command, "show", run_id, "--store", url)

    assert told == [
        "approved",
        "rejected",
        "approved",
        "effect begun",
        "effect over",
        "effect begun",
        "in doubt",
        "rejected",
        "effect over",
    ]
    assert [each for each in problems if not each.is_whole] == []
    assert "refund" in shown
    assert "in doubt" in shown


async def test_an_ended_session_is_erased_and_its_chain_still_verifies(tmp_path: Path) -> None:
    async with embedded_scene(f"sqlite:///{tmp_path / 'placet.db'}") as scene, scene.gate() as gate:
        run_id = await settled(scene, gate)
        await scene.desk.erase(run_id, by="ops")
        stored = await scene.store.load(run_id)
        anew = await gate.propose("refund", {"order": "9"}, session="s", call_id="c9")

        assert stored is not None
        assert stored.log is not None
        assert stored.log.verify()
        assert b"refund" not in b"".join(stored.log.lines)
        assert anew.status == "waiting"


async def test_a_question_of_a_guest_escalates_and_waits_on() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c", decide_within=60, at_deadline="escalate")
        scene.clock.advance(61)
        await scene.sweep()
        (request,) = await scene.desk.pending()

        assert request.escalated_at is not None
        assert (await gate.look(call)).status == "waiting"
        await scene.decide(request.id, "approve")
        assert (await gate.wait(call, 30)).status == "claimable"


async def test_no_engine_drives_a_guests_session_and_it_is_no_news_for_one(tmp_path: Path) -> None:
    async with embedded_scene(f"sqlite:///{tmp_path / 'placet.db'}") as scene, scene.gate() as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c")
        await scene.decide(call.request_id or "", "approve")
        await gate.claim(call)
        run = await scene.store.run(split_call_id(call.id)[0])
        findings = [each async for each in examine(scene.store, [Agent("Somebody")])]

        assert run is not None
        assert (run.has_news, run.is_driven) == (False, False)
        assert await scene.store.runnable(scene.clock.now(), 10) == []
        assert (await scene.store.numbers()).due == 0
        assert [each.findings for each in findings] == [[]]


@pytest.mark.promise("P8")
async def test_a_desk_may_ask_about_every_call_whatever_its_guest_says(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'placet.db'}"
    async with Gate(store, guest="jobs", limits=GuestLimits(passes=False)) as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c", needs_approval=False)

        assert call.status == "waiting"


async def test_four_eyes_hold_for_the_calls_of_a_guest() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        await scene.desk.demand_four_eyes([("python/*", "refund")], by="ops")
        call = await gate.propose("refund", {}, session="s", call_id="c")

        with pytest.raises(AccessDenied, match="four eyes"):
            await scene.desk.decide(call.request_id or "", "approve", by="jobs")
        with pytest.raises(AccessDenied, match="not known who answers for guest jobs"):
            await scene.desk.decide(call.request_id or "", "approve", by="ana")
        accounts = Accounts(scene.store, scene.clock)
        for name, same_as in (("root", None), ("ana", None), ("ben", None), ("ben-at-night", "ben")):
            await accounts.add_user(name, "admin", same_as=same_as)
        await accounts.add_user("jobs", "guest", owner="ben", by="root")
        for owner in ("ben", "ben-at-night"):
            with pytest.raises(AccessDenied, match="answers for guest jobs"):
                await scene.desk.decide(call.request_id or "", "approve", by=owner)
        await scene.desk.decide(call.request_id or "", "approve", by="ana")
        assert (await gate.claim(call)).call.id == call.id


async def test_a_late_report_is_an_alarm_and_stands_in_the_record(caplog: pytest.LogCaptureFixture) -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c", needs_approval=False)
        first = await gate.claim(call, lease=10)
        scene.clock.advance(11)
        await scene.sweep()
        await scene.decide((await gate.look(call)).request_id or "", "approve")
        await gate.claim(await gate.wait(call, 30))
        with caplog.at_level(logging.ERROR, "placet.gate"):
            await gate.report(first, "finished", "twice?")
        told = [entry.what async for entry in records(scene.store, split_call_id(call.id)[0])]

        assert [getattr(each, "action", None) for each in caplog.records] == ["late_report"]
        assert "reported late" in told


async def test_a_late_report_to_an_ended_session_stands_in_the_operators_log_once_and_without_its_output(
    tmp_path: Path,
) -> None:
    async with embedded_scene(f"sqlite:///{tmp_path / 'placet.db'}") as scene, scene.gate() as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c", needs_approval=False)
        permit = await gate.claim(call, lease=10)
        scene.clock.advance(11)
        await scene.sweep()
        await scene.decide((await gate.look(call)).request_id or "", "reject")
        await gate.close("s")
        for number in range(3):
            await gate.report(permit, "failed", f"not paid {number}")
        run_id = split_call_id(call.id)[0]
        await scene.desk.erase(run_id, by="ops")
        told = [(entry.what, entry.by) async for entry in records(scene.store, "operators")]
        problems = [each async for each in verify(scene.store) if not each.is_whole]

        assert told.count(("reported after the end", "jobs")) == 1
        assert problems == []
        assert b"not paid" not in b"".join((await scene.store.operators_log()).lines)
        with pytest.raises(CallNotFound):
            await gate.report(permit, "finished", "paid")


# -- pages and API -----------------------------------------------------------------------------------------------------


async def _as(scene: RemoteScene, name: str, role: Any) -> httpx2.AsyncClient:
    await scene.accounts.add_user(name, role)
    token, _ = await scene.accounts.add_token(name, "a test")
    return httpx2.AsyncClient(base_url=scene.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)


async def test_the_card_of_a_host_without_edits_has_no_edit_button_and_the_run_page_shows_the_session() -> None:
    schema = {"type": "object", "properties": {"order": {"type": "string", "description": "The order's number."}}}
    async with remote_scene("sqlite://:memory:") as scene, scene.gate(edits=False) as gate:
        given: Any = {"session": "s", "call_id": "c", "schema": schema, "context": "She asked."}
        call = await gate.propose("refund", {"order": "7"}, **given)
        async with await _as(scene, "ana", "reviewer") as ana:
            card = (await ana.get("/inbox", params={"open": call.request_id}, headers={"Accept": "text/html"})).text
            page = await ana.get(f"/runs/{split_call_id(call.id)[0]}", headers={"Accept": "text/html"})
            detail = (await ana.get(f"/v1/approvals/{quote(call.request_id or '', safe='')}")).json()

        assert "Answer…" in card
        assert "Edit…" not in card
        assert "python/jobs" in card
        assert page.status_code == 200
        assert "refund" in page.text
        assert detail["parameters"] == schema


async def test_a_guest_reaches_the_gate_and_nothing_else() -> None:
    async with remote_scene("sqlite://:memory:") as scene, await _as(scene, "jobs", "guest") as client:
        paths = ["/v1/approvals", "/v1/runs", "/v1/me", "/v1/events", "/metrics", "/inbox", "/", "/v1/users"]
        answers = {path: (await client.get(path)).status_code for path in paths}
        decided = await client.post("/v1/approvals/x/decisions", json={"decision": "approve"})
        proposed = await client.post(
            "/v1/gate/calls", json={"tool": "t", "arguments": {}, "session": "s", "call_id": "c"}
        )

        assert set(answers.values()) == {403}
        assert decided.status_code == 403
        assert proposed.status_code == 200


@pytest.mark.parametrize("role", ["viewer", "reviewer", "admin"])
async def test_nobody_but_a_guest_proposes_calls(role: str) -> None:
    async with remote_scene("sqlite://:memory:") as scene, await _as(scene, "ana", role) as ana:
        answer = await ana.post("/v1/gate/calls", json={"tool": "t", "arguments": {}, "session": "s", "call_id": "c"})

        assert (answer.status_code, answer.json()["code"]) == (403, "access_denied")
        assert (await scene.desk.runs()).rows == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"tool": "t"}, 422, "invalid_request"),
        ({"arguments": []}, 422, "invalid_request"),
        ({"schema": {"type": "nonsense"}}, 422, "invalid_proposal"),
        ({"arguments": {"a": "x" * 300_000}}, 413, "limit_exceeded"),
        ({"arguments": {"a": "x" * 1_100_000}}, 413, "too_large"),
        ({"arguments": {"a": "x" * 10_000_000}}, 413, "too_large"),
        ({"more": 1}, 422, "invalid_request"),
        ({"source": "a/b"}, 422, "invalid_request"),
    ],
    ids=["incomplete", "list", "schema", "large", "huge", "ten-megabytes", "unknown", "source"],
)
async def test_bad_proposals_are_problems_with_a_stable_code_and_nothing_is_stored(
    body: dict[str, Any], status: int, code: str
) -> None:
    whole = {"tool": "t", "arguments": {}, "session": "s", "call_id": "c"}
    async with remote_scene("sqlite://:memory:") as scene, await _as(scene, "jobs", "guest") as client:
        answer = await client.post("/v1/gate/calls", json=body if body == {"tool": "t"} else whole | body)

        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert (await scene.desk.runs()).rows == []


async def test_a_claim_whose_answer_was_lost_is_asked_for_again_under_its_key() -> None:
    async with remote_scene("sqlite://:memory:") as scene, await _as(scene, "jobs", "guest") as client:
        given = {"tool": "t", "arguments": {}, "session": "s", "call_id": "c", "needs_approval": False}
        path = f"/v1/gate/calls/{quote((await client.post('/v1/gate/calls', json=given)).json()['id'], safe='')}/claim"
        first, again = [(await client.post(path, json={"key": "k" * 40})).json() for _ in range(2)]
        other = await client.post(path, json={"key": "o" * 40})

        assert again == first
        assert (other.status_code, other.json()["code"]) == (409, "call_claimed")


async def test_at_a_desk_that_asks_nobody_guests_say_their_names(tmp_path: Path) -> None:
    async with (
        Desk(f"sqlite:///{tmp_path / 'placet.db'}", run=False) as desk,
        serving(create_app(desk, WebSettings(is_open=True))) as address,
        Gate(address, guest="jobs") as gate,
    ):
        call = await gate.propose("refund", {}, session="s", call_id="c")
        (request,) = await desk.pending()

        assert request.agent == "python/jobs"
        assert (await gate.look(call)).status == "waiting"


async def test_a_thousand_waits_on_one_desk_cost_one_reader_and_each_hears_of_its_decision() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        calls = [await gate.propose("t", {}, session=f"s{n}", call_id="c") for n in range(5)]
        guests, guest = scene.desk.guests, gate._guest
        waits = [asyncio.create_task(guests.wait(guest, calls[n % 5].id, 60)) for n in range(1000)]
        async with asyncio.timeout(PATIENCE):
            while guests.watcher.waits < 1000:  # noqa: ASYNC110  # they tell nobody that they wait
                await asyncio.sleep(0.05)
        idle = [await guests.wait(guest, call.id, 0) for call in calls]
        for call in calls:
            await scene.decide(call.request_id or "", "approve")
        found = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)

        assert {call.status for call in idle} == {"waiting"}
        assert {call.status for call in found} == {"claimable"}


def test_importing_the_gate_loads_no_framework_and_no_sdk() -> None:
    code = "import sys, placet.gate; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # noqa: S603
    loaded = {re.split(r"\.", name)[0] for name in out.split()}

    assert not loaded & {
        "starlette", "uvicorn", "jinja2", "openai", "anthropic", "mcp", "pydantic", "httpx", "psycopg", "procrastinate",
        "jsonschema_rs", "prometheus_client", "opentelemetry",
    }  # fmt: skip

"""Runs over the API: start, list, show, cancel, resume, log; asking twice."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from placet.desk import DeskRun
from placet.desk.api import idempotency
from placet.facts.errors import StoreError, UserError
from placet.ports import OPERATORS, StoredRecord
from placet.service.records import records
from tests.desk.api.scenes import at, decide, problem, two_refunds
from tests.support.desk_server import RunningDesk

PATIENCE = 90


async def test_a_run_is_started_shown_listed_and_says_who_started_it(server: RunningDesk) -> None:
    ana = await server.person("ana")
    started = (await ana.post("/v1/runs", json={"agent": "Support", "input": "hi", "max_turns": 5})).json()
    shown = (await ana.get(f"/v1/runs/{started['id']}")).json()
    listed = (await ana.get("/v1/runs", params={"agent": "Support"})).json()

    assert (shown["id"], shown["agent"], shown["started_by"]) == (started["id"], "Support", "ana")
    assert [each["id"] for each in listed["data"]] == [started["id"]]
    assert listed["next"] is None


async def test_what_cannot_be_started_is_refused_by_field(server: RunningDesk) -> None:
    ana = await server.person("ana")
    unknown = await ana.post("/v1/runs", json={"agent": "Nobody", "input": "hi"})
    empty = await ana.post("/v1/runs", json={"agent": "", "input": "hi"})
    missing = await ana.post("/v1/runs", json={"agent": "Support"})
    wrong = await ana.post("/v1/runs", json={"agent": "Support", "input": 7})

    assert problem(unknown, 422, "unknown_agent")["errors"][0]["field"] == "agent"
    assert problem(empty, 422, "invalid_request")["errors"][0]["field"] == "agent"
    assert "input" in problem(missing, 422, "invalid_request")["detail"]
    assert problem(wrong, 422, "invalid_request")["errors"][0]["field"] == "input"


async def test_a_body_that_is_no_json_object_or_not_sent_as_one_is_refused(server: RunningDesk) -> None:
    ana = await server.person("ana")
    json_type = {"Content-Type": "application/json"}

    for body in (b"{", b"[]", b'"x"', b'{"agent":1,"agent":2}', b"\xff", b'{"agent":"\\ud800","input":""}', b"nul"):
        problem(await ana.post("/v1/runs", content=body, headers=json_type), 400, "malformed_json")
    problem(await ana.post("/v1/runs", data={"agent": "Support"}), 415, "unsupported_media_type")
    problem(await ana.post("/v1/runs", content=b"{}"), 415, "unsupported_media_type")


async def test_a_method_that_an_address_does_not_know_is_405_and_says_which_it_does(server: RunningDesk) -> None:
    ana = await server.person("ana")
    answer = await ana.put("/v1/runs", json={})

    problem(answer, 405, "method_not_allowed")
    assert {"GET", "POST"} <= set(answer.headers["allow"].replace(" ", "").split(","))


async def test_cancelling_ends_the_run_and_says_who_did(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, _ = await two_refunds(server)
    before = (await ana.get(f"/v1/runs/{run_id}")).json()
    answer = await ana.post(f"/v1/runs/{run_id}/cancel", json={"reason": "asked twice"})
    await server.desk.wait(run_id, timeout=PATIENCE)
    after = (await ana.get(f"/v1/runs/{run_id}")).json()
    (listed,) = (await ana.get("/v1/runs")).json()["data"]
    again = await ana.post(f"/v1/runs/{run_id}/cancel")
    log = (await ana.get(f"/v1/runs/{run_id}/log")).json()

    assert answer.status_code == 200
    problem(again, 409, "run_finished")
    assert before["cancelled"] is None
    assert (after["status"], after["cancelled"]["by"], after["cancelled"]["reason"]) == ("ended", "ana", "asked twice")
    assert listed["cancelled"] == answer.json()["cancelled"] == after["cancelled"]
    asked = next(fact for line in log["data"] for fact in line["facts"] if fact["kind"] == "cancel_asked")
    assert (asked["data"]["by"], asked["data"]["reason"]) == ("ana", "asked twice")


async def test_the_log_comes_in_pages_that_join_without_a_gap(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, _ = await two_refunds(server)
    whole = (await ana.get(f"/v1/runs/{run_id}/log", params={"limit": 200})).json()
    pages, after = [], -1
    while after is not None:
        page = (await ana.get(f"/v1/runs/{run_id}/log", params={"limit": 1, "after": after})).json()
        pages += page["data"]
        after = page["next"]

    assert pages == whole["data"]
    assert [line["position"] for line in pages] == list(range(len(pages)))
    assert pages[0]["facts"][0]["kind"] == "run_started"


async def test_only_an_ended_run_is_forgotten_and_only_by_an_admin(server: RunningDesk) -> None:
    ana, root = await server.person("ana"), await server.person("root", "admin")
    run_id, _ = await two_refunds(server)

    problem(await ana.delete(f"/v1/runs/{run_id}"), 403, "access_denied")
    problem(await root.delete(f"/v1/runs/{run_id}"), 409, "run_not_ended")
    await server.desk.cancel(run_id)
    await server.desk.wait(run_id, timeout=PATIENCE)
    assert (await root.delete(f"/v1/runs/{run_id}")).status_code == 204
    problem(await root.get(f"/v1/runs/{run_id}"), 404, "not_found")
    *_, told = [entry async for entry in records(server.desk.store, OPERATORS)]
    assert (told.what, told.subject, told.by) == ("run deleted", run_id, "root")


async def test_resuming_what_has_ended_is_a_conflict_and_what_is_not_there_404(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, _ = await two_refunds(server)
    resumed = await ana.post(f"/v1/runs/{run_id}/resume")
    await server.desk.cancel(run_id)
    await server.desk.wait(run_id, timeout=PATIENCE)

    assert resumed.status_code == 200
    problem(await ana.post(f"/v1/runs/{run_id}/resume"), 409, "run_finished")
    problem(await ana.post("/v1/runs/run_nothing/resume"), 404, "not_found")
    problem(await ana.get("/v1/runs/run_%00"), 404, "not_found")


# -- asking twice -----------------------------------------------------------------------------------------------------


async def test_a_run_is_started_once_under_one_key_however_often_it_is_asked_for(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    headers = {"Idempotency-Key": "order-7"}
    given = {"agent": "Support", "input": "hi"}
    answers = [await ana.post("/v1/runs", json=given, headers=headers) for _ in range(3)]
    at_once = await asyncio.gather(
        *(ana.post("/v1/runs", json=given, headers={"Idempotency-Key": "order-8"}) for _ in range(8))
    )
    listed = (await ana.get("/v1/runs")).json()["data"]

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true"]
    assert {answer.status_code for answer in at_once} <= {201, 409}
    assert len({answer.json()["id"] for answer in at_once if answer.status_code == 201}) == 1
    assert len(listed) == 2


async def test_the_same_key_for_something_else_is_refused_and_another_persons_key_is_another(
    server: RunningDesk,
) -> None:
    ana, ben = await server.person("ana"), await server.person("ben")
    headers = {"Idempotency-Key": "k"}
    first = await ana.post("/v1/runs", json={"agent": "Support", "input": "one"}, headers=headers)
    other = await ana.post("/v1/runs", json={"agent": "Support", "input": "two"}, headers=headers)
    bens = await ben.post("/v1/runs", json={"agent": "Support", "input": "two"}, headers=headers)

    problem(other, 422, "idempotency_key_reused")
    assert bens.status_code == 201
    assert bens.json()["id"] != first.json()["id"]


async def test_an_error_is_not_kept_so_that_the_mended_request_may_use_its_key(server: RunningDesk) -> None:
    ana = await server.person("ana")
    headers = {"Idempotency-Key": "k"}
    refused = await ana.post("/v1/runs", json={"agent": "Nobody", "input": "x"}, headers=headers)
    mended = await ana.post("/v1/runs", json={"agent": "Support", "input": "x"}, headers=headers)

    assert (refused.status_code, mended.status_code) == (422, 201)


async def test_an_attempt_that_died_is_taken_over_and_still_starts_one_run(server: RunningDesk) -> None:
    ana = await server.person("ana")
    headers = {"Idempotency-Key": "k"}
    given = {"agent": "Support", "input": "x"}
    first = await ana.post("/v1/runs", json=given, headers=headers)
    (record,) = await server.desk.store.records(idempotency.KIND)
    died = record.data.replace('"status":201', '"status":null')
    await server.desk.store.replace_record(_old(record, died))
    again = await ana.post("/v1/runs", json=given, headers=headers)

    assert '"status":201' in record.data
    assert again.status_code == 201
    assert "idempotency-replayed" not in again.headers
    assert again.json()["id"] == first.json()["id"]


async def test_a_key_starts_afresh_after_its_time_and_never_answers_with_an_old_run(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    headers = {"Idempotency-Key": "order-7"}
    first = await ana.post("/v1/runs", json={"agent": "Support", "input": "one"}, headers=headers)
    await any_server.desk.cancel(first.json()["id"])
    await any_server.desk.wait(first.json()["id"], timeout=PATIENCE)
    (record,) = await any_server.desk.store.records(idempotency.KIND)
    await any_server.desk.store.take_record(idempotency.KIND, record.id)  # as after a day
    later = await ana.post("/v1/runs", json={"agent": "Support", "input": "two"}, headers=headers)

    assert later.status_code == 201
    assert later.json()["id"] != first.json()["id"]
    assert later.json()["status"] != "ended"
    assert len((await ana.get("/v1/runs")).json()["data"]) == 2


async def test_a_run_id_of_ones_own_is_not_another_runs(server: RunningDesk) -> None:
    first = await server.desk.start("Support", "one", run_id="run_mine")
    again = await server.desk.start("Support", "one", run_id="run_mine")

    assert (first.id, again.id) == ("run_mine", "run_mine")
    for agent, text in (("Support", "two"), ("Archivist", "one")):
        with pytest.raises(UserError, match="run_mine"):
            await server.desk.start(agent, text, run_id="run_mine")


async def test_after_an_error_that_is_the_desks_own_the_key_goes_on_with_the_same_run(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await server.person("ana")
    headers, given = {"Idempotency-Key": "k"}, {"agent": "Support", "input": "x"}
    start = server.desk.start

    async def start_and_break(*args: Any, **options: Any) -> DeskRun:
        await start(*args, **options)
        raise StoreError("The store went away.")

    monkeypatch.setattr(server.desk, "start", start_and_break)
    broken = await ana.post("/v1/runs", json=given, headers=headers)
    monkeypatch.setattr(server.desk, "start", start)
    other = await ana.post("/v1/runs", json={"agent": "Support", "input": "y"}, headers=headers)
    again = await ana.post("/v1/runs", json=given, headers=headers)

    assert broken.status_code == 503
    problem(other, 422, "idempotency_key_reused")
    assert again.status_code == 201
    assert [run["id"] for run in (await ana.get("/v1/runs")).json()["data"]] == [again.json()["id"]]


async def test_while_an_attempt_is_silent_the_answer_says_when_to_ask_again(server: RunningDesk) -> None:
    ana = await server.person("ana")
    headers, given = {"Idempotency-Key": "k"}, {"agent": "Support", "input": "x"}
    await ana.post("/v1/runs", json=given, headers=headers)
    (record,) = await server.desk.store.records(idempotency.KIND)
    kept = msgspec.json.decode(record.data, type=idempotency.StoredAnswer)
    silent = msgspec.structs.replace(kept, status=None, since=server.web.clock.now())
    data = msgspec.json.encode(silent).decode()
    await server.desk.store.replace_record(msgspec.structs.replace(record, data=data))
    early = await ana.post("/v1/runs", json=given, headers=headers)

    problem(early, 409, "idempotency_in_progress")
    assert 1 <= int(early.headers["retry-after"]) <= idempotency.STUCK_SECONDS
    assert idempotency.STUCK_SECONDS <= 10


async def test_an_attempt_that_takes_long_says_that_it_lives(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "BEAT_SECONDS", 0.01)
    ana = await server.person("ana")
    headers, given = {"Idempotency-Key": "k"}, {"agent": "Support", "input": "x"}
    start, may_end = server.desk.start, asyncio.Event()

    async def slow(*args: Any, **options: Any) -> DeskRun:
        await may_end.wait()
        return await start(*args, **options)

    monkeypatch.setattr(server.desk, "start", slow)
    first = asyncio.create_task(ana.post("/v1/runs", json=given, headers=headers))
    began = await _beat_after(server, 0.0)
    later = await _beat_after(server, began)
    may_end.set()

    assert later > began
    assert (await first).status_code == 201


async def _beat_after(server: RunningDesk, since: float) -> float:
    async with asyncio.timeout(PATIENCE):
        while True:
            for record in await server.desk.store.records(idempotency.KIND):
                kept = msgspec.json.decode(record.data, type=idempotency.StoredAnswer)
                if kept.since > since:
                    return kept.since
            await asyncio.sleep(0.01)


async def test_a_grant_under_a_key_is_made_once_also_by_who_takes_over(server: RunningDesk) -> None:
    ana = await server.person("ana")
    headers = {"Idempotency-Key": "k"}
    given = {"agent": "Support", "tool": "refund", "decision": "approve", "uses": 1, "confirm": "refund"}
    first = await ana.post("/v1/grants", json=given, headers=headers)
    (record,) = await server.desk.store.records(idempotency.KIND)
    await server.desk.store.replace_record(_old(record, record.data.replace('"status":201', '"status":null')))
    again = await ana.post("/v1/grants", json=given, headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert [grant.id for grant in await server.desk.grants()] == [first.json()["id"]]


def _old(record: StoredRecord, data: str) -> StoredRecord:
    kept = msgspec.json.decode(data, type=idempotency.StoredAnswer)
    kept = msgspec.structs.replace(kept, since=kept.since - idempotency.STUCK_SECONDS - 1)
    return msgspec.structs.replace(record, data=msgspec.json.encode(kept).decode())


async def test_a_decision_under_a_key_is_made_once(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (asked, _) = await two_refunds(server)
    headers = {"Idempotency-Key": "k"}
    answers = [
        await ana.post(at(asked.id, "/decisions"), json={"decision": "approve"}, headers=headers) for _ in range(2)
    ]

    assert [answer.json()["status"] for answer in answers] == ["approved", "approved"]
    assert (await decide(ana, asked.id, "approve")).status_code == 200


async def test_a_key_without_signs_or_too_long_is_refused(server: RunningDesk) -> None:
    ana = await server.person("ana")
    given = {"agent": "Support", "input": "x"}

    problem(await ana.post("/v1/runs", json=given, headers={"Idempotency-Key": ""}), 422, "invalid_request")
    problem(await ana.post("/v1/runs", json=given, headers={"Idempotency-Key": "k" * 256}), 422, "invalid_request")

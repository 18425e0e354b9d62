"""What waits, and deciding it, over the API."""

from __future__ import annotations

import asyncio

import pytest

from placet.desk.access.people import DecisionScope
from tests.desk.api.scenes import at, decide, problem, two_refunds
from tests.support.desk_server import RunningDesk

PATIENCE = 90


async def test_what_waits_is_listed_whole_and_approving_it_lets_the_run_go_on(any_server: RunningDesk) -> None:
    server = any_server
    ana = await server.person("ana")
    started = await ana.post("/v1/runs", json={"agent": "Support", "input": "Two refunds, please."})
    run_id = started.json()["id"]
    await server.desk.wait(run_id, until="paused", timeout=PATIENCE)
    page = (await ana.get("/v1/approvals", params={"status": "pending", "run_id": run_id})).json()
    for each in page["data"]:
        assert (await decide(ana, each["id"], "approve", digest=each["digest"], reason="checked")).status_code == 200
    run = await server.desk.wait(run_id, timeout=PATIENCE)

    assert started.status_code == 201
    assert started.headers["location"] == f"/v1/runs/{run_id}"
    assert page["next"] is None
    first = page["data"][0]
    assert first["arguments"] == {"order_id": "1042", "cents": 4900, "reason": "broken"}
    assert (first["run_id"], first["agent"], first["tool"], first["status"]) == (run_id, "Support", "refund", "pending")
    assert first["created_at"].endswith("Z")
    assert first["expires_at"] is None
    assert (run.status, run.final_output) == ("ended", "Both orders are settled.")


async def test_the_actor_is_the_authenticated_one_and_the_body_cannot_say_otherwise(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    forged = await decide(ana, first.id, "approve", by="mallory")
    taken = await decide(ana, first.id, "approve")

    assert problem(forged, 422, "invalid_request")["errors"][0]["message"].endswith("unknown field 'by'")
    assert taken.json()["decided_by"] == "ana"


async def test_an_equal_decision_again_is_a_success_and_a_contradicting_one_names_the_winner(
    any_server: RunningDesk,
) -> None:
    ana, ben = await any_server.person("ana"), await any_server.person("ben")
    _, (first, _) = await two_refunds(any_server)
    won = await decide(ana, first.id, "approve")
    again = await decide(ben, first.id, "approve")
    lost = await decide(ben, first.id, "reject", message="no")

    assert (won.status_code, again.status_code) == (200, 200)
    assert again.json()["decided_by"] == "ana"
    winner = problem(lost, 409, "stale_approval")["winner"]
    assert (winner["decision"], winner["by"]) == ("approve", "ana")
    assert winner["at"].startswith("20")
    assert "'approve' by ana" in lost.json()["detail"]


async def test_of_two_who_contradict_each_other_at_once_one_wins_and_the_other_learns_who(server: RunningDesk) -> None:
    ana, ben = await server.person("ana"), await server.person("ben")
    _, (first, _) = await two_refunds(server)
    yes, no = await asyncio.gather(decide(ana, first.id, "approve"), decide(ben, first.id, "reject"))

    won, lost = (yes, no) if yes.status_code == 200 else (no, yes)
    assert (won.status_code, lost.status_code) == (200, 409)
    assert lost.json()["winner"]["by"] == won.json()["decided_by"]


async def test_something_else_than_what_was_shown_is_not_decided(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, second) = await two_refunds(server)
    answer = await decide(ana, first.id, "approve", digest=second.digest)

    assert problem(answer, 409, "stale_approval")["detail"].endswith("look again.")
    assert (await server.desk.request(first.id)).status == "pending"


async def test_an_id_that_is_not_there_is_404(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, _ = await two_refunds(server)

    problem(await decide(ana, f"{run_id}_t9c9_q1", "approve"), 404, "not_found")
    problem(await decide(ana, f"{run_id}:9.9#1", "approve"), 404, "not_found")
    problem(await ana.get(at("nothing\x00#1")), 404, "not_found")
    problem(await ana.get(at(f"{run_id}\x00_t1c0_q1")), 404, "not_found")
    problem(await ana.get("/v1/runs/nothing%00"), 404, "not_found")


@pytest.mark.promise("P14")
async def test_a_request_is_found_by_its_id_of_the_first_form(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, _) = await two_refunds(server)
    old = f"{run_id}:1.1#1"

    shown = await ana.get(at(old))
    decided = await decide(ana, old, "approve")

    assert (shown.json()["id"], decided.json()["id"]) == (first.id, first.id) == (f"{run_id}_t1c1_q1",) * 2
    assert (await server.desk.request(old)).status == "approved"


async def test_a_part_of_an_id_is_enough_to_look_and_what_several_have_is_listed(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, second) = await two_refunds(server)

    by_tail = await ana.get(at("t1c2_q1"))
    cut_link = await ana.get(at(f"{run_id}:1.1"))
    several = problem(await ana.get(at(run_id)), 404, "not_found")
    run = await ana.get(f"/v1/runs/{run_id[-12:]}")

    assert (by_tail.json()["id"], cut_link.json()["id"]) == (second.id, first.id)
    assert first.id in several["detail"]
    assert second.id in several["detail"]
    assert run.json()["id"] == run_id


@pytest.mark.promise("P22")
async def test_a_part_of_an_id_decides_only_together_with_the_digest_that_was_shown(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, second) = await two_refunds(server)

    bare = await decide(ana, "t1c1_q1", "approve")
    many = await ana.post("/v1/decisions", json={"decisions": [{"id": "t1c1_q1", "decision": "approve"}]})
    revoked = await ana.post(f"{at('t1c1_q1')}/revocation", json={})
    wrong = await decide(ana, "t1c1_q1", "approve", digest=second.digest)
    statuses = [(await server.desk.request(each.id)).status for each in (first, second)]
    right = await decide(ana, "t1c1_q1", "approve", digest=first.digest)

    assert first.id in problem(bare, 422, "user_error")["detail"]
    assert many.json()["data"][0]["status"] == 422
    problem(revoked, 404, "not_found")
    problem(wrong, 409, "stale_approval")
    assert statuses == ["pending", "pending"]
    assert (right.json()["id"], right.json()["status"]) == (first.id, "approved")


async def test_a_late_decision_is_a_conflict(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, second) = await two_refunds(server)
    for each in (first, second):
        await decide(ana, each.id, "approve")
    await server.desk.wait(run_id, timeout=PATIENCE)
    late = await decide(ana, first.id, "reject")

    assert problem(late, 409, "run_finished")["winner"]["decision"] == "approve"


async def test_an_edit_that_does_not_fit_is_refused_field_by_field_and_one_that_fits_runs(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, second) = await two_refunds(server)
    bad = await decide(ana, second.id, "edit", arguments={"order_id": 7, "cents": -1, "reason": ""})
    good = await decide(ana, second.id, "edit", arguments={"order_id": "1077", "cents": 12400, "reason": "one of two"})
    await decide(ana, first.id, "respond", output="Paid by hand.")
    await server.desk.wait(run_id, timeout=PATIENCE)
    log = (await ana.get(f"/v1/runs/{run_id}/log", params={"limit": 200})).json()

    assert [each["field"] for each in problem(bad, 422, "user_error")["errors"]] == ["order_id", "cents"]
    assert good.json()["status"] == "edited"
    ended = [fact["data"] for line in log["data"] for fact in line["facts"] if fact["kind"] == "call_ended"]
    outputs = [each["output"] for each in ended]
    assert any("refunded 12400 for 1077" in output for output in outputs)
    assert "Paid by hand." in outputs
    assert not any("24800 for 1077" in output for output in outputs)


async def test_a_rejection_tells_the_model_the_message_and_the_record_the_reason(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    answer = await decide(ana, first.id, "reject", message="Ask for a photo.", reason="no proof")

    assert (answer.json()["status"], answer.json()["reason"]) == ("rejected", "no proof")


async def test_many_decisions_have_each_their_own_outcome_in_the_order_given(server: RunningDesk) -> None:
    ana = await server.person("ana", decides=(DecisionScope(tool="refund"),))
    _, (first, second) = await two_refunds(server)
    await server.waiting_run("Hostile")
    (mail,) = await server.desk.pending(agent="Hostile")
    given = [
        {"id": first.id, "decision": "approve", "digest": first.digest},
        {"id": second.id, "decision": "approve", "digest": first.digest},
        {"id": first.id, "decision": "reject"},
        {"id": mail.id, "decision": "approve"},
        {"id": "run_x:1.1#1", "decision": "approve"},
    ]
    answer = (await ana.post("/v1/decisions", json={"decisions": given})).json()["data"]

    assert [each["id"] for each in answer] == [each["id"] for each in given]
    assert [each["status"] for each in answer] == [200, 409, 409, 403, 404]
    assert answer[0]["approval"]["status"] == "approved"
    assert "problem" not in answer[0]
    assert answer[2]["problem"]["winner"]["by"] == "ana"


async def test_many_decisions_about_one_run_all_count(server: RunningDesk) -> None:
    ana = await server.person("ana")
    runs = [await two_refunds(server) for _ in range(3)]
    given = [{"id": each.id, "decision": "approve"} for _, asked in runs for each in asked]
    answer = await ana.post("/v1/decisions", json={"decisions": given})
    for run_id, _ in runs:
        await server.desk.wait(run_id, timeout=PATIENCE)

    assert {each["status"] for each in answer.json()["data"]} == {200}


async def test_too_many_at_once_are_refused(server: RunningDesk) -> None:
    ana = await server.person("ana")
    given = [{"id": "run_x:1.1#1", "decision": "approve"}] * 201

    problem(await ana.post("/v1/decisions", json={"decisions": given}), 422, "invalid_request")
    problem(await ana.post("/v1/decisions", json={"decisions": []}), 422, "invalid_request")


async def test_lists_come_in_pages_with_filters_and_a_next_that_leads_on(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    for _ in range(3):
        await any_server.waiting_run()
    await any_server.waiting_run("Archivist")
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await ana.get("/v1/approvals", params={"limit": 2, "cursor": cursor})).json()
        seen += [each["id"] for each in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break
    only = (await ana.get("/v1/approvals", params={"agent": "Archivist", "tool": ""})).json()["data"]

    assert len(seen) == len(set(seen)) == 7
    assert [each["tool"] for each in only] == ["delete_folder"]
    assert only[0]["expires_at"] > only[0]["created_at"]
    problem(await ana.get("/v1/approvals?cursor=nonsense"), 422, "user_error")
    problem(await ana.get("/v1/approvals?limit=1000"), 422, "invalid_request")
    problem(await ana.get("/v1/approvals?agents=Support"), 422, "invalid_request")
    problem(await ana.get("/v1/approvals?agent=a&agent=b"), 422, "invalid_request")
    problem(await ana.get("/v1/approvals?agent=%00"), 422, "invalid_request")


async def test_decided_ones_are_listed_by_their_status_and_all_together(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, _) = await two_refunds(server)
    await decide(ana, first.id, "reject")
    counts = {}
    for status in ("pending", "rejected", "approved", "all"):
        counts[status] = len((await ana.get("/v1/approvals", params={"status": status})).json()["data"])

    assert counts == {"pending": 1, "rejected": 1, "approved": 0, "all": 2}


async def test_one_request_shows_the_tools_schema_and_why_somebody_may_not(server: RunningDesk) -> None:
    ana, eve = await server.person("ana"), await server.person("eve", "viewer")
    _, (first, _) = await two_refunds(server)
    for_ana, for_eve = (await ana.get(at(first.id))).json(), (await eve.get(at(first.id))).json()

    assert for_ana["parameters"]["properties"]["cents"]["type"] == "integer"
    assert for_ana["description"].startswith("Pay money back")
    assert for_ana["you_may_not"] is None
    assert "role reviewer" in for_eve["you_may_not"]


async def test_an_answer_cannot_stand_for_later_calls(server: RunningDesk) -> None:
    ana = await server.person("ana")
    _, (first, second) = await two_refunds(server)
    alone = [
        await decide(ana, first.id, "respond", output="done by hand", always=always)
        for always in (True, {"scope": "run"}, {"scope": "agent", "uses": 1})
    ]
    word = {"id": first.id, "decision": "respond", "output": "done by hand", "always": True}
    many = (await ana.post("/v1/decisions", json={"decisions": [word]})).json()

    assert all("cannot stand for later" in problem(each, 422, "user_error")["detail"] for each in alone)
    assert "cannot stand for later" in str(many)
    assert [each.id for each in await server.desk.pending()] == [first.id, second.id]
    assert await server.desk.grants() == []


async def test_always_decides_what_waits_alike_and_later_calls_within_its_bounds(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, _) = await two_refunds(server)
    await decide(ana, first.id, "approve", always={"scope": "agent", "uses": 10, "confirm": "refund"})
    await server.desk.wait(run_id, timeout=PATIENCE)
    later = await server.desk.start("Support", "again")
    later = await server.desk.wait(later.id, timeout=PATIENCE)
    grants = (await ana.get("/v1/grants")).json()["data"]

    assert later.status == "ended"
    assert [(each["tool"], each["by"], each["uses"]) for each in grants] == [("function:refund", "ana", 10)]


async def test_an_approval_is_taken_back_until_its_call_begins_and_is_asked_about_anew(any_server: RunningDesk) -> None:
    await any_server.waiting_run()
    ana = await any_server.person("ana", "admin")
    first, _ = (await ana.get("/v1/approvals")).json()["data"]
    await ana.post("/v1/holds", json={"kind": "tool", "name": "refund"})
    await ana.post(f"{at(first['id'])}/decisions", json={"decision": "approve"})

    revoked = await ana.post(f"{at(first['id'])}/revocation", json={"reason": "wrong order"})
    again = await ana.post(f"{at(first['id'])}/revocation", json={})

    assert (revoked.status_code, revoked.json()["status"]) == (200, "pending")
    assert revoked.json()["id"] != first["id"]
    assert again.status_code == 409


async def test_what_an_ended_run_said_is_erased_by_an_admin_alone(any_server: RunningDesk) -> None:
    run = await any_server.waiting_run()
    ana, bob = await any_server.person("ana", "admin"), await any_server.person("bob", "reviewer")
    early = await ana.post(f"/v1/runs/{run.id}/erasure", json={})
    await ana.post(f"/v1/runs/{run.id}/cancel", json={})
    await any_server.desk.wait(run.id, timeout=PATIENCE)

    refused = await bob.post(f"/v1/runs/{run.id}/erasure", json={})
    erased = await ana.post(f"/v1/runs/{run.id}/erasure", json={"reason": "asked to"})

    assert (early.status_code, refused.status_code, erased.status_code) == (409, 403, 204)
    log = (await ana.get(f"/v1/runs/{run.id}/log")).text
    assert "A customer wrote" not in log


async def test_what_belongs_to_another_decision_is_refused_and_nothing_is_decided(server: RunningDesk) -> None:
    ana = await server.person("ana")
    await server.waiting_run()
    first, _ = (await ana.get("/v1/approvals")).json()["data"]

    answers = [
        await decide(ana, first["id"], "approve", **{name: value})
        for name, value in (("message", "m"), ("output", "o"), ("arguments", {"cents": 1}))
    ]

    assert [each.status_code for each in answers] == [422, 422, 422]
    assert [each.json()["errors"][0]["field"] for each in answers] == ["message", "output", "arguments"]
    assert (await server.desk.request(first["id"])).status == "pending"

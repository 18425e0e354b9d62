"""The desk as a program uses it: start, look, decide, wait, and what it refuses."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from placet import Agent, Grant, NotPending, RunFinished, StaleApproval, UserError
from placet.desk import Desk
from placet.desk.desk import RunEvent
from placet.facts.events import CallHeld, RunEnded, RunStarted
from placet.stores.opening import open_store
from placet.testing import ScriptedModel, assistant_message
from placet.testing.desk_contracts import RunWriter
from tests.desk.scenes import PATIENCE, Planned, Witness, outputs, paused, refunds, support


async def test_a_run_waits_for_a_person_and_ends_after_the_yes(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness)]) as desk:
        run = await desk.start("Support", "Refund order 7", by="web-form")
        run = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        status, before = run.status, witness.lines()
        for request in await desk.pending(run_id=run.id):
            await desk.decide(request.id, "approve", by="ops-lead", reason="checked")
        run = await desk.wait(run.id, until="ended", timeout=PATIENCE)
        row = await desk.request(request.id)

    assert (status, before) == ("waiting", [])
    assert (run.status, run.final_output, run.agent, run.started_by) == ("ended", "done", "Support", "web-form")
    assert witness.lines() == ["refund 7"]
    assert (request.tool, request.arguments, request.kind, request.run_id) == (
        "refund",
        {"order": 7},
        "approval",
        run.id,
    )
    assert (row.status, row.decided_by, row.reason) == ("approved", "ops-lead", "checked")


async def test_a_rejection_runs_nothing_and_the_model_reads_its_message(any_url: str, witness: Witness) -> None:
    agent = support(witness)
    desk = Desk(any_url, agents=[agent])
    async with paused(desk) as (run, request):
        decided = await desk.decide(request.id, "reject", by="ann", message="Not this one.")
        await desk.wait(run.id, timeout=PATIENCE)
        told = await outputs(desk, run.id)

    assert witness.lines() == []
    assert decided.status == "rejected"
    assert told == ["Not this one."]


async def test_an_edit_runs_with_the_new_arguments(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        decided = await desk.decide(request.id, "edit", by="ann", arguments={"order": 8})
        await desk.wait(run.id, timeout=PATIENCE)

    assert decided.status == "edited"
    assert witness.lines() == ["refund 8"]


async def test_an_edit_that_does_not_fit_the_tool_is_refused_and_the_request_stays_open(
    url: str, witness: Witness
) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        for arguments in ({"order": "seven"}, {}, {"order": 7, "cents": 3}):
            with pytest.raises(UserError, match="refund"):
                await desk.decide(request.id, "edit", arguments=arguments)
        with pytest.raises(UserError, match="arguments"):
            await desk.decide(request.id, "edit")
        with pytest.raises(UserError, match="arguments"):
            await desk.decide(request.id, "approve", arguments={"order": 7})
        left = await desk.pending(run_id=run.id)

    assert [each.id for each in left] == [request.id]


async def test_an_edit_from_a_desk_without_the_code_is_judged_by_the_tool_before_it_runs(
    url: str, witness: Witness
) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request), Desk(url, run=False) as other:
        await other.decide(request.id, "edit", arguments={"order": "seven"})
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert ended.final_output == "done"
    assert witness.lines() == []


async def test_an_answer_takes_the_place_of_the_call(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        decided = await desk.decide(request.id, "respond", output={"status": "refunded by hand"})
        await desk.wait(run.id, timeout=PATIENCE)
        told = await outputs(desk, run.id)

    assert decided.status == "answered"
    assert witness.lines() == []
    assert told == ['{"status":"refunded by hand"}']


async def test_an_unknown_verdict_is_refused(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        with pytest.raises(UserError, match="approve, reject, edit or respond"):
            await desk.decide(request.id, "yes")  # type: ignore[arg-type]
        left = await desk.pending(run_id=run.id)

    assert len(left) == 1


# -- always -----------------------------------------------------------------------------------------------------------


async def test_always_decides_the_later_calls_of_the_run_and_not_those_of_another(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness, refunds(1), refunds(2))])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ann", always=True)
        await desk.wait(run.id, timeout=PATIENCE)
        second = await desk.start("Support", "again")
        second = await desk.wait(second.id, until="paused", timeout=PATIENCE)

    assert witness.lines() == ["refund 1", "refund 2"]
    assert second.status == "waiting"


async def test_a_grant_for_the_agent_reaches_the_next_run_until_it_is_taken_back(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ann", always=Grant(scope="agent"))
        await desk.wait(run.id, timeout=PATIENCE)
        next_run = await desk.start("Support", "again")
        await desk.wait(next_run.id, timeout=PATIENCE)
        (grant,) = await desk.grants()
        was_there = await desk.revoke_grant(grant.id)
        last = await desk.start("Support", "again")
        last = await desk.wait(last.id, until="paused", timeout=PATIENCE)
        left = await desk.grants()

    assert witness.lines() == ["refund 7"] * 2
    assert (grant.by, grant.scope, was_there, left) == ("ann", "agent", True, [])
    assert last.status == "waiting"


async def test_a_grant_with_one_use_beyond_its_run_is_used_once(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", always=Grant(scope="agent", uses=1))
        await desk.wait(run.id, timeout=PATIENCE)
        states = []
        for _ in range(2):
            later = await desk.start("Support", "again")
            states.append((await desk.wait(later.id, until="paused", timeout=PATIENCE)).status)

    assert states == ["ended", "waiting"]


# -- deciding twice, late, about something else -----------------------------------------------------------------------


async def test_an_equal_decision_is_fine_and_a_contradicting_one_names_who_decided(
    any_url: str, witness: Witness
) -> None:
    agent = support(witness, refunds(1, 2))
    desk = Desk(any_url, agents=[agent])
    async with paused(desk) as (_, request):
        await desk.decide(request.id, "approve", by="ann")
        again = await desk.decide(request.id, "approve", by="bob")
        with pytest.raises(StaleApproval, match="'approve' by ann"):
            await desk.decide(request.id, "reject", by="eve")

    assert (again.status, again.decided_by) == ("approved", "ann")


async def test_after_the_end_an_equal_decision_is_fine_and_another_is_refused(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ann")
        await desk.wait(run.id, timeout=PATIENCE)
        again = await desk.decide(request.id, "approve", by="bob")
        with pytest.raises(RunFinished, match="ann"):
            await desk.decide(request.id, "reject", by="eve")

    assert again.decided_by == "ann"


async def test_a_decision_about_another_digest_is_refused(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        with pytest.raises(StaleApproval, match="look again"):
            await desk.decide(request.id, "approve", digest="another")
        left = await desk.pending(run_id=run.id)
        await desk.decide(request.id, "approve", digest=request.digest)
        await desk.wait(run.id, timeout=PATIENCE)

    assert len(left) == 1
    assert witness.lines() == ["refund 7"]


async def test_what_does_not_exist_is_said_so(url: str, witness: Witness) -> None:
    async with Desk(url, agents=[support(witness)]) as desk:
        with pytest.raises(NotPending, match="req_x"):
            await desk.decide("req_x", "approve")
        with pytest.raises(NotPending):
            await desk.request("req_x")
        for words in (desk.get("run_x"), desk.wait("run_x"), desk.cancel("run_x"), desk.resume("run_x")):
            with pytest.raises(UserError, match="run_x"):
                await words
        with pytest.raises(UserError, match="Support"):
            await desk.start("Nobody", "hello")
        gone = await desk.delete("run_x")

    assert gone is False


async def test_many_decisions_have_each_their_own_outcome(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness, refunds(1, 2, 3))])
    async with paused(desk) as (run, _):
        asked = await desk.pending(run_id=run.id)
        found = await desk.decide_many(
            [
                {"request_id": asked[0].id, "verdict": "approve", "by": "ann"},
                {"request_id": asked[1].id, "verdict": "edit", "arguments": {"order": "x"}},
                {"request_id": asked[2].id, "verdict": "reject", "by": "ann"},
                {"request_id": "req_x", "verdict": "approve"},
            ]
        )
        left = await desk.pending(run_id=run.id)

    assert [each.status if not isinstance(each, Exception) else type(each) for each in found] == [
        "approved",
        UserError,
        "rejected",
        NotPending,
    ]
    assert [each.id for each in left] == [asked[1].id]


async def test_a_decision_among_many_that_is_not_whole_is_its_own_error(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness, refunds(1))])
    async with paused(desk) as (_, request):
        found = await desk.decide_many([{"request_id": request.id}, {"request_id": request.id, "verdict": "approve"}])

    assert isinstance(found[0], UserError)
    assert not isinstance(found[1], Exception)


# -- lists ------------------------------------------------------------------------------------------------------------


async def test_what_waits_is_listed_oldest_first_in_pages_and_by_run_agent_and_tool(url: str, witness: Witness) -> None:
    other = Agent("Other", tools=[witness.refund()], model=Planned(refunds(9)))
    async with Desk(url, agents=[support(witness, refunds(1, 2)), other]) as desk:
        ids = []
        for name in ("Support", "Other", "Support"):
            run = await desk.start(name, "go")
            ids.append((await desk.wait(run.id, until="paused", timeout=PATIENCE)).id)
        first = await desk.requests(limit=2)
        second = await desk.requests(limit=2, cursor=first.cursor)
        third = await desk.requests(limit=2, cursor=second.cursor)
        by_agent = await desk.pending(agent="Other")
        by_tool = await desk.pending(tool="nothing")

    assert [each.run_id for each in [*first.rows, *second.rows, *third.rows]] == [
        ids[0],
        ids[0],
        ids[1],
        ids[2],
        ids[2],
    ]
    assert third.cursor is None
    assert [each.run_id for each in by_agent] == [ids[1]]
    assert by_tool == []


async def test_runs_are_listed_newest_first_by_status_and_agent(url: str, witness: Witness) -> None:
    talker = Agent("Talker", model=Planned())
    async with Desk(url, agents=[support(witness), talker]) as desk:
        one = await desk.start("Support", "go")
        two = await desk.start("Talker", "go")
        await desk.wait(one.id, until="paused", timeout=PATIENCE)
        await desk.wait(two.id, timeout=PATIENCE)
        every, ended = await desk.runs(), await desk.runs(status="ended")
        waiting, talks = await desk.runs(status="waiting"), await desk.runs(agent="Talker")

    assert [run.id for run in every.rows] == [two.id, one.id]
    assert [run.id for run in ended.rows] == [run.id for run in talks.rows] == [two.id]
    assert [run.id for run in waiting.rows] == [one.id]


# -- waiting, ending, forgetting --------------------------------------------------------------------------------------


async def test_waiting_for_an_end_that_does_not_come_times_out(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, _):
        with pytest.raises(TimeoutError):
            await desk.wait(run.id, until="ended", timeout=0.1)


async def test_waiting_for_a_pause_returns_when_the_run_has_ended(url: str) -> None:
    async with Desk(url, agents=[Agent("Talker", model=Planned())]) as desk:
        run = await desk.start("Talker", "hello")
        run = await desk.wait(run.id, until="paused", timeout=PATIENCE)

    assert (run.status, run.final_output) == ("ended", "done")


async def test_a_cancelled_run_ends_and_its_open_calls_have_an_output(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(1, 2))])
    async with paused(desk) as (run, request):
        await desk.cancel(run.id, by="ann", reason="a mistake")
        ended = await desk.wait(run.id, timeout=PATIENCE)
        row, told, left = await desk.request(request.id), await outputs(desk, run.id), await desk.pending()
        with pytest.raises(RunFinished):
            await desk.decide(request.id, "approve")

    assert (ended.status, row.status, left) == ("ended", "closed", [])
    assert len(told) == 2
    assert witness.lines() == []


async def test_cancelling_a_run_that_has_ended_is_told_so_and_changes_nothing(url: str) -> None:
    async with Desk(url, agents=[Agent("Talker", model=Planned())]) as desk:
        run = await desk.start("Talker", "hello")
        run = await desk.wait(run.id, timeout=PATIENCE)
        with pytest.raises(RunFinished):
            await desk.cancel(run.id, by="ann")
        after = await desk.get(run.id)

    # the end is written before the driver has given its lease back
    assert msgspec.structs.replace(after, is_driven=run.is_driven) == run


async def test_a_run_that_an_error_stopped_goes_on_when_it_is_resumed(any_url: str) -> None:
    model = ScriptedModel([RuntimeError("the provider is down"), [assistant_message("back again")]])
    async with Desk(any_url, agents=[Agent("Talker", model=model)]) as desk:
        run = await desk.start("Talker", "hello")
        stopped = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        await desk.resume(run.id)
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert stopped.stopped is not None
    assert (ended.status, ended.final_output, ended.stopped) == ("ended", "back again", None)


async def test_a_deleted_run_is_gone_with_what_it_asked(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        gone = await desk.delete(run.id)
        left = await desk.pending()
        with pytest.raises(UserError):
            await desk.get(run.id)
        with pytest.raises(NotPending):
            await desk.decide(request.id, "approve")

    assert gone
    assert left == []


async def test_purging_forgets_what_ended_before_and_nothing_that_waits(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness), Agent("Talker", model=Planned())])
    async with paused(desk) as (run, _):
        talk = await desk.start("Talker", "hello")
        await desk.wait(talk.id, timeout=PATIENCE)
        too_early = await desk.purge(time.time() - 3600)
        count = await desk.purge(time.time() + 3600)
        left = await desk.runs()

    assert (too_early, count) == (0, 1)
    assert [each.id for each in left.rows] == [run.id]


async def test_purging_forgets_all_that_ended_before_however_much_it_is() -> None:
    async with open_store("sqlite://:memory:") as store, Desk(store, run=False) as desk:
        for _ in range(1001):
            story = RunWriter()
            await story.begin(store)
            await story.end(store)
        count = await desk.purge(time.time())

    assert count == 1001


# -- the feed ---------------------------------------------------------------------------------------------------------


async def test_events_tell_what_happens_in_any_run_on_any_desk_of_the_store(any_url: str, witness: Witness) -> None:
    seen: list[RunEvent] = []

    async def listen(desk: Desk) -> None:
        async for event in desk.events(after=0):
            seen.append(event)
            if isinstance(event.fact, RunEnded):
                return

    async with Desk(any_url, run=False) as watcher:
        listening = asyncio.create_task(listen(watcher))
        desk = Desk(any_url, agents=[support(witness)])
        async with paused(desk) as (run, request):
            await desk.decide(request.id, "approve")
            await desk.wait(run.id, timeout=PATIENCE)
            await asyncio.wait_for(listening, PATIENCE)
        again = [event async for event in _some(watcher, after=seen[2].sequence, count=1)]

    assert isinstance(seen[0].fact, RunStarted)
    assert any(isinstance(event.fact, CallHeld) for event in seen)
    assert {event.run_id for event in seen} == {run.id}
    assert [event.sequence for event in seen] == sorted(event.sequence for event in seen)
    assert again[0].sequence > seen[2].sequence


async def _some(desk: Desk, after: int, count: int) -> Any:
    feed = desk.events(after=after)
    for _ in range(count):
        yield await asyncio.wait_for(anext(feed), PATIENCE)
    await feed.aclose()  # type: ignore[attr-defined]


async def test_events_begin_when_they_are_asked_for_and_not_with_the_past(url: str) -> None:
    async with Desk(url, agents=[Agent("Talker", model=Planned())]) as desk:
        first = await desk.start("Talker", "hello")
        await desk.wait(first.id, timeout=PATIENCE)
        feed = desk.events()
        coming = asyncio.create_task(anext(feed))
        await asyncio.sleep(0.1)
        second = await desk.start("Talker", "hello")
        event = await asyncio.wait_for(coming, PATIENCE)

    assert event.run_id == second.id


# -- nested agents, other desks ---------------------------------------------------------------------------------------


def office(witness: Witness) -> Agent[Any]:
    clerk = Agent("Clerk", tools=[witness.refund()], model=Planned(refunds(7), says="refunded"))
    ask = [{"type": "function_call", "name": "ask_clerk", "arguments": '{"input":"refund 7"}', "call_id": "a"}]
    return Agent("Office", tools=[clerk.as_tool("ask_clerk", "asks the clerk")], model=Planned(ask))


async def test_a_request_of_a_nested_agent_is_decided_from_outside(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[office(witness)])
    async with paused(desk, "Office") as (run, request), Desk(any_url, run=False) as other:
        asked = await other.pending(run_id=run.id)
        await other.decide(request.id, "approve", by="ann")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert [(each.tool, each.agent) for each in asked] == [("refund", "Office/ask_clerk(Clerk)")]
    assert ended.final_output == "done"
    assert witness.lines() == ["refund 7"]


async def test_an_edit_of_a_nested_call_is_checked_and_runs(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[office(witness)])
    async with paused(desk, "Office") as (run, request):
        with pytest.raises(UserError, match="refund"):
            await desk.decide(request.id, "edit", arguments={"order": "x"})
        await desk.decide(request.id, "edit", arguments={"order": 9})
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 9"]


async def test_a_grant_given_in_a_nested_run_reaches_the_next_run_of_the_same_path(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[office(witness)])
    async with paused(desk, "Office") as (run, request):
        await desk.decide(request.id, "approve", always=Grant(scope="agent"))
        await desk.wait(run.id, timeout=PATIENCE)
        second = await desk.start("Office", "again")
        second = await desk.wait(second.id, until="paused", timeout=PATIENCE)

    assert second.status == "ended"
    assert witness.lines() == ["refund 7"] * 2


async def test_two_agents_of_one_name_are_refused(url: str, witness: Witness) -> None:
    with pytest.raises(UserError, match="key"):
        Desk(url, agents=[support(witness), support(witness)])

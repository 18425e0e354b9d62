"""An approval with `not_before` lets its call begin at that time at the earliest, and can be taken back until then."""

from __future__ import annotations

import asyncio
import functools
import operator
from typing import Any, get_args

import msgspec
import pytest

from placet import Agent, function_tool
from placet.desk import Desk
from placet.facts import events as e
from placet.facts.errors import CallNotClaimable, GateTimeout
from placet.gate import Gate
from placet.testing import ManualClock, function_call
from tests.desk.scenes import PATIENCE, Planned, Witness, paused, refunds, support
from tests.gate.scenes import LIMITS

LATER = 5.0


@pytest.mark.promise("P19")
async def test_a_call_does_not_begin_before_its_time_whoever_drives_it(any_url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = Desk(any_url, agents=[support(witness)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        async with Desk(any_url, agents=[support(witness)], clock=clock, run=False) as other:
            for desk_or_other in (desk, other):
                await desk_or_other.drive(run.id)
            clock.advance(LATER - 0.01)
            await other.drive(run.id)
            before = witness.lines()
            clock.advance(0.01)
            await desk.wait(run.id, timeout=PATIENCE)

    assert before == []
    assert witness.lines() == ["refund 7"]


async def test_the_desk_wakes_up_for_it_by_itself_on_the_real_clock(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        until = desk._clock.now() + 0.3
        await desk.decide(request.id, "approve", by="ana", not_before=until)
        await desk.wait(run.id, timeout=PATIENCE)
        stored = await desk.store.load(run.id)

    assert stored is not None
    assert stored.log is not None
    begun = [line for line in stored.log.lines if b'["run",' in line]
    assert [msgspec.json.decode(line)[0] >= until for line in begun] == [True]
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P18")
async def test_until_then_it_can_be_taken_back_and_never_runs(any_url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = Desk(any_url, agents=[support(witness)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        asked = await desk.revoke(request.id, by="ana")
        clock.advance(10 * LATER)
        await desk.drive(run.id)
        (waits,) = await desk.pending()
        await desk.decide(waits.id, "reject", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert waits.id == asked.id
    assert witness.lines() == []


async def test_a_second_approval_without_a_time_begins_at_once(url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = Desk(url, agents=[support(witness)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        asked = await desk.revoke(request.id, by="ana")
        await desk.decide(asked.id, "approve", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 7"]


async def test_while_an_operator_holds_it_nobody_is_woken_again_and_again(any_url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = Desk(any_url, agents=[support(witness)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund", by="ops")
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        clock.advance(LATER)
        row = await desk.get(run.id)
        async with asyncio.timeout(PATIENCE):
            while row.wake_at is not None:
                await desk.drive(run.id)
                row = await desk.get(run.id)
        again = await desk.store.runnable(clock.now() + 1000, 10)
        before = witness.lines()
        await desk.release_hold("tool", "refund", by="ops")
        await desk.wait(run.id, timeout=PATIENCE)

    assert (row.wake_at, again, before) == (None, [], [])
    assert witness.lines() == ["refund 7"]


async def test_one_begins_at_its_time_while_a_call_of_the_same_turn_still_runs(url: str) -> None:
    slow, quick = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def copy() -> str:
        await asyncio.wait_for(slow.wait(), PATIENCE)
        return "copied"

    @function_tool(needs_approval=True)
    async def mail() -> str:
        quick.set()
        return "sent"

    turn = [function_call("copy", {}, call_id="a"), function_call("mail", {}, call_id="b")]
    desk = Desk(url, agents=[Agent("Support", tools=[copy, mail], model=Planned(turn))])
    async with paused(desk) as (run, _):
        first, second = await desk.pending()
        await desk.decide(second.id, "approve", by="ana", not_before=desk._clock.now() + 0.3)
        await desk.decide(first.id, "approve", by="ana")
        await asyncio.wait_for(quick.wait(), PATIENCE)
        still_runs = not slow.is_set()
        slow.set()
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert still_runs
    assert ended.final_output == "done"


async def test_a_call_of_a_nested_run_waits_for_its_time_too(url: str, witness: Witness) -> None:
    clock = ManualClock()
    clerk = Agent("Clerk", tools=[witness.refund()], model=Planned(refunds(7)))
    ask = [function_call("clerk", {"input": "refund"}, call_id="k")]
    boss: Agent[Any] = Agent("Boss", tools=[clerk.as_tool("clerk", "pays")], model=Planned(ask))
    desk = Desk(url, agents=[boss], clock=clock)
    async with paused(desk, "Boss") as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        await desk.drive(run.id)
        before = witness.lines()
        clock.advance(LATER)
        await desk.wait(run.id, timeout=PATIENCE)

    assert (before, witness.lines()) == ([], ["refund 7"])


async def test_an_approval_that_counts_for_a_while_counts_from_the_time_at_which_it_may_begin(
    url: str, witness: Witness
) -> None:
    clock = ManualClock()
    desk = Desk(url, agents=[support(witness, approval_valid_for=2.0)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        clock.advance(LATER + 1)
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P23")
async def test_a_guest_waits_until_it_may_claim_and_a_claim_before_that_is_refused(any_url: str) -> None:
    clock = ManualClock()
    desk = Desk(any_url, run=False, clock=clock)
    async with desk, Gate(desk.store, guest="jobs", clock=clock, limits=LIMITS) as gate:
        call = await gate.propose("refund", {"order": 7}, session="s", call_id="1")
        (request,) = await desk.pending()
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        with pytest.raises(GateTimeout):
            await gate.wait(call, 0.0)
        with pytest.raises(CallNotClaimable, match="may begin in 5 seconds"):
            await gate.claim(call)
        waiting = asyncio.create_task(gate.wait(call, PATIENCE))
        clock.advance(LATER)
        ready = await waiting
        permit = await gate.claim(call)

    assert ready.status == "claimable"
    assert permit.arguments == {"order": 7}


@pytest.mark.promise("P14")
async def test_code_that_does_not_know_the_fact_refuses_the_log(url: str, witness: Witness) -> None:
    new = (e.ClaimDelayed, e.DelayOver)
    kinds = functools.reduce(operator.or_, [kind for kind in get_args(e.PlainFact) if kind not in new])
    old: msgspec.json.Decoder[Any] = msgspec.json.Decoder(tuple[float, list[kinds]])  # type: ignore[valid-type]
    clock = ManualClock()
    desk = Desk(url, agents=[support(witness)], clock=clock)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
        stored = await desk.store.load(run.id)

    assert stored is not None
    assert stored.log is not None
    (delayed,) = [line for line in stored.log.lines if b"notbefore" in line]
    with pytest.raises(msgspec.ValidationError, match="notbefore"):
        old.decode(delayed)


async def test_a_restart_loses_neither_the_approval_nor_its_time(url: str, witness: Witness) -> None:
    clock = ManualClock()
    page = Desk(url, run=False, clock=clock)
    async with paused(Desk(url, agents=[support(witness)], clock=clock)) as (run, request), page:
        await page.decide(request.id, "approve", by="ana", not_before=clock.now() + LATER)
    async with Desk(url, agents=[support(witness)], clock=clock, run=False) as second:
        await second.drive(run.id)
        before = witness.lines()
        clock.advance(LATER)
        await second.drive(run.id)

    assert (before, witness.lines()) == ([], ["refund 7"])


async def test_a_rejection_and_an_answer_take_no_time_and_a_tool_says_how_long_its_own_is(
    url: str, witness: Witness
) -> None:
    desk = Desk(url, agents=[support(witness, undo_window=30.0)], clock=ManualClock())
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "reject", by="ana", not_before=desk._clock.now() + LATER)
        await desk.wait(run.id, timeout=PATIENCE)
        stored = await desk.store.load(run.id)

    assert request.undo_window == 30.0
    assert stored is not None
    assert stored.log is not None
    assert not any(b"notbefore" in line for line in stored.log.lines)

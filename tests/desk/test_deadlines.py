"""Deadlines: nothing is decided by mere waiting unless it was asked for, and time is what the test says it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import PlacetError, RunConfig, StaleApproval
from placet.desk import Desk
from placet.stores.opening import open_store
from placet.testing import ManualClock
from placet.testing.desk_contracts import until
from tests.desk.scenes import PATIENCE, Witness, outputs, paused, refunds, support


def desk_at(url: str, clock: ManualClock, witness: Witness, *turns: Any, **options: Any) -> Desk:
    return Desk(open_store(url, clock=clock), agents=[support(witness, *turns, **options)], clock=clock)


async def test_a_question_that_nobody_answers_in_time_ends_as_it_was_asked_to(any_url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = desk_at(any_url, clock, witness, decide_within=60)
    async with paused(desk) as (run, request):
        clock.advance(59)
        await asyncio.sleep(1.2)
        before = (await desk.get(run.id)).status
        clock.advance(2)
        ended = await desk.wait(run.id, timeout=PATIENCE)
        row, told = await desk.request(request.id), await outputs(desk, run.id)
        with pytest.raises(PlacetError):
            await desk.decide(request.id, "approve", by="late")
    await desk.store.close()

    assert request.expires_at == pytest.approx(1_800_000_060.0)
    assert (before, ended.status, row.status) == ("waiting", "ended", "closed")
    assert "in time" in str(told[0])
    assert witness.lines() == []


async def test_a_late_answer_is_refused_also_before_anybody_has_swept(url: str, witness: Witness) -> None:
    clock = ManualClock()
    async with paused(desk_at(url, clock, witness, decide_within=60)) as (_, request):
        pass
    clock.advance(61)
    async with Desk(url, run=False, clock=clock) as desk:
        with pytest.raises(StaleApproval, match="too late"):
            await desk.decide(request.id, "approve", by="late")

    assert witness.lines() == []


async def _is_escalated(desk: Desk, request_id: str) -> bool:
    return (await desk.request(request_id)).escalated_at is not None


async def _is_given_back(desk: Desk, witness: Witness, line: str) -> bool:
    """The effect has happened, and nobody drives: a leap of the clock takes no lease from anybody."""
    return line in witness.lines() and (await desk.health()).driving == 0


async def _is_set_aside(desk: Desk, run_id: str) -> bool:
    return (await desk.get(run_id)).held is not None and (await desk.health()).driving == 0


async def test_an_escalated_question_waits_on_and_can_be_answered(url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = desk_at(url, clock, witness, decide_within=60, at_deadline="escalate")
    async with paused(desk) as (run, request):
        clock.advance(61)
        await until(lambda: _is_escalated(desk, request.id))
        (left,) = await desk.pending(run_id=run.id)
        await desk.decide(left.id, "approve", by="the boss")
        ended = await desk.wait(run.id, timeout=PATIENCE)
    await desk.store.close()

    assert left.id == request.id
    assert (request.expires_at, request.escalated_at) == (request.created_at + 60, None)
    assert (left.expires_at, left.escalated_at) == (None, request.created_at + 61)
    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_waiting_alone_decides_nothing(url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = desk_at(url, clock, witness)
    async with paused(desk) as (run, request):
        clock.advance(10 * 365 * 86400)
        await asyncio.sleep(1.2)
        (left,) = await desk.pending(run_id=run.id)
        await desk.decide(left.id, "approve")
        await desk.wait(run.id, timeout=PATIENCE)
    await desk.store.close()

    assert (left.id, left.expires_at) == (request.id, None)
    assert witness.lines() == ["refund 7"]


async def test_an_approval_that_was_not_used_in_time_is_asked_about_anew(url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = desk_at(url, clock, witness, approval_valid_for=30)
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "approve", by="ann")
        await until(lambda: _is_set_aside(desk, run.id))
        clock.advance(31)
        await desk.release_hold("tool", "refund")
        again = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (asked,) = await desk.pending(run_id=run.id)
        before = witness.lines()
        await desk.decide(asked.id, "approve", by="ann")
        await desk.wait(run.id, timeout=PATIENCE)
    await desk.store.close()

    assert again.status == "waiting"
    assert asked.id != request.id
    assert "in time" in str(asked.why)
    assert before == []
    assert witness.lines() == ["refund 7"]


async def test_a_sibling_that_was_decided_is_not_touched_by_the_deadline(url: str, witness: Witness) -> None:
    clock = ManualClock()
    desk = desk_at(url, clock, witness, refunds(1, 2), decide_within=60)
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve")
        await until(lambda: _is_given_back(desk, witness, "refund 1"))
        clock.advance(61)
        await desk.wait(run.id, timeout=PATIENCE)
    await desk.store.close()

    assert witness.lines() == ["refund 1"]


async def test_a_desk_that_opens_its_store_itself_gives_it_its_clock(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)], clock=ManualClock())
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_the_clock_of_a_desk_is_the_clock_of_its_runs_whatever_else_is_configured(
    url: str, witness: Witness
) -> None:
    clock = ManualClock()
    agents = [support(witness, decide_within=60)]
    desk = Desk(open_store(url, clock=clock), agents=agents, clock=clock, run_config=RunConfig(max_tool_concurrency=1))
    async with paused(desk) as (_, request):
        pass
    await desk.store.close()

    assert request.expires_at == pytest.approx(1_800_000_060.0)

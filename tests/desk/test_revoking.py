"""An approval can be taken back until its call begins; whoever comes too late is told so, and nobody both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from placet import Agent, NotPending, RunFinished, Runner, RunState, StaleApproval
from placet.core.log import read_lines
from placet.desk import Desk
from placet.facts.events import AnyFact, DecisionRevoked
from tests.desk.scenes import PATIENCE, Planned, Witness, paused, refunds, support
from tests.desk.test_desk import office

SEED = 20
ROUNDS = 12


async def test_an_approval_that_is_taken_back_asks_anew_and_the_call_does_not_run(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "approve", by="ana")
        asked = await desk.revoke(request.id, by="ops", reason="wrong customer")
        await desk.release_hold("tool", "refund")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        former = await desk.request(request.id)
        with pytest.raises(StaleApproval, match="asked about anew"):
            await desk.decide(request.id, "approve", by="ana")
        await desk.decide(asked.id, "reject", by="ops")
        await desk.wait(run.id, timeout=PATIENCE)

    assert (rested.status, asked.status, asked.digest) == ("waiting", "pending", request.digest)
    assert asked.why == "its approval was taken back by ops: wrong customer"
    assert (former.status, former.decided_by, former.reason) == ("closed", "ops", "wrong customer")
    assert witness.lines() == []


async def test_a_call_that_was_taken_back_and_approved_again_runs_once(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "edit", by="ana", arguments={"order": 8})
        asked = await desk.revoke(request.id, by="ops")
        await desk.decide(asked.id, "approve", by="ana")
        await desk.release_hold("tool", "refund")
        await desk.wait(run.id, timeout=PATIENCE)

    assert asked.arguments == {"order": 7}
    assert witness.lines() == ["refund 7"]


async def test_an_old_copy_of_the_approval_does_not_bring_it_back(url: str, witness: Witness) -> None:
    agent = support(witness)
    desk = Desk(url, agents=[agent], run=False)
    async with desk:
        result = await Runner.run(agent, "Refund order 7", store=desk.store)
        state = result.to_state()
        state.approve("c7", by="ana")
        text = state.to_string()
        (request,) = await desk.pending()
        await desk.decide(request.id, "approve", by="ana")
        await desk.revoke(request.id, by="ops")

        with pytest.raises(StaleApproval, match="asked about anew"):
            await Runner.run(agent, await RunState.from_string(agent, text), store=desk.store)

    assert witness.lines() == []


async def test_the_grant_that_was_made_with_an_approval_is_taken_back_with_it(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(7), refunds(8))])
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "approve", by="ana", always=True)
        asked = await desk.revoke(request.id, by="ops")
        await desk.release_hold("tool", "refund")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        waiting = await desk.pending(run_id=run.id)
        before = witness.lines()
        await desk.decide(asked.id, "approve", by="ana")
        while not (next_asked := await desk.pending(run_id=run.id)):
            await desk.store.wait_for_news(await desk.store.latest_sequence(), PATIENCE)

    assert (rested.status, [each.id for each in waiting], before) == ("waiting", [asked.id], [])
    assert [each.id for each in next_asked] == [f"{run.id}_t2c0_q1"], "the next call is asked about again"
    assert witness.lines() == ["refund 7"]


async def test_a_grant_does_not_decide_what_a_person_took_back(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(7), refunds(8))])
    async with paused(desk) as (run, request):
        await desk.hold("tool", "refund")
        await desk.grant("Support", "refund", "approve", by="ana")
        await desk.decide(request.id, "approve", by="ana")
        asked = await desk.revoke(request.id, by="ops")
        await desk.release_hold("tool", "refund")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        waiting = await desk.pending(run_id=run.id)
        before = witness.lines()
        await desk.decide(asked.id, "approve", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert (rested.status, [each.id for each in waiting], before) == ("waiting", [asked.id], [])
    assert witness.lines() == ["refund 7", "refund 8"], "the grant still holds for the next call"


async def test_a_call_of_a_nested_agent_can_be_taken_back(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[office(witness)])
    async with paused(desk, "Office") as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "approve", by="ana")
        asked = await desk.revoke(request.id, by="ops")
        await desk.release_hold("tool", "refund")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)

    assert (rested.status, asked.agent, asked.status) == ("waiting", request.agent, "pending")
    assert witness.lines() == []


async def test_what_has_happened_cannot_be_taken_back(any_url: str, witness: Witness) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    agent = support(witness, refunds(7, 8))
    tool_function = agent.tools[0].on_invoke_tool

    async def slow(ctx: object, arguments: str) -> object:
        begun.set()
        await go_on.wait()
        return await tool_function(ctx, arguments)  # type: ignore[arg-type]

    agent.tools[0].on_invoke_tool = slow  # type: ignore[misc]
    desk = Desk(any_url, agents=[agent])
    async with paused(desk) as (run, request):
        _, other = await desk.pending(run_id=run.id)
        await desk.decide(request.id, "approve", by="ana")
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        with pytest.raises(StaleApproval, match=r"'approve' by ana at .* any more: the call is at work"):
            await desk.revoke(request.id, by="ops")
        go_on.set()
        await desk.decide(other.id, "reject", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)
        with pytest.raises(RunFinished, match="The run has ended"):
            await desk.revoke(request.id, by="ops")

    assert witness.lines() == ["refund 7"]


async def test_only_an_approval_can_be_taken_back(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness, refunds(7, 8))], run=False)
    async with desk:
        await Runner.run(support(witness, refunds(7, 8)), "go", store=desk.store)
        first, second = await desk.pending()
        await desk.decide(first.id, "reject", by="ana")

        with pytest.raises(StaleApproval, match="only an approval can"):
            await desk.revoke(first.id, by="ops")
        with pytest.raises(NotPending, match="no decision that could be revoked"):
            await desk.revoke(second.id, by="ops")
        with pytest.raises(NotPending, match="no request"):
            await desk.revoke("run_x:1.0#1", by="ops")


async def test_a_run_again_that_is_taken_back_leaves_the_call_in_doubt(url: str, witness: Witness) -> None:
    agent = Agent("Support", tools=[witness.refund(needs_approval=False)], model=Planned(refunds(7)))
    gone = asyncio.Event()

    async def dies(ctx: object, arguments: str) -> object:
        gone.set()
        await asyncio.Event().wait()
        raise AssertionError

    agent.tools[0].on_invoke_tool = dies  # type: ignore[misc]
    async with Desk(url, agents=[agent], grace=0) as desk:
        run = await desk.start("Support", "go")
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
    async with Desk(url, agents=[support(witness, needs_approval=False)], run=False) as desk:
        (request,) = await desk.pending(run_id=run.id)
        await desk.decide(request.id, "approve", by="ana")
        asked = await desk.revoke(request.id, by="ops")

    assert (request.kind, asked.kind, asked.status) == ("in_doubt", "in_doubt", "pending")


async def test_of_a_revocation_and_the_claim_exactly_one_wins(any_url: str, witness: Witness) -> None:
    chance = random.Random(SEED)
    agent = support(witness)
    outcomes: list[str] = []
    async with Desk(any_url, agents=[agent]) as desk, Desk(any_url, run=False) as office_desk:
        for _ in range(ROUNDS):
            run = await desk.start("Support", "go")
            await desk.wait(run.id, until="paused", timeout=PATIENCE)
            (request,) = await desk.pending(run_id=run.id)
            before = len(witness.lines())
            await office_desk.decide(request.id, "approve", by="ana")  # the driving desk learns of it later
            await asyncio.sleep(chance.uniform(0, 0.1))
            try:
                asked = await office_desk.revoke(request.id, by="ops")
            except (StaleApproval, RunFinished):
                await desk.wait(run.id, timeout=PATIENCE)
                outcomes.append("too late")
                assert len(witness.lines()) == before + 1
            else:
                rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
                outcomes.append("revoked")
                assert (rested.status, len(witness.lines())) == ("waiting", before)
                assert [each.id for each in await desk.pending(run_id=run.id)] == [asked.id]

    assert len(outcomes) == ROUNDS, f"seed {SEED}: {outcomes}"


async def test_a_claim_that_comes_second_is_not_made(any_url: str, witness: Witness) -> None:
    """The revocation is written exactly between the driver's look and its claim."""
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        append, revoked = desk.store.append, asyncio.Event()

        async def just_before(lease: object, log: object, lines: object, fold: object) -> None:
            is_claim = any(type(fact).__name__ == "CallsStarted" for line in lines for fact in line.facts)  # type: ignore[attr-defined]
            if is_claim and not revoked.is_set():
                revoked.set()
                async with Desk(any_url, run=False) as other:
                    await other.revoke(request.id, by="ops")
            await append(lease, log, lines, fold)  # type: ignore[arg-type]

        desk.store.append = just_before  # type: ignore[method-assign,assignment]
        await desk.decide(request.id, "approve", by="ana")
        async with asyncio.timeout(PATIENCE):
            await revoked.wait()
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        facts = [fact async for fact in _facts(desk, run.id)]

    assert rested.status == "waiting"
    assert witness.lines() == []
    assert sum(isinstance(fact, DecisionRevoked) for fact in facts) == 1
    assert not any(type(fact).__name__ == "CallsStarted" for fact in facts)


async def _facts(desk: Desk, run_id: str) -> AsyncIterator[AnyFact]:
    stored = await desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    for record in read_lines(stored.log.lines):
        for fact in record.facts:
            yield fact

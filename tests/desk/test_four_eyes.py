"""Where four eyes are demanded, nobody gets a call of their own run through alone: every way around is tried here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placet import AccessDenied, Agent, Grant, RunConfig, Runner, RunState, ToolOutcomeUnknown, UserError, function_tool
from placet.core.four_eyes import is_demanded, why_approval_does_not_count
from placet.core.log import read_lines
from placet.core.votes import Person
from placet.desk import Desk
from placet.facts.events import FourEyesSet
from placet.service.records import records
from placet.stores.memory import MemoryStore
from placet.stores.opening import open_store
from tests.desk.scenes import PATIENCE, Planned, Witness, paused, refunds, support
from tests.desk.test_desk import office

pytestmark = pytest.mark.promise("P19")
EVERYWHERE = [("*", "*")]
BY_ANA = RunConfig(started_by="ana")


async def demand(url: str, *patterns: tuple[str, str]) -> None:
    """The rule, as set by somebody at another desk on the store."""
    async with Desk(url, run=False) as desk:
        await desk.set_four_eyes(patterns or EVERYWHERE, by="root")


# -- decisions by hand ------------------------------------------------------------------------------------------------

OWN_YES: dict[str, dict[str, Any]] = {
    "approve": {"verdict": "approve"},
    "approve, always in this run": {"verdict": "approve", "always": True},
    "approve, always for the agent": {"verdict": "approve", "always": Grant(scope="agent")},
    "edit": {"verdict": "edit", "arguments": {"order": 8}},
    "respond": {"verdict": "respond", "output": "done"},
}


@pytest.mark.parametrize("door", ["the desk that runs it", "a second desk"])
@pytest.mark.parametrize("word", OWN_YES)
async def test_whoever_started_a_run_cannot_say_yes_to_it_at_any_desk(
    any_url: str, witness: Witness, word: str, door: str
) -> None:
    await demand(any_url)
    first = Desk(any_url, agents=[support(witness)])
    async with paused(first, by="ana") as (run, request), Desk(any_url, run=False) as second:
        desk = first if door == "the desk that runs it" else second
        for name in ("ana", "ANA ", None):
            with pytest.raises(AccessDenied, match="four eyes"):
                await desk.decide(request.id, by=name, **OWN_YES[word])
        before = await first.request(request.id)
        grants = await first.grants()
        await desk.decide(request.id, "approve", by="ben")
        await first.wait(run.id, timeout=PATIENCE)

    assert before.status == "pending"
    assert grants == []
    assert witness.lines() == ["refund 7"]


async def test_a_no_is_everybodys_and_elsewhere_the_starter_may_say_yes(any_url: str, witness: Witness) -> None:
    await demand(any_url, ("Payroll*", "*"), ("*", "delete_*"))
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk, by="ana") as (run, request):
        await desk.decide(request.id, "approve", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)
        await desk.set_four_eyes(EVERYWHERE, by="root")
        own = await desk.start("Support", "again", by="ana")
        await desk.wait(own.id, until="paused", timeout=PATIENCE)
        (asked,) = await desk.pending(run_id=own.id)
        await desk.decide(asked.id, "reject", by="ana")
        await desk.wait(own.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 7"]


async def test_where_nobody_knows_who_started_a_run_only_a_no_counts(any_url: str, witness: Witness) -> None:
    await demand(any_url)
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        with pytest.raises(AccessDenied, match="the starter of this run is unknown"):
            await desk.decide(request.id, "approve", by="ben")
        await desk.decide(request.id, "reject", by="ben")
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == []


async def test_a_call_inside_a_nested_run_is_of_whoever_started_the_outermost(any_url: str, witness: Witness) -> None:
    await demand(any_url, ("Office/*", "refund"))
    desk = Desk(any_url, agents=[office(witness)])
    async with paused(desk, "Office", by="ana") as (run, request):
        with pytest.raises(AccessDenied, match="ana started this run"):
            await desk.decide(request.id, "approve", by="ana")
        await desk.decide(request.id, "approve", by="ben")
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 7"]


# -- standing decisions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", ["ana", "Ana", None], ids=["by name", "written otherwise", "without a name"])
async def test_a_standing_yes_made_before_the_run_does_not_cover_its_authors_own_run(
    any_url: str, witness: Witness, author: str | None
) -> None:
    await demand(any_url)
    desk = Desk(any_url, agents=[support(witness)])
    async with desk:
        await desk.grant("Support", "refund", "approve", by=author)
        own = await desk.start("Support", "mine", by="ana")
        own = await desk.wait(own.id, until="paused", timeout=PATIENCE)
        unknown = await desk.start("Support", "nobody's")
        unknown = await desk.wait(unknown.id, until="paused", timeout=PATIENCE)
        bens = await desk.start("Support", "ben's", by="ben")
        bens = await desk.wait(bens.id, until="paused", timeout=PATIENCE)

    assert (own.status, unknown.status) == ("waiting", "waiting")
    assert bens.status == ("waiting" if author is None else "ended")
    assert witness.lines() == ([] if author is None else ["refund 7"])


async def test_a_standing_yes_made_while_the_call_waits_does_not_cover_it_and_anothers_does(
    any_url: str, witness: Witness
) -> None:
    await demand(any_url)
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk, by="ana") as (run, _):
        await desk.grant("Support", "refund", "approve", by="ana")
        await desk.resume(run.id, by="ana")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        lines = witness.lines()
        await desk.grant("Support", "refund", "approve", by="ben")
        await desk.resume(run.id, by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert lines == []
    assert ended.status == "ended"
    assert witness.lines() == ["refund 7"]


async def test_an_older_no_of_another_decides_where_the_newer_yes_does_not_count(url: str, witness: Witness) -> None:
    await demand(url)
    desk = Desk(url, agents=[support(witness)])
    async with desk:
        await desk.grant("Support", "refund", "reject", by="ben")
        await desk.grant("Support", "refund", "approve", by="ana")
        run = await desk.start("Support", "mine", by="ana")
        run = await desk.wait(run.id, until="paused", timeout=PATIENCE)

    assert run.status == "ended"
    assert witness.lines() == []


async def test_a_standing_yes_given_in_anothers_run_does_not_reach_ones_own(any_url: str, witness: Witness) -> None:
    await demand(any_url)
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk, by="ben") as (run, request):
        await desk.decide(request.id, "approve", by="ana", always=Grant(scope="agent"))
        await desk.wait(run.id, timeout=PATIENCE)
        own = await desk.start("Support", "mine", by="ana")
        own = await desk.wait(own.id, until="paused", timeout=PATIENCE)

    assert own.status == "waiting"
    assert witness.lines() == ["refund 7"]


async def test_a_standing_yes_of_a_nested_call_does_not_cover_its_authors_own_run(url: str, witness: Witness) -> None:
    await demand(url)
    desk = Desk(url, agents=[office(witness)])
    async with paused(desk, "Office", by="ben") as (run, request):
        await desk.decide(request.id, "approve", by="ana", always=Grant(scope="agent"))
        await desk.wait(run.id, timeout=PATIENCE)
        own = await desk.start("Office", "mine", by="ana")
        own = await desk.wait(own.id, until="paused", timeout=PATIENCE)

    assert own.status == "waiting"
    assert witness.lines() == ["refund 7"]


# -- states that are carried around -----------------------------------------------------------------------------------

STATE_WORDS: dict[str, Callable[[RunState[Any], str | None], object]] = {
    "approve": lambda state, by: state.approve("c7", by=by),
    "always": lambda state, by: state.approve("c7", always_approve=True, by=by),
    "edit": lambda state, by: state.approve("c7", arguments={"order": 8}, by=by),
    "respond": lambda state, by: state.respond("c7", "done", by=by),
}


@pytest.mark.parametrize("word", STATE_WORDS)
async def test_a_state_with_the_starters_own_yes_is_refused_before_anything_runs(
    any_url: str, witness: Witness, word: str
) -> None:
    await demand(any_url)
    agent = support(witness)
    async with open_store(any_url) as store:
        result = await Runner.run(agent, "Refund order 7", store=store, run_config=BY_ANA)
        for name in ("ana", None):
            state = result.to_state()
            STATE_WORDS[word](state, name)
            with pytest.raises(AccessDenied, match="four eyes"):
                await Runner.run(agent, state, store=store)
        lines = witness.lines()
        state = result.to_state()
        state.approve("c7", by="ben")
        ended = await Runner.run(agent, state, store=store)

    assert lines == []
    assert ended.final_output == "done"
    assert witness.lines() == ["refund 7"]


async def test_a_standing_yes_on_a_state_of_anothers_call_does_not_reach_ones_own_next_call(
    url: str, witness: Witness
) -> None:
    await demand(url)
    agent = support(witness, refunds(7), refunds(8))
    async with open_store(url) as store:
        result = await Runner.run(agent, "Refund", store=store, run_config=BY_ANA)
        state = result.to_state()
        state.approve("c7", by="ben", always_approve=True)
        ended = await Runner.run(agent, state, store=store)

    assert ended.final_output == "done"
    assert witness.lines() == ["refund 7", "refund 8"]


async def test_a_yes_of_ones_own_while_the_run_is_driven_is_refused(url: str, witness: Witness) -> None:
    await demand(url)
    agent = support(witness)
    async with open_store(url) as store:
        result = await Runner.run(agent, "Refund order 7", store=store, run_config=BY_ANA)
        result.context_wrapper.approve_tool(result.interruptions[0])
        with pytest.raises(AccessDenied, match="four eyes"):
            await Runner.run(agent, result.to_state(), store=store)

    assert witness.lines() == []


async def test_without_a_rule_a_state_is_resumed_as_ever(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with open_store(url) as store:
        result = await Runner.run(agent, "Refund order 7", store=store, run_config=BY_ANA)
        state = result.to_state()
        state.approve("c7", by="ana")
        await Runner.run(agent, state, store=store)

    assert witness.lines() == ["refund 7"]
    assert list(await MemoryStore().four_eyes()) == []


# -- the last look before the claim -----------------------------------------------------------------------------------


async def test_what_was_approved_before_the_rule_and_has_not_begun_is_asked_about_anew(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk, by="ana") as (run, request):
        await desk.hold("tool", "refund")
        await desk.decide(request.id, "approve", by="ana")
        await demand(any_url)
        await desk.release_hold("tool", "refund")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (asked,) = await desk.pending(run_id=run.id)
        lines = witness.lines()
        await desk.decide(asked.id, "approve", by="ben")
        await desk.wait(run.id, timeout=PATIENCE)
        told = [entry.what async for entry in records(desk.store, run.id)]

    assert rested.status == "waiting"
    assert lines == []
    assert asked.id != request.id
    assert "does not count" in str(asked.why)
    assert told.count("approval revoked") == 1
    assert witness.lines() == ["refund 7"]


async def test_a_standing_yes_that_decided_before_the_rule_does_not_start_the_call_after_it(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with desk:
        await desk.hold("tool", "refund")
        await desk.grant("Support", "refund", "approve", by="ana")
        run = await desk.start("Support", "mine", by="ana")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        await demand(any_url)
        await desk.release_hold("tool", "refund")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        asked = await desk.pending(run_id=run.id)

    assert len(asked) == 1
    assert witness.lines() == []


async def test_running_a_call_in_doubt_again_takes_somebody_else(url: str, witness: Witness) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: int) -> str:
        witness.write(f"refund {order}")
        if len(witness.lines()) == 1:
            raise ToolOutcomeUnknown("the line went dead")
        return "refunded"

    agent = Agent("Support", tools=[refund], model=Planned(refunds(7)))
    await demand(url)
    desk = Desk(url, agents=[agent])
    async with paused(desk, by="ana") as (run, request):
        await desk.decide(request.id, "approve", by="ben")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (doubt,) = await desk.pending(run_id=run.id)
        with pytest.raises(AccessDenied, match="four eyes"):
            await desk.decide(doubt.id, "approve", by="ana")
        await desk.decide(doubt.id, "approve", by="ben")
        await desk.wait(run.id, timeout=PATIENCE)

    assert doubt.kind == "in_doubt"
    assert witness.lines() == ["refund 7", "refund 7"]


# -- the setting ------------------------------------------------------------------------------------------------------


async def test_the_rule_is_the_stores_and_its_changes_are_facts(any_url: str) -> None:
    async with Desk(any_url, run=False) as one, Desk(any_url, run=False) as other:
        await one.demand_four_eyes([("Pay*", "*")], by="ops", reason="audit")
        await other.demand_four_eyes([("*", "delete"), ("Pay*", "*")], by="ops")
        again = await one.demand_four_eyes([("Pay*", "*")], by="ops")
        off = await other.set_four_eyes([], by="root", reason="migration")
        await other.set_four_eyes([], by="root")
        log = await one.store.operators_log()
        told = [(entry.what, entry.subject, entry.by, entry.why) async for entry in records(one.store, "operators")]

    assert again == [("Pay*", "*"), ("*", "delete")]
    assert off == []
    facts = [fact for line in read_lines(log.lines) for fact in line.facts]
    assert [(fact.patterns, fact.by) for fact in facts if isinstance(fact, FourEyesSet)] == [
        ([("Pay*", "*")], "ops"),
        ([("Pay*", "*"), ("*", "delete")], "ops"),
        ([], "root"),
    ]
    assert told[0] == ("four eyes set", "Pay*:*", "ops", "audit")
    assert told[2] == ("four eyes set", "nowhere", "root", "migration")
    assert log.verify()


TOO_MANY = [("*", str(number)) for number in range(101)]


@pytest.mark.parametrize("patterns", [[("",)], [("a", "")], ["x"], [("a", "b", "c")], TOO_MANY])
async def test_what_is_no_pattern_is_refused(url: str, patterns: Any) -> None:
    async with Desk(url, run=False) as desk:
        with pytest.raises(UserError):
            await desk.set_four_eyes(patterns)

        assert await desk.four_eyes() == []


PEOPLE = {"ana-at-night": Person("ana"), "jobs": Person("jobs", owner="ben")}


def test_the_owner_of_a_guest_is_the_one_who_started_it() -> None:
    def why(author: str, guest: str) -> str:
        given = {"agent": "python/jobs", "tool": "t", "started_by": guest, "author": author, "guest": guest}
        return why_approval_does_not_count([("*", "*")], PEOPLE, **given) or ""

    assert "answers for guest jobs" in why("ben", "jobs")
    assert why("ana", "jobs") == ""
    assert "not known who answers" in why("ana", "stranger")


def test_what_is_not_known_is_not_somebody_else() -> None:
    def counts(started_by: str | None, author: str | None, agent: str = "Payroll") -> bool:
        given = {"agent": agent, "tool": "t", "started_by": started_by, "author": author}
        return why_approval_does_not_count([("Pay*", "*")], PEOPLE, **given) is None

    assert counts("ana", "ben")
    assert counts("ana", "ana", agent="Support")
    assert counts(None, None, agent="Support")
    assert not counts("ana", "ana")
    assert not counts("ana", " Ana")
    assert not counts("ana", "ana-at-night")  # a second account of one human being
    assert not counts("ana", None)
    assert not counts(None, "ben")
    assert not counts(None, None)
    assert is_demanded([("A/*", "pay?")], "A/b", "pay1")
    assert not is_demanded([("A/*", "pay?")], "A/b", "pay")

"""Votes in a program: requirements of tools, states that gather votes, edits, merging, taking back, standing decisions,
and the last look before a claim."""

from __future__ import annotations

from typing import Any

import pytest

from placet import (
    AccessDenied,
    Agent,
    Grant,
    Needs,
    Runner,
    RunState,
    StaleApproval,
    ToolOutcomeUnknown,
    UserError,
    function_tool,
)
from placet.core.log import read_lines
from placet.facts.events import DecisionMade, VoteCast
from placet.testing import ManualClock
from tests.runtime.scenes import OwnStore, Tools, call, done, scripted

TWO = Needs(2)


def clerk(tools: Tools, approvers: Any = TWO, *turns: list[Any], **options: Any) -> Agent[Any]:
    first = [call("pay", 5, "c1")]
    return scripted([*(turns or [first]), done()], tools.gated(approvers=approvers, **options))


async def paused(agent: Agent[Any], store: OwnStore | None = None) -> RunState[Any]:
    result = await Runner.run(agent, "go", store=store or OwnStore())
    assert len(result.interruptions) == 1
    return result.to_state()


@pytest.mark.promise("P24")
async def test_one_vote_of_two_leaves_the_run_paused_and_says_what_is_missing() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    [item] = state.get_interruptions()
    assert (item.votes, item.missing) == ((), 2)

    state.approve(item, by="ana", reason="checked")
    [item] = state.get_interruptions()
    assert ([vote.by for vote in item.votes], item.missing) == (["ana"], 1)
    result = await Runner.run(agent, state, store=store)

    assert tools.ran == []
    [item] = result.interruptions
    assert ([(vote.by, vote.verdict, vote.assurance) for vote in item.votes], item.missing) == (
        [("ana", "approve", "none")],
        1,
    )
    assert result.context_wrapper.is_tool_approved("pay", "c1") is None
    state = result.to_state()
    state.approve(item, by="ben")
    result = await Runner.run(agent, state, store=store)
    assert (result.final_output, tools.ran) == ("done", [("pay", 5)])


@pytest.mark.promise("P24")
async def test_the_vote_that_fulfils_stands_in_one_record_with_the_decision() -> None:
    agent, store = clerk(Tools()), OwnStore()
    state = await paused(agent, store)
    for name in ("ana", "ben"):
        state.approve("c1", by=name)
        state = (await Runner.run(agent, state, store=store)).to_state()

    [line] = [r.facts for r in read_lines(state._log.lines) if any(isinstance(f, DecisionMade) for f in r.facts)]
    vote, decision = line[0], line[1]
    assert isinstance(vote, VoteCast)
    assert isinstance(decision, DecisionMade)
    assert (vote.by, decision.by, decision.verdict, decision.digest) == ("ben", "ben", "approve", vote.digest)


@pytest.mark.parametrize("travels", [False, True])
async def test_votes_of_two_people_on_one_state_decide_together(travels: bool) -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    state.approve("c1", by="ana")
    if travels:
        state = await RunState.from_string(agent, state.to_string())
    state.approve("c1", by="ben")

    result = await Runner.run(agent, state, store=store)

    assert (result.final_output, tools.ran) == ("done", [("pay", 5)])


@pytest.mark.parametrize("names", [("ana", "ana"), (None, None), ("ana", " Ana ")])
async def test_one_person_is_one_vote(names: tuple[str | None, ...]) -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    for name in names:
        state.approve("c1", by=name)
        state = (await Runner.run(agent, state, store=store)).to_state()

    assert tools.ran == []
    assert state.get_interruptions()[0].missing == 1


async def test_one_denial_rejects_and_the_model_reads_its_message() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    state.approve("c1", by="ana")
    state.reject("c1", by="ben", rejection_message="too much")

    result = await Runner.run(agent, state, store=store)

    assert tools.ran == []
    assert "too much" in str(agent.model.calls[1].input)  # type: ignore[union-attr]
    assert result.final_output == "done"


async def test_denials_have_a_threshold() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(1, deny=2))
    state = await paused(agent, store)
    state.reject("c1", by="ben")
    state = (await Runner.run(agent, state, store=store)).to_state()
    assert [vote.verdict for vote in state.get_interruptions()[0].votes] == ["reject"]

    state.approve("c1", by="ana")
    await Runner.run(agent, state, store=store)

    assert tools.ran == [("pay", 5)]


@pytest.mark.promise("P18")
async def test_a_changed_mind_counts_once_and_the_newer_way() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(2, deny=2))
    state = await paused(agent, store)
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    state.reject("c1", by="ana")
    state.approve("c1", by="ben")

    state = (await Runner.run(agent, state, store=store)).to_state()

    assert tools.ran == []
    assert {vote.by: vote.verdict for vote in state.get_interruptions()[0].votes} == {"ana": "reject", "ben": "approve"}


@pytest.mark.promise("P18")
async def test_merging_unites_votes_of_different_people_and_keeps_the_newer_of_one() -> None:
    tools, store, clock = Tools(), OwnStore(), ManualClock()
    agent = clerk(tools, Needs(2, deny=2))
    first = await paused(agent, store)
    first._clock = clock
    second = await RunState.from_string(agent, first.to_string(), clock=clock)
    first.approve("c1", by="ana")
    clock.advance(1)
    second.reject("c1", by="ana")
    second.approve("c1", by="ben")

    for state, other in ((first, second), (second, first)):
        twin = (await RunState.from_string(agent, state.to_string(), clock=clock)).merge(other)
        found = {vote.by: vote.verdict for vote in twin.get_interruptions()[0].votes}
        assert found == {"ana": "reject", "ben": "approve"}


@pytest.mark.promise("P18")
async def test_merging_is_an_error_where_two_people_contradict_each_other_and_each_decides() -> None:
    agent, store = clerk(Tools(), Needs(1)), OwnStore()
    first = await paused(agent, store)
    second = await RunState.from_string(agent, first.to_string())
    first.approve("c1", by="ana")
    second.reject("c1", by="ben")

    with pytest.raises(StaleApproval, match=r"ana.*ben"):
        first.merge(second)

    assert [vote.by for vote in first.get_interruptions()[0].votes] == ["ana"]


@pytest.mark.promise("P24")
async def test_a_late_copy_of_a_vote_counts_neither_twice_nor_after_a_newer_one() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(2, deny=2))
    state = await paused(agent, store)
    copy = await RunState.from_string(agent, state.to_string())
    copy.approve("c1", by="ana")
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    state.reject("c1", by="ana")
    await Runner.run(agent, state, store=store)

    state = (await Runner.run(agent, copy, store=store)).to_state()

    assert {vote.by: vote.verdict for vote in state.get_interruptions()[0].votes} == {"ana": "reject"}
    cast = [fact for record in read_lines(state._log.lines) for fact in record.facts if isinstance(fact, VoteCast)]
    assert [vote.verdict for vote in cast] == ["approve", "reject"]


async def test_a_name_in_a_program_cannot_vote_for_a_group_and_is_told_so() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(1, group="finance"))
    state = await paused(agent, store)
    [item] = state.get_interruptions()
    assert item.missing is None
    state.approve(item, by="ana")

    with pytest.raises(AccessDenied, match="not a member of a group"):
        await Runner.run(agent, state, store=store)

    assert tools.ran == []


async def test_a_function_says_what_these_arguments_need() -> None:
    tools, store = Tools(), OwnStore()

    async def who(_ctx: Any, params: dict[str, Any], _call_id: str) -> Needs | None:
        return Needs(2) if params["n"] > 100 else None

    turns = [[call("pay", 5, "c1"), call("pay", 500, "c2")]]
    agent = clerk(tools, who, *turns)
    state = (await Runner.run(agent, "go", store=store)).to_state()
    for item in state.get_interruptions():
        state.approve(item, by="ana")

    result = await Runner.run(agent, state, store=store)

    assert tools.ran == [("pay", 5)]
    assert [item.call_id for item in result.interruptions] == ["c2"]


@pytest.mark.parametrize("wrong", [2, "finance", True])
async def test_a_function_that_says_something_else_stops_the_run_before_anybody_is_asked(wrong: Any) -> None:
    tools, store = Tools(), OwnStore()

    with pytest.raises(UserError, match="approvers"):
        await Runner.run(clerk(tools, lambda *_: wrong), "go", store=store)

    assert tools.ran == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"approvers": 2},
        {"approvers": Needs(2), "needs_approval": False},
        {"approvers": Needs(1, predicate="reviewer.age > 18")},
    ],
)
def test_approvers_that_make_no_sense_are_refused_where_they_are_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="approvers"):
        Tools().gated(**wrong)


@pytest.mark.promise("P24")
async def test_an_edit_that_is_not_enough_is_asked_about_in_the_place_of_the_first_question() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    before = state.get_interruptions()[0]
    state.approve("c1", by="ben", arguments={"n": 3})

    state = (await Runner.run(agent, state, store=store)).to_state()

    assert tools.ran == []
    [item] = state.get_interruptions()
    assert item.arguments == '{"n":3}'
    assert item.digest != before.digest
    assert item.request_id.endswith("_q2")
    assert ([vote.by for vote in item.votes], item.missing) == (["ben"], 1)
    with pytest.raises(StaleApproval):
        state.approve(before, by="cleo")
    state.approve(item, by="ana")
    result = await Runner.run(agent, state, store=store)
    assert tools.ran == [("pay", 3)]
    assert "A reviewer changed the arguments" in str(agent.model.calls[1].input)  # type: ignore[union-attr]
    assert result.final_output == "done"


async def test_an_edit_that_is_enough_decides() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(1))
    state = await paused(agent, store)
    state.approve("c1", by="ben", arguments={"n": 3})

    await Runner.run(agent, state, store=store)

    assert tools.ran == [("pay", 3)]


@pytest.mark.parametrize(("edited", "ran"), [(5, [("pay", 5)]), (700, [])])
async def test_an_edit_needs_what_the_new_arguments_need(edited: int, ran: list[Any]) -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, lambda _ctx, params, _id: Needs(2 if params["n"] > 100 else 1), [call("pay", 500, "c1")])
    state = await paused(agent, store)
    state.approve("c1", by="ben", arguments={"n": edited})

    result = await Runner.run(agent, state, store=store)

    assert tools.ran == ran
    assert bool(result.interruptions) == (not ran)


@pytest.mark.promise("P24")
async def test_the_author_of_an_edit_does_not_approve_it_where_somebody_else_has_to() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(1, distinct_from="editor"))
    state = await paused(agent, store)
    state.approve("c1", by="ben", arguments={"n": 3})
    state = (await Runner.run(agent, state, store=store)).to_state()
    assert tools.ran == []
    assert state.get_interruptions()[0].missing == 1

    state.approve("c1", by="ana")
    await Runner.run(agent, state, store=store)

    assert tools.ran == [("pay", 3)]


@pytest.mark.promise("P24")
async def test_always_is_a_standing_decision_only_if_all_who_count_want_the_same_one() -> None:
    for wanted, ran in ((True, 2), (Grant(uses=1), 1), (False, 1)):
        tools, store = Tools(), OwnStore()
        agent = clerk(tools, TWO, [call("pay", 5, "c1")], [call("pay", 6, "c2")])
        state = await paused(agent, store)
        state.approve("c1", True, by="ana")
        state.approve("c1", wanted, by="ben")

        result = await Runner.run(agent, state, store=store)

        assert len(tools.ran) == ran
        assert bool(result.interruptions) == (ran == 1)


@pytest.mark.promise("P24")
async def test_a_standing_decision_of_one_person_does_not_cover_what_needs_two() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(
        tools, lambda _c, p, _i: Needs(2) if p["n"] > 100 else None, [call("pay", 5, "c1")], [call("pay", 500)]
    )
    state = await paused(agent, store)
    state.approve("c1", True, by="ana")

    result = await Runner.run(agent, state, store=store)

    assert tools.ran == [("pay", 5)]
    [item] = result.interruptions
    assert item.why is None  # nothing was decided and taken back


@pytest.mark.promise("P19")
async def test_a_decision_that_no_votes_carry_does_not_run() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    run = state._run
    entry = run.ledger.entry("1.0")
    assert entry is not None
    forged = DecisionMade("1.0", entry.request, entry.digest, "approve", "mallory", 1.0)
    assert state._context is not None
    state._context._ledger.stage([forged])

    result = await Runner.run(agent, state, store=store)

    assert tools.ran == []
    [item] = result.interruptions
    assert "not carried by the votes" in (item.why or "")
    assert item.missing == 2


async def test_a_fork_takes_no_votes_along() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools)
    state = await paused(agent, store)
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    state.approve("c1", by="ben")

    twin = state.fork()

    [item] = twin.get_interruptions()
    assert (item.votes, item.missing) == ((), 2)
    assert item.requirement == TWO.requirement


async def test_a_call_that_may_have_happened_needs_the_same_votes_again() -> None:
    store = OwnStore()
    tries: list[int] = []

    @function_tool(needs_approval=True, approvers=TWO)
    async def pay(n: int) -> str:
        tries.append(n)
        if len(tries) == 1:
            raise ToolOutcomeUnknown("the line went dead")
        return "paid"

    agent = scripted([[call("pay", 5, "c1")], done()], pay)
    state = await paused(agent, store)
    for name in ("ana", "ben"):
        state.approve("c1", by=name)
    state = (await Runner.run(agent, state, store=store)).to_state()
    [item] = state.get_interruptions()
    assert (item.kind, item.votes, item.missing) == ("in_doubt", (), 2)
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    assert tries == [5]

    state.approve("c1", by="cleo")
    result = await Runner.run(agent, state, store=store)

    assert tries == [5, 5]
    assert result.final_output == "done"


@pytest.mark.promise("P11")
async def test_a_vote_in_a_document_that_claims_an_assurance_counts_as_a_name_alone() -> None:
    tools, store = Tools(), OwnStore()
    agent = clerk(tools, Needs(1, assurance="password"))
    state = await paused(agent, store)
    state.approve(state.get_interruptions()[0], by="ana")
    document = state.to_json()
    [vote] = document["staged"]
    fields = ["tag", *VoteCast.__struct_fields__]
    vote[fields.index("via")], vote[fields.index("assurance")] = "session", "signed"
    forged = await RunState.from_json(agent, document)

    with pytest.raises(AccessDenied, match="«none» is below «password»"):
        await Runner.run(agent, forged, store=store)

    assert tools.ran == []

"""P18: taking a decision back takes back all that it did; of two standing decisions the newer counts."""

from __future__ import annotations

import itertools

import pytest

from placet import Agent, Grant, RunConfig, RunContextWrapper, RunState, StaleApproval, ToolApprovalItem, UserError
from placet.core.approvals import rank
from placet.core.deciding import facts_to_append
from placet.core.fold import fold
from placet.desk import Desk
from placet.facts.events import GrantMade, GrantRevoked
from placet.testing import ManualClock, ScriptedModel, function_call
from tests.promises.scenes import DONE, cleanup, drive, item_of, kinds, reloaded, scene

pytestmark = pytest.mark.promise("P18")

THREE = [cleanup("/a", "c1"), cleanup("/b", "c2"), cleanup("/c", "c3")]


def waiting(state_or_result) -> list[str]:
    held = state_or_result.to_state() if hasattr(state_or_result, "to_state") else state_or_result
    return [item.call_id for item in held.get_interruptions()]


# -- on one state ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("travels", [False, True], ids=["here", "as_text"])
@pytest.mark.parametrize("second", ["reject", "approve", "respond", "edit"])
async def test_another_word_about_a_call_takes_the_standing_yes_back_that_was_made_with_the_first(second, travels):
    ops = scene(THREE, [cleanup("/d", "c4")])
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True, by="ana")
    if travels:
        state = await reloaded(ops.agent, state)
    match second:
        case "reject":
            state.reject(item_of(state, "c1"), by="ana")
        case "approve":
            state.approve(item_of(state, "c1"), by="ana")
        case "respond":
            state.respond(item_of(state, "c1"), "done by hand", by="ana")
        case "edit":
            state.approve(item_of(state, "c1"), arguments={"path": "/z"}, by="ana")

    result = await drive(ops.agent, await reloaded(ops.agent, state))

    assert waiting(result) == ["c2", "c3"]
    assert "grant" not in kinds(result)
    assert ops.effects == {"approve": ["cleanup /a"], "edit": ["cleanup /z"]}.get(second, [])


async def test_a_standing_no_goes_too_and_the_grants_of_other_calls_stay():
    ops = scene(THREE, DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c2"), always_approve=True, by="ana")
    state.reject(item_of(state, "c1"), always_reject=True, by="ana")
    state.approve(item_of(state, "c1"), by="ana")

    result = await drive(ops.agent, state)

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a", "cleanup /b", "cleanup /c"]


async def test_on_a_wrapper_made_by_hand_the_last_word_takes_the_grant_back():
    ops = scene(THREE)
    wrapper = RunContextWrapper(None)
    item = ToolApprovalItem(ops.agent, cleanup("/a", "c1"))
    wrapper.approve_tool(item, always_approve=True)
    wrapper.reject_tool(item)

    result = await drive(ops.agent, RunState(wrapper, "go", ops.agent))

    assert wrapper.approvals["cleanup"].always is None
    assert waiting(result) == ["c2", "c3"]
    assert ops.effects == []


async def test_on_the_context_of_a_running_run_the_last_word_takes_the_grant_back():
    ops = scene(THREE)
    state = (await drive(ops.agent, "go")).to_state()
    context = state.context
    context.approve_tool(item_of(state, "c1"), always_approve=True)
    assert context.is_tool_approved("cleanup", "c2") is True
    context.reject_tool(item_of(state, "c1"))

    assert context.is_tool_approved("cleanup", "c2") is None
    assert waiting(await drive(ops.agent, state)) == ["c2", "c3"]


async def test_a_state_of_an_older_version_which_names_no_call_in_its_grants_is_understood():
    ops = scene(THREE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True, by="ana")
    document = state.to_json()
    for staged in document["staged"]:
        if staged[0] == "grant":
            assert staged.pop() is None  # more bounds
            assert staged.pop() is None  # through which door it came
            assert staged.pop() is None  # who made it, where that was more than one
            assert staged.pop() == "1.0"
    old = await RunState.from_json(ops.agent, document)
    old.reject(item_of(old, "c1"), by="ana")

    assert waiting(await drive(ops.agent, old)) == ["c2", "c3"]


async def test_the_last_standing_word_on_a_state_counts_even_if_the_clock_stands_still_or_goes_back():
    for step in (0.0, -3600.0):
        ops = scene(THREE, [cleanup("/d", "c4")], DONE)
        text = (await drive(ops.agent, "go")).to_state().to_string()
        verbs = [("approve", "c1"), ("reject", "c2"), ("approve", "c3")]
        for number, (verb, label) in enumerate(verbs):  # each time on another machine, whose clock is behind
            clock = ManualClock(1e9 + number * step)
            state = await RunState.from_string(ops.agent, text, clock=clock)
            getattr(state, verb)(item_of(state, label), True, by="ana")
            text = state.to_string()

        result = await drive(ops.agent, await RunState.from_string(ops.agent, text))

        assert result.final_output == "done"
        assert ops.effects == ["cleanup /a", "cleanup /c", "cleanup /d"]


# -- states that meet --------------------------------------------------------------------------------------------------


async def two_words(first, second, *, by=("ana", "ana"), apart=60.0, labels=("c1", "c2")):
    """Two copies of one paused run, on which one word is said each, the second so many seconds later."""
    ops = scene(THREE, [cleanup("/d", "c4")], DONE)
    clock = ManualClock()
    config = RunConfig(clock=clock)
    paused = await drive(ops.agent, "go", run_config=config)
    states = []
    for word, who, label in zip((first, second), by, labels, strict=True):
        state = await RunState.from_string(ops.agent, paused.to_state().to_string(), clock=clock)
        item = item_of(state, label)
        match word:
            case "always":
                state.approve(item, always_approve=True, by=who)
            case "never":
                state.reject(item, always_reject=True, by=who)
            case "yes":
                state.approve(item, by=who)
            case "no":
                state.reject(item, by=who)
        states.append(state)
        clock.advance(apart)
    return ops, states, config


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(
    ("first", "second", "apart", "ran"),
    [
        ("always", "never", 60.0, ["cleanup /a"]),
        ("never", "always", 60.0, ["cleanup /b", "cleanup /c", "cleanup /d"]),
        ("always", "never", 0.0, ["cleanup /a"]),
        ("never", "always", 0.0, ["cleanup /b"]),
    ],
)
async def test_of_two_standing_decisions_the_newer_wins_in_whatever_direction_states_are_merged(
    first, second, apart, ran, backwards
):
    ops, (one, other), config = await two_words(first, second, by=("ana", "ben"), apart=apart)

    merged = other.merge(one) if backwards else one.merge(other)
    result = await drive(ops.agent, await reloaded(ops.agent, merged), run_config=config)

    assert result.final_output == "done"
    assert ops.effects == ran


@pytest.mark.parametrize("backwards", [False, True], ids=["older_first", "newer_first"])
async def test_of_two_standing_decisions_the_newer_wins_in_whatever_order_they_get_into_the_log(backwards):
    ops = scene(THREE, [cleanup("/d", "c4")], DONE)
    clock = ManualClock()
    config = RunConfig(clock=clock)
    paused = await drive(ops.agent, "go", run_config=config)
    older, newer = paused.to_state(), paused.to_state()
    about_later_calls = Grant(arguments={"path": "/d"})
    older.approve(item_of(older, "c1"), always_approve=about_later_calls, by="ana")
    clock.advance(60)
    newer.reject(item_of(newer, "c2"), always_reject=about_later_calls, by="ben")
    newer.reject(item_of(newer, "c3"), by="ben")

    for state in (newer, older) if backwards else (older, newer):
        result = await drive(ops.agent, state, run_config=config)

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a"]


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(
    ("first", "second", "apart", "left"),
    [
        ("always", "no", 60.0, ["c2", "c3"]),
        ("always", "yes", 60.0, ["c2", "c3"]),
        ("no", "yes", 60.0, ["c2", "c3"]),
        ("always", "no", 0.0, ["c2", "c3"]),
        ("no", "always", 0.0, ["c2", "c3"]),
        ("no", "always", 60.0, []),
    ],
)
async def test_of_two_words_of_one_person_about_a_call_the_newer_counts_with_all_that_it_did(
    first, second, apart, left, backwards
):
    ops, (one, other), config = await two_words(first, second, apart=apart, labels=("c1", "c1"))

    merged = other.merge(one) if backwards else one.merge(other)
    result = await drive(ops.agent, await reloaded(ops.agent, merged), run_config=config)

    said_yes = second in ("yes", "always") if apart else False
    assert waiting(result) == left
    assert ("cleanup /a" in ops.effects) is said_yes


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("by", [("ana", "ben"), (None, None), ("ana", None)])
async def test_between_people_a_contradiction_is_an_error_that_names_both(by, backwards):
    _, (one, other), _ = await two_words("always", "no", by=by, labels=("c1", "c1"))
    mine, theirs = (other, one) if backwards else (one, other)
    before = mine.to_string()

    with pytest.raises(StaleApproval) as refusal:
        mine.merge(theirs)

    assert all((who or "an unnamed person") in str(refusal.value) for who in by)
    assert mine.to_string() == before


def test_where_times_do_not_tell_no_beats_yes():
    def grant(verdict, at):
        return GrantMade(f"{verdict}{at}", "ops", "function:t", "", verdict, None, at)

    given = [grant(verdict, at) for verdict in ("approve", "reject") for at in (0.0, 5.0, 7.0)]

    for order in itertools.permutations(given):
        assert [each.id for each in sorted(order, key=rank)] == [
            "approve0.0", "approve5.0", "reject5.0", "approve7.0", "reject7.0", "reject0.0",
        ]  # fmt: skip


async def test_a_standing_yes_that_was_taken_back_is_not_brought_back_by_an_older_copy_of_a_state(tmp_path):
    ops = scene(THREE)
    async with Desk(f"sqlite:///{tmp_path}/p.db", [ops.agent], run=False) as desk:
        state = (await drive(ops.agent, "go", store=desk.store)).to_state()
        state.approve(item_of(state, "c1"), always_approve=True, by="ana")
        text = state.to_string()
        await desk.hold("tool", "cleanup", by="ops")
        await drive(ops.agent, state, store=desk.store)
        await desk.revoke(f"{state.run_id}:1.0#1", by="ana")
        await desk.release_hold("tool", "cleanup", by="ops")

        with pytest.raises(StaleApproval):
            await drive(ops.agent, await RunState.from_string(ops.agent, text), store=desk.store)
        await desk.drive(state.run_id)
        pending = [each.id.removeprefix(f"{each.run_id}_") for each in await desk.pending()]

    assert ops.effects == []
    assert sorted(pending) == ["t1c0_q2", "t1c1_q2", "t1c2_q2"]


async def test_a_grant_that_the_log_took_back_is_not_appended_again():
    ops = scene(THREE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True, by="ana")
    (grant,) = [word for word in state.context._ledger.staged() if isinstance(word, GrantMade)]
    run = fold([grant, GrantRevoked(grant.id, "ana", grant.at + 1)], into=state._run.copy())

    assert facts_to_append(run, [grant]) == []
    assert not run.ledger.has_staged() or grant not in run.ledger.staged()


# -- at a desk ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["run", "agent"])
async def test_taking_an_approval_back_at_a_desk_takes_its_grant_back_and_what_that_let_through(tmp_path, scope):
    ops = scene(THREE, [cleanup("/d", "c4")])
    async with Desk(f"sqlite:///{tmp_path}/p.db", [ops.agent], run=False) as desk:
        await desk.hold("tool", "cleanup", by="ops")
        run = await desk.start("ops", "go")
        await desk.drive(run.id)
        first, *_ = await desk.pending()
        await desk.decide(first.id, "approve", by="ana", always=Grant(scope=scope))
        await desk.drive(run.id)
        decided = [(each.status, each.decided_by) for each in (await desk.requests(status=None)).rows]

        await desk.revoke(first.id, by="ben", reason="wrong customer")
        asked_at_once = [
            each.id.removeprefix(f"{each.run_id}_") for each in await desk.pending()
        ]  # before anybody drives the run
        await desk.release_hold("tool", "cleanup", by="ops")
        await desk.drive(run.id)
        pending = [each.id.removeprefix(f"{each.run_id}_") for each in await desk.pending()]
        grants = await desk.grants()
        other = await desk.start("ops", "go")
        await desk.drive(other.id)
        still_asked = await desk.pending(run_id=other.id)

    assert decided == [("approved", "ana")] * 3
    assert sorted(asked_at_once) == sorted(pending) == ["t1c0_q2", "t1c1_q2", "t1c2_q2"]
    assert grants == []
    assert len(still_asked) == 1
    assert ops.effects == []


async def test_what_a_nested_agent_was_always_allowed_is_taken_back_with_its_decision(tmp_path):

    ops = scene(THREE)
    boss_model = ScriptedModel([[function_call("ops", {"input": "go"}, call_id="k")]])
    boss = Agent("Boss", tools=[ops.agent.as_tool("ops", "does it")], model=boss_model)
    state = (await drive(boss, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True, by="ana")
    state = await RunState.from_string(boss, state.to_string())
    state.reject(item_of(state, "c1"), by="ana")

    result = await drive(boss, state)

    assert waiting(result) == ["c2", "c3"]
    assert ops.effects == []


# -- an answer does not stand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [True, Grant(uses=1)])
async def test_an_answer_cannot_stand_for_later_calls(tmp_path, always):
    ops = scene(THREE)
    async with Desk(f"sqlite:///{tmp_path}/p.db", [ops.agent], run=False) as desk:
        run = await desk.start("ops", "go")
        await desk.drive(run.id)
        first, *_ = await desk.pending()

        with pytest.raises(UserError, match="cannot stand for later"):
            await desk.decide(first.id, "respond", output="done by hand", always=always)
        still_asked = await desk.pending()

    assert len(still_asked) == 3
    assert ops.effects == []

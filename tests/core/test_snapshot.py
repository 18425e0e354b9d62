"""A cached fold is what its log amounts to: gone on from at any place, it becomes what the whole log gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from placet import Agent, Grant, Runner, RunState, function_tool, handoff
from placet.core.fold import apply, fold
from placet.core.replay import fold_records
from placet.core.snapshot import UnusableFold, dump, is_between_turns, restore
from placet.core.state import RunFold
from placet.facts.events import AnyFact, Record
from placet.sessions.memory import InMemorySession
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.generated.play import Play
from tests.generated.script import Seeded, a_script, a_way
from tests.support.folds import comparable, facts_of
from tests.support.written_logs import LogWriter

SEEDS = range(60)


def check_every_place(facts: Sequence[AnyFact]) -> int:
    """Cache the fold wherever it can be, go on from the cache, and compare; at how many places that was."""
    whole = comparable(fold(facts))
    run, places = RunFold(), 0
    for place, fact in enumerate(facts, 1):
        apply(run, fact)
        if is_between_turns(run):
            places += 1
            assert comparable(restore(dump(run))) == comparable(run)
            assert comparable(fold(facts[place:], into=restore(dump(run)))) == whole
    return places


@function_tool(needs_approval=True)
def pay(cents: int) -> str:
    return f"paid {cents}"


@function_tool
def look(order: str) -> str:
    return f"order {order}"


def turns() -> list[Any]:
    return [
        [function_call("look", {"order": "1"}, call_id="a"), function_call("pay", {"cents": 1}, call_id="b")],
        [function_call("pay", {"cents": 2}, call_id="b")],
        [function_call("pay", {"cents": 3}, call_id="c")],
        [assistant_message("done")],
    ]


async def driven(agent: Agent[Any], **options: Any) -> RunState[Any]:
    """Paused, edited, granted, and gone on with until the end."""
    result = await Runner.run(agent, "go", **options)
    while result.interruptions:
        state = result.to_state()
        first = result.interruptions[0]
        if len(result.raw_responses) == 1:
            state.approve(first, arguments={"cents": 9}, by="ann")
        else:
            state.approve(first, always_approve=Grant(uses=5), by="ann")
        result = await Runner.run(agent, state, **options)
    return result.to_state()


async def test_a_run_with_questions_edits_and_grants_can_be_gone_on_with_from_any_cached_fold() -> None:
    agent = Agent("Clerk", tools=[pay, look], model=ScriptedModel(turns()))

    assert check_every_place(facts_of(await driven(agent))) > 8


async def test_a_run_with_a_session_a_handoff_and_a_nested_agent_can_be_too() -> None:
    clerk = Agent("Clerk", tools=[pay, look], model=ScriptedModel(turns()))
    boss = Agent("Boss", tools=[clerk.as_tool("ask_clerk", "asks")], model=ScriptedModel([]))
    front = Agent("Front", handoffs=[handoff(boss)], model=ScriptedModel([]))
    front.model = boss.model = ScriptedModel(
        [
            [function_call("transfer_to_boss", {}, call_id="h")],
            [function_call("ask_clerk", {"input": "pay"}, call_id="n")],
            [assistant_message("all done")],
        ]
    )

    assert check_every_place(facts_of(await driven(front, session=InMemorySession("s")))) > 5


@pytest.mark.parametrize("delivery", [{"auto_previous_response_id": True}, {"conversation_id": "conv"}])
async def test_a_run_whose_history_the_server_keeps_can_be_too(delivery: dict[str, Any]) -> None:
    agent = Agent("Clerk", tools=[pay, look], model=ScriptedModel(turns()))

    assert check_every_place(facts_of(await driven(agent, **delivery))) > 8


async def own_history_facts() -> list[AnyFact]:
    """The facts of a run that began with the server's history, and went on with its own."""
    agent = Agent("Clerk", tools=[pay, look], model=ScriptedModel(turns()))
    state = (await Runner.run(agent, "go", auto_previous_response_id=True)).to_state()
    state.approve(state.get_interruptions()[0], by="ann")
    result = await Runner.run(agent, state, own_history=True)
    while result.interruptions:
        state = result.to_state()
        state.approve(result.interruptions[0], by="ann")
        result = await Runner.run(agent, state)
    return facts_of(result.to_state())


async def test_a_run_that_went_over_to_its_own_history_can_be_too() -> None:
    assert check_every_place(await own_history_facts()) > 8


async def test_a_log_with_the_choice_of_own_history_is_folded_the_same_by_the_short_way() -> None:
    facts, run = await own_history_facts(), RunFold()

    fold_records([Record(0.0, facts)], run)

    assert comparable(run) == comparable(fold(facts))
    assert run.own_from > 0


async def test_generated_runs_can_be_gone_on_with_from_any_cached_fold() -> None:
    places = 0
    for seed in SEEDS:
        chance = Seeded(seed)
        play = Play(a_script(chance), a_way(chance))
        await play.run()
        for snapshot in play.snapshots[-1:]:
            try:
                places += check_every_place(facts_of(snapshot.state))
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise

    assert places > 100


@pytest.mark.parametrize("name", RunFold.__struct_fields__)
def test_two_folds_that_differ_in_one_field_are_not_the_same(name: str) -> None:
    """What the other tests here stand on: that «==» sees every field, also one that is added tomorrow."""
    one, other = fold([]), fold([])
    same = one == other
    setattr(other, name, object())

    assert same
    assert one != other


def test_a_copy_shares_nothing_that_a_later_fact_changes() -> None:
    facts = LogWriter(3).write(turns=12)
    for place in range(len(facts)):
        run = fold(facts[:place])
        twin, before = run.copy(), fold(facts[:place])
        fold(facts[place:], into=run)
        assert comparable(twin) == comparable(before)
        assert comparable(fold(facts[place:], into=twin)) == comparable(run)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"null"])
def test_bytes_that_are_no_fold_are_refused(data: bytes) -> None:
    with pytest.raises(UnusableFold):
        restore(data)


def test_a_fold_with_a_status_that_does_not_exist_is_refused() -> None:
    run = fold([])
    run.started = True
    shot = msgspec.json.decode(dump(run))
    call = {"id": "1.0", "item": {}, "name": "pay", "arguments": "", "label": "c", "sent_label": "c"}
    shot["calls"] = {"1.0": {**call, "status": "asleep"}}

    with pytest.raises(UnusableFold, match="asleep"):
        restore(msgspec.json.encode(shot))


def test_a_fold_with_an_open_turn_is_refused() -> None:
    run = fold([])
    run.started = True
    shot = msgspec.json.decode(dump(run))

    with pytest.raises(UnusableFold, match="between two turns"):
        restore(msgspec.json.encode({**shot, "open_calls": 1}))

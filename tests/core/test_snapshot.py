"""A cached fold is what its log amounts to: gone on from at any place, it becomes what the whole log gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from placet import Agent, Grant, Runner, RunState, function_tool, handoff
from placet.core.fold import apply, fold
from placet.core.replay import fold_records
from placet.core.snapshot import UnusableFold, _Call, _Fold, dump, is_between_turns, restore
from placet.core.state import Call, RunFold
from placet.facts.events import AnyFact, Record
from placet.sessions.memory import InMemorySession
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.generated.play import Play
from tests.generated.script import Seeded, a_script, a_way
from tests.support.folds import facts_of, shape

SEEDS = range(60)


def check_every_place(facts: Sequence[AnyFact]) -> int:
    """Cache the fold wherever it can be, go on from the cache, and compare; at how many places that was."""
    whole = shape(fold(facts))
    run, places = RunFold(), 0
    for place, fact in enumerate(facts, 1):
        apply(run, fact)
        if is_between_turns(run):
            places += 1
            assert shape(restore(dump(run))) == shape(run)
            assert shape(fold(facts[place:], into=restore(dump(run)))) == whole
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

    assert shape(run) == shape(fold(facts))
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


def test_every_field_of_the_fold_is_cached_or_the_same_between_any_two_turns() -> None:
    same = {"path", "started", "has_ended", "final_output", "open_calls", "children", "waiting_input"}
    from_item = {"name", "arguments"}

    assert {field.name for field in dataclasses.fields(RunFold)} - set(_Fold.__struct_fields__) == same
    assert set(Call.__slots__) - set(_Call.__struct_fields__) == from_item


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"null"])
def test_bytes_that_are_no_fold_are_refused(data: bytes) -> None:
    with pytest.raises(UnusableFold):
        restore(data)


def test_a_fold_with_a_status_that_does_not_exist_is_refused() -> None:
    run = fold([])
    run.started = True
    shot = msgspec.json.decode(dump(run))
    shot["calls"] = [["1.0", {}, "c", "asleep", 0, "", None, None, None, False, 0, *[None] * 5, "c", *[None] * 4]]

    with pytest.raises(UnusableFold, match="asleep"):
        restore(msgspec.json.encode(shot))

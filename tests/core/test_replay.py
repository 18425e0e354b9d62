"""A log folded the short way is the log folded fact by fact: the same fold, or the same refusal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from placet.core import replay
from placet.core.fold import apply, fold
from placet.core.replay import fold_records
from placet.core.state import RunFold
from placet.facts import events as e
from placet.facts.errors import IllegalTransition
from placet.testing import assistant_message, function_call
from tests.generated.play import Play
from tests.generated.script import Seeded, a_script, a_way
from tests.support.folds import comparable, facts_of
from tests.support.written_logs import LogWriter, decided, held


def by_fact(facts: Sequence[e.AnyFact]) -> Any:
    try:
        return comparable(fold(facts))
    except IllegalTransition as error:
        return str(error)


def by_turn(facts: Sequence[e.AnyFact]) -> Any:
    run = RunFold()
    try:
        fold_records([e.Record(1.0, list(facts))], run)
    except IllegalTransition as error:
        return str(error)
    return comparable(run)


@pytest.mark.parametrize("seed", range(40))
def test_every_beginning_of_a_log_is_folded_the_same_in_both_ways(seed: int) -> None:
    facts = LogWriter(seed).write(turns=12)

    assert isinstance(by_fact(facts), RunFold)
    for length in range(len(facts) + 1):
        assert by_turn(facts[:length]) == by_fact(facts[:length])


@pytest.mark.parametrize("seed", range(40))
def test_a_log_that_was_altered_is_refused_in_both_ways_or_in_none(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(60):
        facts = list(LogWriter(seed).write(turns=6))
        alter(facts, chance)

        expected = by_fact(facts)

        assert by_turn(facts) == expected
        refused += isinstance(expected, str)
    assert refused > 10


def alter(facts: list[e.AnyFact], chance: random.Random) -> None:
    """Take out a fact, write one twice, move one, or make it say something else."""
    place, other = chance.randrange(len(facts)), chance.randrange(len(facts))
    match chance.choice(["drop", "repeat", "swap", "say", "say", "say"]):
        case "drop":
            del facts[place]
        case "repeat":
            facts.insert(other, facts[place])
        case "swap":
            facts[place], facts[other] = facts[other], facts[place]
        case "say":
            facts[place] = said_otherwise(facts[place], facts[other], chance)


def said_otherwise(fact: e.AnyFact, other: e.AnyFact, chance: random.Random) -> e.AnyFact:
    changes: dict[type, dict[str, Sequence[Any]]] = {
        e.CallEnded: {"call": ["1.0", "2.0", "9.9"], "outcome": ["rejected", "expired", "denied"]},
        e.CallsAllowed: {"calls": [["1.0"], ["2.0"], []]},
        e.CallsStarted: {"calls": [["1.0"], ["3.0"], [], ["2.0", "2.0"]]},
        e.CallHeld: {"call": ["1.0", "2.0"], "digest": ["d2"]},
        e.DecisionMade: {
            "call": ["1.0", "2.0"],
            "request": [0, 2],
            "digest": ["d9"],
            "verdict": ["reject", "edit", "respond"],
            "arguments": [{"cents": 1}],
        },
        e.ResponseReceived: {"output": [[], [assistant_message("hm")], getattr(other, "output", [])]},
    }
    fields = changes.get(type(fact))
    if fields is None:
        return fact
    name = chance.choice(list(fields))
    value = chance.choice(fields[name])
    return msgspec.structs.replace(fact, **{name: value if name != "output" or isinstance(value, list) else []})


START, ASK = e.RunStarted("Clerk", "go", None), e.RequestSent()
CALL = function_call("pay", {"cents": 1}, call_id="call_1")


def answer(*items: Any) -> e.ResponseReceived:
    return e.ResponseReceived("resp", list(items), e.Usage(1))


def plain_turn(local: str = "1.0", item: Any = CALL) -> list[e.AnyFact]:
    return [answer(item), e.CallsAllowed([local]), e.CallsStarted([local]), e.CallEnded(local, "finished", "paid"), ASK]


def asked_turn(held: e.CallHeld, word: e.DecisionMade) -> list[e.AnyFact]:
    return [answer(CALL), held, word, e.CallsStarted(["1.0"]), e.CallEnded("1.0", "finished", "paid"), ASK]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([START, *plain_turn()], id="nothing was sent"),
        pytest.param([START, ASK, answer(), *plain_turn("2.0")], id="all was answered"),
        pytest.param([START, ASK, e.RequestLost("gone"), *plain_turn()], id="the request was lost"),
        pytest.param([START, ASK, e.InputAdded([{"role": "user", "content": "and?"}]), *plain_turn()], id="input came"),
        pytest.param([START, ASK, e.RunStopped("model", "no"), *plain_turn()], id="the drive was stopped"),
        pytest.param([START, ASK, e.RunEnded("bye"), *plain_turn()], id="the run has ended"),
        pytest.param(
            [START, ASK, e.RequestLost("gone"), e.RequestSettled(False), ASK, *plain_turn()], id="it may be at work"
        ),
        pytest.param([START, ASK, *plain_turn(item={**CALL, "type": "message"})], id="not a call"),
        pytest.param(
            [START, ASK, *plain_turn(item={**CALL, "type": "mcp_approval_request", "id": "m"})], id="a hosted call"
        ),
        pytest.param([START, ASK, *asked_turn(held("2.0"), decided("2.0"))], id="asked about another call"),
        pytest.param([START, ASK, *asked_turn(held("1.0"), decided("1.0", arguments={"cents": 2}))], id="changed"),
    ],
)
def test_what_stands_before_a_plain_turn_and_what_only_looks_like_one_is_taken_as_it_is(
    facts: list[e.AnyFact],
) -> None:
    followed = [*facts, answer(assistant_message("done"))]

    assert by_turn(followed) == by_fact(followed)


async def test_generated_runs_are_folded_the_same_in_both_ways() -> None:
    for seed in range(60):
        chance = Seeded(seed)
        play = Play(a_script(chance), a_way(chance))
        await play.run()
        for snapshot in play.snapshots[-1:]:
            facts = facts_of(snapshot.state)
            assert by_turn(facts) == by_fact(facts), f"seed {seed}"


def test_of_a_hundred_plain_turns_only_the_first_request_and_the_last_turn_are_applied_fact_by_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = LogWriter(1, odd_calls=False)
    for _ in range(50):
        writer.free()
        writer.asked()
    applied: list[str] = []
    monkeypatch.setattr(replay, "apply", lambda run, fact: (applied.append(type(fact).__name__), apply(run, fact)))

    assert isinstance(by_turn(writer.write(turns=0)), RunFold)
    assert applied == ["RunStarted", "RequestSent", "ResponseReceived", "CallHeld"]

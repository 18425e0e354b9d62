"""What is next, how calls are named, and what a request carries."""

from __future__ import annotations

from typing import Any

import pytest

from placet.core.calls import plan_calls, problem_with
from placet.core.delivery import outgoing
from placet.core.fold import fold
from placet.core.next_step import (
    AdvanceCalls,
    AskModel,
    AwaitToolFunctions,
    ConcludeRun,
    GateCalls,
    JudgeTurn,
    RecoverCalls,
    SettleRequest,
    Stop,
    WaitForPeople,
    is_waiting,
    next_step,
)
from placet.facts import events as e
from placet.facts.errors import ModelBehaviorError
from placet.testing import assistant_message, function_call

START = e.RunStarted("Clerk", "hello", 10)


def answer(*output: Any, response_id: str | None = "resp_1") -> e.ResponseReceived:
    return e.ResponseReceived(response_id, list(output), e.Usage())


def call(label: str | None = "c1", name: str = "pay") -> dict[str, Any]:
    return function_call(name, {}, call_id=label)


def held(local: str) -> e.CallHeld:
    return e.CallHeld(local, "d", "function:pay", "f")


def decided(local: str, verdict: Any = "approve") -> e.DecisionMade:
    return e.DecisionMade(local, 1, "d", verdict, None, 1.0)


THREE = (START, e.RequestSent(), answer(call("a"), call("b"), call("c")))


def ids(calls: Any) -> list[str]:
    return [each.id for each in calls]


# -- the next step


def test_a_new_run_asks_the_model() -> None:
    assert next_step(fold([START])) == AskModel()


@pytest.mark.parametrize("fact", [e.RequestSent(), e.RequestLost("gone")], ids=["sent", "lost"])
@pytest.mark.parametrize("delivery", ["own", "chained", "auto"])
def test_a_request_whose_answer_is_missing_is_sent_again_where_that_is_harmless(fact: Any, delivery: Any) -> None:
    facts = [e.RunStarted("Clerk", "hello", 10, delivery, "resp_0"), e.RequestSent()]
    run = fold(facts if isinstance(fact, e.RequestSent) else [*facts, fact])

    assert next_step(run) == AskModel()


@pytest.mark.parametrize("lost", [True, False])
def test_a_request_into_a_conversation_whose_answer_is_missing_must_be_settled(lost: bool) -> None:
    run = fold([e.RunStarted("Clerk", "hello", 10, "conversation", "conv"), e.RequestSent()])
    if lost:
        fold([e.RequestLost("gone")], into=run)

    assert next_step(run) == SettleRequest()


def test_an_answer_without_calls_concludes_the_run() -> None:
    assert next_step(fold([START, e.RequestSent(), answer(assistant_message("hi"))])) == ConcludeRun()


def test_input_that_came_after_the_answer_is_sent() -> None:
    facts = [START, e.RequestSent(), answer(assistant_message("hi")), e.InputAdded([{"role": "user", "content": "x"}])]

    assert next_step(fold(facts)) == AskModel()


def test_calls_that_nobody_judged_come_first() -> None:
    step = next_step(fold([*THREE, held("1.0")]))

    assert isinstance(step, GateCalls)
    assert ids(step.calls) == ["1.1", "1.2"]


def test_siblings_run_while_one_call_waits() -> None:
    step = next_step(fold([*THREE, held("1.0"), e.CallsAllowed(["1.1", "1.2"])]))

    assert isinstance(step, AdvanceCalls)
    assert ids(step.runnable) == ["1.1", "1.2"]
    assert step.concludable == []


def test_decided_calls_go_on_while_others_wait() -> None:
    facts = [*THREE, *map(held, ("1.0", "1.1", "1.2")), decided("1.0"), decided("1.1", "reject")]
    step = next_step(fold(facts))

    assert isinstance(step, AdvanceCalls)
    assert ids(step.runnable) == ["1.0"]
    assert ids(step.concludable) == ["1.1"]


def test_a_claimed_call_that_nobody_works_on_is_recovered() -> None:
    run = fold([*THREE, e.CallsAllowed(["1.0", "1.1", "1.2"]), e.CallsStarted(["1.0", "1.1"])])
    step = next_step(run, {"1.1"})

    assert isinstance(step, RecoverCalls)
    assert ids(step.calls) == ["1.0"]


def test_bodies_at_work_are_awaited() -> None:
    run = fold([*THREE, e.CallsAllowed(["1.0", "1.1"]), held("1.2"), e.CallsStarted(["1.0", "1.1"])])

    assert next_step(run, {"1.0", "1.1"}) == AwaitToolFunctions()


def test_when_only_people_can_help_the_run_waits() -> None:
    run = fold([*THREE, *map(held, ("1.0", "1.1", "1.2"))])

    assert next_step(run) == WaitForPeople()
    assert is_waiting(run)


def test_a_turn_is_judged_when_its_last_call_has_ended() -> None:
    facts = [*THREE, *(e.CallEnded(f"1.{i}", "denied", "no") for i in range(3))]

    assert next_step(fold(facts)) == JudgeTurn()
    assert not is_waiting(fold(facts))


def test_an_ended_run_stops() -> None:
    assert next_step(fold([START, e.RequestSent(), answer(assistant_message("x")), e.RunEnded("x")])) == Stop()


# -- the names of calls


def planned(output: list[dict[str, Any]], seen: set[str] | None = None, turn: int = 1, path: str = "") -> Any:
    return list(plan_calls(path, turn, output, set() if seen is None else seen))


def test_calls_are_named_by_their_place_among_the_calls() -> None:
    found = planned([assistant_message("x"), call("a"), {"type": "reasoning", "id": "r"}, call("b")], turn=3)

    assert [each.id if each is not None else None for _, each in found] == [None, "3.0", None, "3.1"]


def test_calls_of_a_nested_run_carry_its_path() -> None:
    assert planned([call("a")], turn=2, path="1.0")[0][1].id == "1.0/2.0"


def test_a_label_that_is_unique_is_sent_as_it_is() -> None:
    (shown, planned_call) = planned([call("a")])[0]

    assert shown["call_id"] == planned_call.label == planned_call.sent_label == "a"


@pytest.mark.parametrize(
    "labels",
    [["a", "a"], ["a", "a", "a"], [None, None], ["", ""], ["a", None, "a", None], ["a", "a_1-1", "a"], [7, 7]],
    ids=str,
)
def test_repeated_and_missing_labels_become_unique_in_what_we_send(labels: list[Any]) -> None:
    output = [{**call(), "call_id": label} if label is not None else call(None) for label in labels]
    found = planned(output)
    sent = [each.sent_label for _, each in found]

    assert len(set(sent)) == len(labels)
    assert all(isinstance(label, str) and label for label in sent)
    assert [item["call_id"] for item, _ in found] == sent


def test_a_label_of_an_earlier_turn_is_not_used_again() -> None:
    seen: set[str] = set()
    first = planned([call("a")], seen, turn=1)[0][1].sent_label
    second = planned([call("a")], seen, turn=2)[0][1].sent_label

    assert first == "a"
    assert second != "a"


def test_made_up_labels_are_the_same_after_every_load() -> None:
    facts = [START, e.RequestSent(), answer(call("a"), call("a"), call(None))]

    assert [each.sent_label for each in fold(facts).calls.values()] == [
        each.sent_label for each in fold(facts).calls.values()
    ]


def test_planning_does_not_change_the_models_item() -> None:
    output = [call("a"), call("a")]
    planned(output)

    assert [item["call_id"] for item in output] == ["a", "a"]


def test_the_providers_label_stays_known_beside_the_one_that_we_send() -> None:
    second = planned([call("a"), call("a")])[1][1]

    assert second.label == "a"
    assert second.item["call_id"] == "a"


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ([], "empty"),
        ([{"role": "assistant"}], "type"),
        ([{"type": 7}], "type"),
        ([{"type": "function_call", "arguments": "{}"}], "names no tool"),
        ([{"type": "function_call", "name": "", "arguments": "{}"}], "names no tool"),
        ([{"type": "function_call", "name": 5, "arguments": "{}"}], "names no tool"),
        ([{"type": "function_call", "name": "pay", "arguments": {"n": 1}}], "'pay' are not a text"),
    ],
)
def test_output_that_no_run_can_go_on_with_is_named(output: Any, problem: str) -> None:
    found = problem_with(output)

    assert found is not None
    assert problem in found


@pytest.mark.parametrize(
    "output",
    [[assistant_message("x")], [call()], [{"type": "function_call", "name": "pay"}], [{"type": "something_new"}]],
)
def test_output_that_a_run_can_go_on_with_has_no_problem(output: Any) -> None:
    assert problem_with(output) is None


# -- delivery

TURN_WITH_REPEATED_LABELS = (
    e.RequestSent(),
    answer(call("a"), call("a"), response_id="resp_1"),
    e.CallEnded("1.1", "denied", "second"),
    e.CallEnded("1.0", "denied", "first"),
)


def test_our_own_history_goes_out_whole_with_unique_labels_in_call_and_output_alike() -> None:
    out = outgoing(fold([START, *TURN_WITH_REPEATED_LABELS]))
    calls = [item["call_id"] for item in out.items if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in out.items if item.get("type") == "function_call_output"]

    assert out.items[0] == {"role": "user", "content": "hello"}
    assert len(set(calls)) == 2
    assert calls == answers
    assert (out.previous_response_id, out.conversation_id) == (None, None)


@pytest.mark.parametrize(("delivery", "server_id"), [("chained", "resp_0"), ("auto", None)])
def test_a_chain_begins_at_its_given_response_and_goes_on_from_the_last(delivery: Any, server_id: Any) -> None:
    start = e.RunStarted("Clerk", "hello", 10, delivery, server_id)
    first = outgoing(fold([start]))
    second = outgoing(fold([start, *TURN_WITH_REPEATED_LABELS]))

    assert first.previous_response_id == server_id
    assert first.items == [{"role": "user", "content": "hello"}]
    assert second.previous_response_id == "resp_1"
    assert [(item["call_id"], item["output"]) for item in second.items] == [("a", "first"), ("a", "second")]


def test_a_conversation_gets_only_what_it_has_not_under_the_servers_labels_in_the_order_of_the_calls() -> None:
    out = outgoing(fold([e.RunStarted("Clerk", "hello", 10, "conversation", "conv"), *TURN_WITH_REPEATED_LABELS]))

    assert (out.conversation_id, out.previous_response_id) == ("conv", None)
    assert [(item["call_id"], item["output"]) for item in out.items] == [("a", "first"), ("a", "second")]


@pytest.mark.parametrize("delivery", ["chained", "auto", "conversation"])
def test_what_a_failed_request_carried_is_carried_again(delivery: Any) -> None:
    run = fold([e.RunStarted("Clerk", "hello", 10, delivery, "id"), *TURN_WITH_REPEATED_LABELS])
    before = outgoing(run)
    fold([e.RequestSent(), e.RequestRefused("no")], into=run)

    assert outgoing(run) == before


@pytest.mark.parametrize("delivery", ["chained", "auto", "conversation"])
def test_what_was_acknowledged_is_not_carried_again(delivery: Any) -> None:
    run = fold([e.RunStarted("Clerk", "hello", 10, delivery, "id"), *TURN_WITH_REPEATED_LABELS])
    fold([e.RequestSent(), answer(call("b"), response_id="resp_2"), e.CallEnded("2.0", "denied", "third")], into=run)

    assert [item["output"] for item in outgoing(run).items] == ["third"]


@pytest.mark.parametrize("delivery", ["chained", "auto"])
def test_a_response_without_an_id_cannot_be_chained_to(delivery: Any) -> None:
    run = fold([e.RunStarted("Clerk", "x", 10, delivery, "id"), e.RequestSent(), answer(call("b"), response_id=None)])
    with pytest.raises(ModelBehaviorError, match="no id"):
        outgoing(run)


def test_what_goes_out_is_a_list_of_its_own() -> None:
    run = fold([START])
    outgoing(run).items.clear()

    assert len(outgoing(run).items) == 1

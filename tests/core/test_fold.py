"""The fold: each fact, what it changes, and that an illegal one changes nothing."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from placet.core.approvals import Ledger
from placet.core.fold import _APPLIERS, apply, fold
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts import events as e
from placet.facts.errors import IllegalTransition
from placet.testing import assistant_message, function_call

USAGE = e.Usage(requests=1, input_tokens=2, output_tokens=3, total_tokens=5)
START = e.RunStarted("Clerk", "hello", 10)


def snapshot(value: Any) -> Any:
    """All that a fold holds, at any depth, as a value that can be compared."""
    if isinstance(value, Ledger):
        return {name: snapshot(getattr(value, name)) for name in Ledger.__slots__ if name != "_lock"}
    if isinstance(value, RunFold | Call):
        return {name: snapshot(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: snapshot(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(each) for each in value]
    if isinstance(value, set):
        return sorted(value)
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def answer(*output: Any, response_id: str | None = "resp_1", usage: e.Usage = USAGE) -> e.ResponseReceived:
    return e.ResponseReceived(response_id, list(output), usage)


def call(label: str = "c1", name: str = "pay", **arguments: Any) -> dict[str, Any]:
    return function_call(name, arguments, call_id=label)


def held(local: str, digest: str = "d1") -> e.CallHeld:
    return e.CallHeld(local, digest, "function:pay", "f1")


def doubt(local: str, digest: str = "d2") -> e.CallInDoubt:
    return e.CallInDoubt(local, digest, "function:pay", "f1", "gone")


def decided(local: str, verdict: Any = "approve", request: int = 1, digest: str = "d1", **more: Any) -> e.DecisionMade:
    return e.DecisionMade(local, request, digest, verdict, "ann", 1.0, **more)


def grant(**more: Any) -> e.GrantMade:
    return e.GrantMade("g1", "Clerk", "function:pay", "f1", "approve", "ann", 1.0, **more)


ASKED = (START, e.RequestSent())
ONE_CALL = (*ASKED, answer(call()))
TWO_CALLS = (*ASKED, answer(call("c1"), call("c2", "look")))
HELD = (*ONE_CALL, held("1.0"))
STARTED = (*ONE_CALL, e.CallsAllowed(["1.0"]), e.CallsStarted(["1.0"]))
IN_DOUBT = (*STARTED, doubt("1.0"))
ENDED_CALL = (*STARTED, e.CallEnded("1.0", "finished", "paid"))
SAID = (*ASKED, answer(assistant_message("bye")))
ENDED = (*SAID, e.RunEnded("bye"))


# -- the run


def test_a_run_begins_with_its_input_in_history_and_unsent() -> None:
    run = fold([e.RunStarted("Clerk", "hello", 7, "chained", "resp_0")])

    assert (run.agent, run.max_turns, run.delivery, run.server_id) == ("Clerk", 7, "chained", "resp_0")
    assert run.history == run.outbox == [{"role": "user", "content": "hello"}]
    assert run.input_length == 1
    assert run.turn == 0


def test_items_given_as_input_stand_in_history_as_they_are() -> None:
    items = [{"role": "user", "content": "a"}, call("old"), {"type": "function_call_output", "call_id": "old"}]

    run = fold([e.RunStarted("Clerk", items, None)])

    assert run.history == items
    assert run.seen_labels == {"old"}


def test_a_fork_remembers_where_it_came_from() -> None:
    assert fold([START, e.RunForked("run_a"), e.RunForked("run_b")]).origins == ("run_a", "run_b")


def test_a_new_turn_limit_takes_the_place_of_the_old_one() -> None:
    assert fold([START, e.TurnLimitSet(None)]).max_turns is None


def test_added_input_is_unsent_and_in_history() -> None:
    more = {"role": "user", "content": "more"}

    run = fold([*SAID, e.InputAdded([more])])

    assert run.history[-1] == more
    assert run.outbox == [more]


def test_input_that_comes_while_calls_are_open_stands_after_their_outputs() -> None:
    more = {"role": "user", "content": "more"}

    run = fold([*STARTED, e.InputAdded([more])])
    before = list(run.history)
    fold([e.CallEnded("1.0", "finished", "paid")], into=run)

    assert more not in before
    assert [item.get("output") or item.get("content") for item in run.history[-2:]] == ["paid", "more"]
    assert [item.get("output") or item.get("content") for item in run.outbox] == ["paid", "more"]


def test_a_handoff_changes_the_agent_but_not_whose_calls_the_open_turn_holds() -> None:
    run = fold([*ENDED_CALL, e.AgentChanged("Other")])

    assert (run.agent, run.response_agent) == ("Other", "Clerk")


def test_a_stop_is_remembered_until_the_model_is_asked_again() -> None:
    run = fold([*ASKED, e.RequestRefused("no"), e.RunStopped("boom", "it went wrong")])
    stopped = run.stopped
    fold([e.RequestSent()], into=run)

    assert stopped == ("boom", "it went wrong")
    assert run.stopped is None


def test_a_run_ends_with_its_output() -> None:
    run = fold(ENDED)

    assert run.has_ended
    assert run.final_output == "bye"


# -- the model


def test_a_request_carries_all_that_is_unsent_and_its_answer_acknowledges_just_that() -> None:
    run = fold(ASKED)
    carried = run.in_flight
    fold([answer(assistant_message("hi"))], into=run)

    assert carried == 1
    assert run.outbox == []
    assert (run.request, run.in_flight) == ("none", 0)


def test_a_refused_request_leaves_everything_unsent() -> None:
    run = fold([*ASKED, e.RequestRefused("no")])

    assert (run.request, run.in_flight, len(run.outbox)) == ("none", 0, 1)


def test_a_lost_request_is_neither_answered_nor_forgotten() -> None:
    run = fold([*ASKED, e.RequestLost("gone")])

    assert (run.request, run.in_flight, len(run.outbox)) == ("lost", 1, 1)


@pytest.mark.parametrize(("taken", "left"), [(True, 0), (False, 1)])
def test_a_settled_request_counts_as_delivered_only_if_it_was_taken(taken: bool, left: int) -> None:
    run = fold([*ASKED, e.RequestLost("gone"), e.RequestSettled(taken)])

    assert (run.request, run.in_flight, len(run.outbox)) == ("none", 0, left)


def test_an_unusable_answer_delivers_nothing_where_we_keep_the_history_or_chain_responses() -> None:
    run = fold([*ASKED, e.ResponseUnusable("resp_1", "empty")])

    assert (run.request, len(run.outbox), run.turn) == ("none", 1, 0)


def test_an_unusable_answer_has_delivered_what_a_conversation_keeps() -> None:
    run = fold(
        [e.RunStarted("Clerk", "hello", 10, "conversation", "conv"), e.RequestSent(), e.ResponseUnusable(None, "")]
    )

    assert run.outbox == []


def test_a_response_opens_a_turn_with_its_calls_in_the_models_order() -> None:
    run = fold(TWO_CALLS)

    assert run.turn == run.responses == 1
    assert [(each.id, each.name, each.label, each.status) for each in run.calls.values()] == [
        ("1.0", "pay", "c1", Status.PROPOSED),
        ("1.1", "look", "c2", Status.PROPOSED),
    ]
    assert run.open_calls == 2
    assert run.last_response_id == "resp_1"


def test_usage_is_summed_over_responses() -> None:
    run = fold([*ENDED_CALL, e.RequestSent(), answer(assistant_message("x"))])

    assert run.usage == e.Usage(requests=2, input_tokens=4, output_tokens=6, total_tokens=10)


def test_folding_does_not_change_the_usage_that_stands_in_a_fact() -> None:
    fact = answer(assistant_message("x"))
    fold([*ASKED, fact])

    assert fact.usage == USAGE
    assert e.Usage(requests=1, input_tokens=2, output_tokens=3, total_tokens=5) == USAGE


# -- the calls


def test_allowing_and_claiming_count_an_attempt_each_time() -> None:
    run = fold([*STARTED, e.CallsStarted(["1.0"])])

    assert run.calls["1.0"].status is Status.STARTED
    assert run.calls["1.0"].attempts == 2


def test_a_held_call_waits_in_the_ledger_with_what_was_asked() -> None:
    run = fold(HELD)
    entry = run.ledger.open_entries()[0]

    assert run.calls["1.0"].status is Status.HELD
    assert (entry.call, entry.label, entry.name, entry.tool, entry.fingerprint) == (
        "1.0",
        "c1",
        "pay",
        "function:pay",
        "f1",
    )
    assert (entry.agent, entry.request, entry.digest, entry.decision) == ("Clerk", 1, "d1", None)


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        ("approve", Status.APPROVED),
        ("edit", Status.APPROVED),
        ("reject", Status.REJECTED),
        ("respond", Status.ANSWERED),
    ],
)
def test_a_decision_about_a_held_call(verdict: Any, status: Status) -> None:
    run = fold([*HELD, decided("1.0", verdict)])

    assert run.calls["1.0"].status is status
    assert run.ledger.open_entries() == []
    assert run.ledger.status("pay", "c1") is (verdict != "reject")


@pytest.mark.parametrize(
    ("verdict", "status"), [("approve", Status.CLEARED), ("reject", Status.GIVEN_UP), ("respond", Status.ANSWERED)]
)
def test_a_decision_about_a_call_in_doubt(verdict: Any, status: Status) -> None:
    run = fold([*IN_DOUBT, decided("1.0", verdict, digest="d2")])

    assert run.calls["1.0"].status is status


def test_an_edit_names_a_digest_of_its_own() -> None:
    run = fold([*HELD, decided("1.0", "edit", digest="other", arguments={"n": 2})])

    assert run.calls["1.0"].decision is not None
    assert run.calls["1.0"].decision.arguments == {"n": 2}


def test_asking_anew_voids_what_was_decided_before() -> None:
    run = fold([*HELD, decided("1.0"), held("1.0", "d9")])

    assert run.calls["1.0"].status is Status.HELD
    assert run.calls["1.0"].request == 2
    assert run.calls["1.0"].decision is None
    assert run.ledger.status("pay", "c1") is None


def test_a_revoked_decision_leaves_the_call_waiting() -> None:
    run = fold([*HELD, decided("1.0"), e.DecisionRevoked("1.0", "ann", 2.0)])

    assert run.calls["1.0"].status is Status.HELD
    assert [entry.call for entry in run.ledger.open_entries()] == ["1.0"]
    assert run.ledger.status("pay", "c1") is None


def test_a_revoked_run_again_leaves_the_call_in_doubt() -> None:
    run = fold([*IN_DOUBT, decided("1.0", request=1, digest="d2"), e.DecisionRevoked("1.0", "ann", 2.0)])

    assert run.calls["1.0"].status is Status.IN_DOUBT


def test_grants_come_and_go() -> None:
    run = fold([START, grant()])
    made = run.ledger.grants()
    fold([e.GrantRevoked("g1", "ann", 2.0)], into=run)

    assert [each.id for each in made] == ["g1"]
    assert run.ledger.grants() == ()


def test_a_grant_that_is_noted_twice_stands_once() -> None:
    assert len(fold([START, grant(), grant()]).ledger.grants()) == 1


def test_outputs_enter_history_when_the_last_call_of_the_turn_has_ended_in_the_models_order() -> None:
    run = fold([*TWO_CALLS, e.CallsAllowed(["1.0", "1.1"]), e.CallsStarted(["1.0", "1.1"])])
    fold([e.CallEnded("1.1", "finished", "second")], into=run)
    before = len(run.history), list(run.outbox)
    fold([e.CallEnded("1.0", "failed", "first")], into=run)

    assert before == (3, [])
    assert [item["output"] for item in run.history[3:]] == ["first", "second"]
    assert [item["call_id"] for item in run.outbox] == ["c1", "c2"]


def test_a_call_that_waited_and_ended_is_not_pending_any_more() -> None:
    run = fold([*HELD, e.CallEnded("1.0", "expired", "too late")])

    assert run.ledger.open_entries() == []
    assert run.calls["1.0"].outcome == "expired"


def test_a_deferred_call_is_started_like_any_other() -> None:
    run = fold([*ONE_CALL, e.CallsDeferred(["1.0"]), e.CallsStarted(["1.0"])])

    assert run.calls["1.0"].status is Status.STARTED


# -- nested runs


NESTED = (*STARTED, e.InChild("1.0", e.RunStarted("Clerk/pay", "inner", 5)))


def test_a_nested_run_begins_in_a_started_call_and_shares_the_ledger() -> None:
    run = fold(
        [
            *NESTED,
            e.InChild("1.0", e.RequestSent()),
            e.InChild("1.0", answer(call("c1"))),
            e.InChild("1.0", held("1.0/1.0")),
        ]
    )
    child = run.children["1.0"]

    assert child.path == "1.0"
    assert list(child.calls) == ["1.0/1.0"]
    assert [(owner.path, each.id) for owner, each in run.waiting()] == [("1.0", "1.0/1.0")]
    assert child.ledger is run.ledger


# -- what cannot follow


ILLEGAL: dict[str, tuple[tuple[e.AnyFact, ...], e.AnyFact]] = {
    "anything before the beginning": ((), e.RequestSent()),
    "a second beginning": ((START,), START),
    "anything after the end": (ENDED, e.RequestSent()),
    "a decision after the end": (ENDED, decided("1.0")),
    "a grant after the end": (ENDED, grant()),
    "an end while a call is open": (ONE_CALL, e.RunEnded("bye")),
    "a handoff while a call is open": (ONE_CALL, e.AgentChanged("Other")),
    "a request while a call is open": (ONE_CALL, e.RequestSent()),
    "a second request into a conversation": (
        (e.RunStarted("Clerk", "hello", 10, "conversation", "conv"), e.RequestSent()),
        e.RequestSent(),
    ),
    "an answer to nothing": ((START,), answer(call())),
    "a refusal of nothing": ((START,), e.RequestRefused("no")),
    "a loss of nothing": ((START,), e.RequestLost("no")),
    "a settlement of nothing": ((START,), e.RequestSettled(True)),
    "nonsense to nothing": ((START,), e.ResponseUnusable(None, "no")),
    "a second answer": (ONE_CALL, answer(call())),
    "a call that does not exist": (ONE_CALL, e.CallsAllowed(["1.7"])),
    "one that exists and one that does not": (ONE_CALL, e.CallsAllowed(["1.0", "1.7"])),
    "a claim of a proposed call": (ONE_CALL, e.CallsStarted(["1.0"])),
    "a claim of a held call": (HELD, e.CallsStarted(["1.0"])),
    "a claim of a rejected call": ((*HELD, decided("1.0", "reject")), e.CallsStarted(["1.0"])),
    "a claim of an answered call": ((*HELD, decided("1.0", "respond", output="x")), e.CallsStarted(["1.0"])),
    "a claim of a call in doubt": (IN_DOUBT, e.CallsStarted(["1.0"])),
    "a claim of an ended call": (ENDED_CALL, e.CallsStarted(["1.0"])),
    "one legal claim and one illegal": (
        (*TWO_CALLS, e.CallsAllowed(["1.1"])),
        e.CallsStarted(["1.1", "1.0"]),
    ),
    "a doubt about a call that never started": (HELD, doubt("1.0")),
    "a question about a running call": (STARTED, held("1.0")),
    "a question about an ended call": (ENDED_CALL, held("1.0")),
    "a decision about what nobody asked": (ONE_CALL, decided("1.0")),
    "a decision about an allowed call": ((*ONE_CALL, e.CallsAllowed(["1.0"])), decided("1.0", request=0, digest="")),
    "a decision about other arguments": (HELD, decided("1.0", digest="other")),
    "a decision about an earlier question": ((*HELD, held("1.0", "d1")), decided("1.0", request=1)),
    "a decision about a later question": (HELD, decided("1.0", request=2)),
    "a second decision": ((*HELD, decided("1.0")), decided("1.0", "reject")),
    "a decision about a call of an earlier turn": (
        (*ENDED_CALL, e.RequestSent(), answer(call())),
        decided("1.0", request=0, digest=""),
    ),
    "a revocation of nothing": (HELD, e.DecisionRevoked("1.0", "ann", 2.0)),
    "a revocation of a rejection": ((*HELD, decided("1.0", "reject")), e.DecisionRevoked("1.0", "ann", 2.0)),
    "a revocation after the claim": (
        (*HELD, decided("1.0"), e.CallsStarted(["1.0"])),
        e.DecisionRevoked("1.0", "ann", 2.0),
    ),
    "a result of a call that never ran": (HELD, e.CallEnded("1.0", "finished", "x")),
    "a failure of a call that never ran": ((*ONE_CALL, e.CallsAllowed(["1.0"])), e.CallEnded("1.0", "failed", "x")),
    "a result of a rejected call": ((*HELD, decided("1.0", "reject")), e.CallEnded("1.0", "finished", "x")),
    "a rejection of a running call": (STARTED, e.CallEnded("1.0", "rejected", "x")),
    "an expiry of a running call": (STARTED, e.CallEnded("1.0", "expired", "x")),
    "an expiry of a rejected call": ((*HELD, decided("1.0", "reject")), e.CallEnded("1.0", "expired", "x")),
    "a result of a call in doubt": (IN_DOUBT, e.CallEnded("1.0", "finished", "x")),
    "a second end": (ENDED_CALL, e.CallEnded("1.0", "finished", "x")),
    "a nested run in no call": (ONE_CALL, e.InChild("1.7", START)),
    "a nested run in a call that has not started": (HELD, e.InChild("1.0", START)),
    "a nested run that does not begin": (STARTED, e.InChild("1.0", e.RequestSent())),
    "a nested run that begins twice": (NESTED, e.InChild("1.0", START)),
    "an illegal fact in a nested run": (NESTED, e.InChild("1.0", answer(call()))),
    "a nested run with the path of the outer one": (STARTED, e.InChild("", e.RequestSent())),
}


@pytest.mark.parametrize(("before", "fact"), ILLEGAL.values(), ids=ILLEGAL)
def test_what_cannot_follow_is_refused_and_changes_nothing(before: tuple[e.AnyFact, ...], fact: e.AnyFact) -> None:
    run = fold(before)
    earlier = snapshot(run)
    with pytest.raises(IllegalTransition):
        apply(run, fact)

    assert snapshot(run) == earlier


def test_every_kind_of_fact_can_be_folded() -> None:
    assert set(get_args(e.PlainFact)) == set(_APPLIERS)


def test_a_copy_is_independent_of_its_original_in_both_directions() -> None:
    run = fold(HELD)
    before = snapshot(run)
    twin = run.copy()
    fold([decided("1.0"), e.CallsStarted(["1.0"]), e.CallEnded("1.0", "finished", "x"), e.RequestSent()], into=twin)

    assert snapshot(run) == before
    assert snapshot(twin) != before


def test_folding_the_same_facts_twice_gives_the_same_state() -> None:
    assert snapshot(fold(IN_DOUBT)) == snapshot(fold(IN_DOUBT))


GROWN = (
    *NESTED,
    e.InChild("1.0", e.RequestSent()),
    e.InChild("1.0", answer(call("c1"), call("c2"))),
    e.InChild("1.0", e.CallsAllowed(["1.0/1.0", "1.0/1.1"])),
    e.InChild("1.0", e.CallsStarted(["1.0/1.0"])),
    e.InChild("1.0/1.0", e.RunStarted("Clerk/pay/pay", "innermost", 5)),
)


@pytest.mark.parametrize("before", [ASKED, NESTED, GROWN], ids=["shorter", "nested", "as long"])
def test_a_fold_that_becomes_another_is_what_it_would_have_been(before: tuple[e.AnyFact, ...]) -> None:
    run, other = fold(before), fold(GROWN)

    run.ledger.become(other.ledger)
    run.become(other)

    assert snapshot(run) == snapshot(fold(GROWN))
    assert {id(member.ledger) for member in run.family()} == {id(run.ledger)}


def test_a_fold_that_becomes_another_keeps_the_objects_that_frames_and_contexts_hold() -> None:
    run = fold(NESTED)
    child = run.find("1.0")
    assert child is not None
    held_by_others = child.usage, run.usage, run.ledger

    run.become(fold(GROWN))

    assert run.find("1.0") is child
    assert (child.usage, run.usage, run.ledger) == held_by_others
    assert (child.usage is held_by_others[0], child.turn, run.usage.requests) == (True, 1, 2)

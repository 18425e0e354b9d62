"""The one reading of the log: what happened to calls and runs, built fact by fact."""

from __future__ import annotations

from placet.core.story import Story, story_of
from placet.core.story_tree import Asked, Decided, Ended, Moved, Note, Revoked, Validated
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.testing import assistant_message, function_call

HELD = e.CallHeld("1.0", "digest", "function:pay", "print", "a rule", expires_at=9.0)
INPUT = e.InputAsked("1.0", "asked", "function:pay", "print", {"q": {"message": "Which account?"}})


def answer(*items: JsonObject) -> e.ResponseReceived:
    return e.ResponseReceived("r", list(items), e.Usage(1))


def decided(number: int, verdict: e.Verdict = "approve", **more: object) -> e.DecisionMade:
    return e.DecisionMade("1.0", number, f"digest {number}", verdict, "ana", 4.0, **more)  # type: ignore[arg-type]


def records(*facts: e.AnyFact) -> list[e.Record]:
    """A run with one call of `pay`, and then a fact a second."""
    begin = e.Record(0.0, [e.RunStarted("Clerk", "Pay.", 10, by="mia"), e.RequestSent()])
    pay = e.Record(1.0, [answer(assistant_message("I pay."), function_call("pay", {"cents": 5}, call_id="c"))])
    return [begin, pay, *(e.Record(2.0 + place, [fact]) for place, fact in enumerate(facts))]


def test_a_call_that_asks_for_input_waits_until_somebody_answers() -> None:
    facts = [e.CallsAllowed(["1.0"]), e.CallsStarted(["1.0"]), INPUT, decided(1, "respond"), e.CallsStarted(["1.0"])]

    waits = [next(story_of(records(*facts[:end])).calls()).waits for end in range(6)]

    assert waits == [False, False, False, True, False, False]


def test_steps_carry_the_time_the_line_and_what_changed() -> None:
    log = records(
        e.ArgumentsValidated("1.0", {"cents": 5, "note": ""}), HELD, decided(1, "edit", arguments={"cents": 4})
    )

    (call,) = story_of(log).calls()

    validated, asked, edited = call.steps
    assert isinstance(validated, Validated)
    assert (validated.at, validated.line, validated.changes) == (2.0, 2, {"note": ""})
    assert isinstance(asked, Asked)
    assert (asked.kind, asked.number, asked.why, asked.expires_at) == ("approval", 1, "a rule", 9.0)
    assert isinstance(edited, Decided)
    assert edited.changes == {"cents": 4, "note": None}
    assert (call.runs_with, call.digest) == ('{"cents":4}', "digest 1")


def test_with_a_revocation_the_edit_is_gone_and_the_call_waits_again() -> None:
    log = records(HELD, decided(1, "edit", arguments={"cents": 4}), e.DecisionRevoked("1.0", "ben", 5.0, "no"))

    (call,) = story_of(log).calls()

    assert call.steps[-1] == Revoked("1.0", 5.0, 4, "ben", "no")
    assert (call.waits, call.edited) == (True, None)


def test_a_call_remembers_the_decision_that_it_began_under_and_how_often_it_began() -> None:
    doubt = e.CallInDoubt("1.0", "digest", "function:pay", "print", "its worker is gone")
    log = records(HELD, decided(1), e.CallsStarted(["1.0"]), doubt, decided(2), e.CallsStarted(["1.0"]))

    (call,) = story_of([*log, e.Record(9.0, [e.CallEnded("1.0", "finished", "paid")])]).calls()

    assert call.ran_under == decided(2)
    assert (call.attempts, call.began_at, call.outcome, call.ended_at) == (2, 7.0, "finished", 9.0)


def test_nested_runs_hang_under_their_calls() -> None:
    inside = [e.RunStarted("Teller", "Do it.", 10), answer(function_call("book", {}, call_id="d"))]
    log = records(e.CallsStarted(["1.0"]), *(e.InChild("1.0", fact) for fact in inside))

    (pay,) = story_of(log).calls()

    assert pay.child is not None
    assert [(call.id, call.name) for call in pay.child.calls()] == [("1.0/1.0", "book")]


def test_what_happened_is_told_in_the_order_of_the_log() -> None:
    log = records(e.RunStopped("x", "y"), e.CallsStarted(["1.0"]), e.CancelAsked("ana", 3.5, "late"))

    told = list(Story().read(log))

    assert told == [
        Note("stopped", "", 2.0, 2, "x: y"),
        Moved("1.0", 3.0, 3, "started"),
        Note("cancel", "", 3.5, 4, "", "ana", "late"),
    ]


def test_a_log_with_gaps_is_read_all_the_same() -> None:
    log = [e.Record(3.0, [e.CallEnded("9.9", "finished", "x"), e.InChild("8.8", e.RunEnded("y"))])]

    story = Story()
    told = list(story.read(log))

    assert told == [Ended("9.9", 3.0, 0, "finished", "x")]
    assert (list(story.root.calls()), story.call("9.9").outcome) == ([], "finished")


def test_an_erased_log_says_that_the_run_is_over_and_when_it_began() -> None:
    log = [e.Record(3.0, [e.Erased("d", "start"), e.RequestSent()]), e.Record(5.0, [e.CallsStarted(["1.0"])])]

    story = story_of(log)

    assert (story.is_erased, story.has_ended, story.began, story.latest, story.turns) == (True, True, 3.0, 5.0, [])


def test_a_reader_of_what_goes_on_now_keeps_only_the_open_turn() -> None:
    turns = [e.Record(float(turn), [answer(function_call("t", {}, call_id=f"c{turn}"))]) for turn in range(1, 9)]
    nested = e.Record(8.5, [e.InChild("8.0", answer(function_call("n", {}, call_id="n")))])
    story = Story(only_open=True)

    for record in [*turns, nested, e.Record(9.0, [answer(function_call("t", {}, call_id="c9"))])]:
        story.take(record.at, record.facts[0])

    assert (list(story.calls), list(story.runs), len(story.root.turns)) == (["9.0"], [""], 1)


def test_with_a_call_what_was_asked_in_the_run_nested_in_it_is_over() -> None:
    inside = [e.RunStarted("Teller", "Do it.", 10), answer(function_call("book", {}, call_id="d"))]
    held = e.CallHeld("1.0/1.0", "digest", "function:book", "print")
    story = Story()
    log = records(e.CallsStarted(["1.0"]), *(e.InChild("1.0", fact) for fact in (*inside, held)))
    for _ in story.read(log):
        pass
    book = story.call("1.0/1.0")
    request = book.request

    story.take(9.0, e.CallEnded("1.0", "cancelled", ""))

    assert request is not None
    assert story.over == [(book, request)]
    assert (book.waits, list(story.open_requests())) == (False, [])


def test_what_was_asked_before_a_fork_was_asked_in_the_run_that_it_came_from() -> None:
    (call,) = story_of(records(HELD, e.RunForked("run_a"), e.RunForked("run_b"))).calls()

    assert call.request is not None
    assert call.request.asked_in == "run_a"

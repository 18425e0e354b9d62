"""What a log tells: turns, calls, waits, decisions, nested runs; and what led to a question."""

from __future__ import annotations

from placet.core.story import story_of
from placet.desk.pages.history import NoteLine, lead_up, notes_of, output_text, stretches_of
from placet.desk.pages.timeline import MAX_ROWS, draw
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.testing import assistant_message, function_call

USAGE = e.Usage(1)
HOUR = 3600.0


def answer(*items: JsonObject) -> e.ResponseReceived:
    return e.ResponseReceived("r", list(items), USAGE)


def held(call: str) -> e.CallHeld:
    return e.CallHeld(call, "digest", "function:pay", "print")


def decided(call: str, at: float, verdict: e.Verdict = "approve", **more: object) -> e.DecisionMade:
    return e.DecisionMade(call, 1, "digest", verdict, "ana", at, **more)  # type: ignore[arg-type]


def records() -> list[e.Record]:
    """A manager has a clerk pay; the clerk's call waits two hours, and is approved."""
    look = function_call("look_up", {"id": 7}, call_id="c0")
    ask = function_call("ask_clerk", {"input": "Pay 7."}, call_id="c1")
    pay = function_call("pay", {"cents": 5}, call_id="c2")

    def inner(*facts: e.PlainFact) -> list[e.AnyFact]:
        return [e.InChild("1.1", fact) for fact in facts]

    return [
        e.Record(0.0, [e.RunStarted("Manager", "Pay the invoice.", 10, by="mia"), e.RequestSent()]),
        e.Record(1.0, [answer(assistant_message("I ask the clerk."), look, ask), e.CallsStarted(["1.0", "1.1"])]),
        e.Record(1.5, [e.CallEnded("1.0", "finished", "invoice 7")]),
        e.Record(2.0, inner(e.RunStarted("Manager/ask_clerk(Clerk)", "Pay 7.", 10), e.RequestSent())),
        e.Record(3.0, inner(answer(pay), held("1.1/1.0"))),
        e.Record(3.0 + 2 * HOUR, inner(decided("1.1/1.0", 3.0 + 2 * HOUR, reason="checked"))),
        e.Record(4.0 + 2 * HOUR, inner(e.CallsStarted(["1.1/1.0"]))),
        e.Record(5.0 + 2 * HOUR, inner(e.CallEnded("1.1/1.0", "finished", "paid"), e.RunEnded("paid"))),
        e.Record(6.0 + 2 * HOUR, [e.CallEnded("1.1", "finished", "paid"), e.RequestSent()]),
        e.Record(7.0 + 2 * HOUR, [answer(assistant_message("Done.")), e.RunEnded("Done.")]),
    ]


def test_a_log_is_told_with_its_times_and_its_nested_runs() -> None:
    story = story_of(records())

    look, ask = story.turns[0].calls.values()
    assert (story.agent, story.by, story.input, story.output) == ("Manager", "mia", "Pay the invoice.", "Done.")
    assert (look.outcome, look.ended_at, stretches_of(look)[0].sort) == ("finished", 1.5, "run")
    assert ask.child is not None
    (pay,) = ask.child.calls()
    assert [(each.sort, each.begins, each.ends) for each in stretches_of(pay)] == [
        ("wait", 3.0, 3.0 + 2 * HOUR),
        ("run", 4.0 + 2 * HOUR, 5.0 + 2 * HOUR),
    ]
    assert pay.decisions[0].reason == "checked"


def test_what_led_to_a_nested_question_is_told_from_the_outermost_run_down() -> None:
    story = story_of(records()[:5])

    steps, left_out = lead_up(story, "1.1/1.0")

    assert [(step.sort, step.who, step.text, step.depth) for step in steps] == [
        ("asked", "mia", "Pay the invoice.", 0),
        ("said", "Manager", "I ask the clerk.", 0),
        ("call", "look_up", "invoice 7", 0),
        ("asked", "the agent above", "Pay 7.", 1),
    ]
    assert left_out == 0


def test_of_a_long_story_the_first_step_and_the_last_ones_are_told() -> None:
    log = [e.Record(0.0, [e.RunStarted("A", "Go.", None)])]
    for turn in range(1, 41):
        log.append(e.Record(float(turn), [answer(function_call("t", {}, call_id=f"c{turn}"))]))
        log.append(e.Record(turn + 0.5, [e.CallEnded(f"{turn}.0", "finished", f"result {turn}")]))

    steps, left_out = lead_up(story_of(log), "40.0")

    assert (steps[0].text, steps[-1].text, left_out) == ("Go.", "result 39", 40 - 24)


def test_a_decision_that_was_revoked_waits_again() -> None:
    log = [
        e.Record(0.0, [e.RunStarted("A", "Go.", None)]),
        e.Record(1.0, [answer(function_call("pay", {}, call_id="c")), held("1.0")]),
        e.Record(2.0, [decided("1.0", 2.0)]),
        e.Record(3.0, [e.DecisionRevoked("1.0", "ben", 3.0)]),
    ]

    (call,) = story_of(log).calls()

    assert call.waits
    assert [each.ends for each in stretches_of(call)] == [2.0, None]


def test_facts_about_calls_that_the_log_does_not_show_are_no_error() -> None:
    log = [e.Record(0.0, [e.CallEnded("9.9", "finished", "x"), e.InChild("8.8", e.RunEnded("y"))])]

    story = story_of(log)

    assert (list(story.calls()), story.turns) == ([], [])


def test_what_happens_to_the_run_as_a_whole_is_noted_in_words_and_bookkeeping_is_not() -> None:
    facts: list[e.AnyFact] = [
        e.RunStopped("max_turns_exceeded", "10 turns"),
        e.CancelAsked("ana", 1.0, "a mistake"),
        e.TurnJudged(),
        e.GuardrailsJudged("input", [e.GuardrailRecord("rude", False), e.GuardrailRecord("long", True)]),
    ]

    assert notes_of(story_of([e.Record(1.0, facts)])) == [
        NoteLine(1.0, "stopped", "max_turns_exceeded: 10 turns", 0, True),
        NoteLine(1.0, "cancel asked", "ana: a mistake", 0),
        NoteLine(1.0, "guardrail", "input: long", 0, True),
    ]


def test_questions_that_were_escalated_or_asked_again_in_a_nested_run_are_noted() -> None:
    inside: list[e.AnyFact] = [
        e.InChild("1.1", e.QuestionEscalated("1.1/1.0")),
        e.InChild("1.1", decided("1.1/1.0", 4.0)),
        e.InChild("1.1", e.DecisionRevoked("1.1/1.0", "ben", 5.0)),
    ]

    assert notes_of(story_of([*records()[:5], e.Record(5.0, inside)])) == [
        NoteLine(5.0, "escalated", "no answer came about 1.1/1.0 in time", 5, True),
        NoteLine(5.0, "revoked", "ben: pay", 5),
    ]


def test_outputs_are_read_as_text() -> None:
    assert output_text("plain") == "plain"
    assert output_text([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert output_text([{"type": "image"}]) == "1 content parts"
    assert output_text(None) == ""


# -- the picture ------------------------------------------------------------------------------------------------------


def test_the_picture_has_a_row_for_each_run_and_call_and_draws_long_waits_short() -> None:
    picture = draw(story_of(records()))

    assert [(row.sort, row.label, row.depth) for row in picture.rows] == [
        ("run", "Manager", 0),
        ("call", "look_up", 0),
        ("call", "ask_clerk", 0),
        ("run", "Clerk", 1),
        ("call", "pay", 1),
    ]
    pay = picture.rows[4]
    wait, ran = pay.bars
    assert (wait.look, ran.look) == ("wait", "run")
    assert wait.width < 4 * ran.width  # two hours beside one second
    assert [each.text for each in picture.breaks] == ["2 h 0 min"]
    assert pay.signs[0].label.startswith("pay: approved by ana, ")
    assert pay.signs[0].x == wait.x + wait.width
    assert picture.summary == "2 turns, 2 calls, over 2 h 0 min, ended"


def test_time_never_runs_backwards_in_the_picture() -> None:
    picture = draw(story_of(records()))

    bars = sorted((bar for row in picture.rows for bar in row.bars), key=lambda bar: bar.x)
    assert all(bar.x >= 0 and bar.x + bar.width <= picture.width for bar in bars)
    assert [tick.x for tick in picture.ticks] == sorted(tick.x for tick in picture.ticks)


def test_what_is_still_open_is_drawn_up_to_now() -> None:
    story = story_of(records()[:5])

    picture = draw(story, now=63.0)

    (wait,) = picture.rows[-1].bars
    assert (wait.is_open, wait.label) == (True, "pay: waits for a person, since 1 min")
    assert "running" in picture.summary or "waiting" in picture.summary


def test_a_call_that_waits_for_input_is_drawn_as_waiting_and_not_as_running() -> None:
    asked = e.InputAsked("1.0", "digest", "function:look_up", "print", {"q": {"message": "Which?"}})
    log = [*records()[:2], e.Record(3.0, [asked])]

    picture = draw(story_of(log), now=63.0)

    ran, waits = picture.rows[1].bars
    assert (ran.look, ran.is_open, ran.label) == ("run", False, "look_up: ran after 2 s")
    assert (waits.look, waits.is_open, waits.label) == (
        "wait",
        True,
        "look_up: waits for a person's input, since 1 min",
    )
    assert picture.summary.endswith(", 1 waiting")


def test_of_very_many_rows_the_first_and_the_last_ones_are_drawn() -> None:
    turns = [e.Record(float(turn), [answer(function_call("t", {}, call_id=f"c{turn}"))]) for turn in range(1, 301)]
    log = [e.Record(0.0, [e.RunStarted("A", "Go.", None)]), *turns]

    picture = draw(story_of(log))

    assert (len(picture.rows), picture.left_out, picture.rows[0].label) == (MAX_ROWS, 301 - MAX_ROWS, "A")


def test_an_empty_log_is_an_empty_picture() -> None:
    picture = draw(story_of([]))

    assert [row.sort for row in picture.rows] == ["run"]

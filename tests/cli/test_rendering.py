"""Cards, pictures and the texts in them: all of it is shown, and nothing of it can deceive."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from placet.cli.cards import card, decision_panel, request_card
from placet.cli.output import Whole, shown, whole_lines
from placet.cli.picture import run_picture
from placet.cli.tables import print_table, styled
from placet.core.story import story_of
from placet.facts import events as e
from placet.testing import assistant_message, function_call
from tests.cli.screens import screen_of


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures tell local times."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def request_of(arguments: object, **more: object) -> dict[str, object]:
    """A request as the API shows it."""
    found = {"id": "run_1:1.0#1", "agent": "Support", "tool": "refund", "arguments": arguments, "kind": "approval"}
    standing = {"status": "pending", "digest": "d" * 64, "created_at": "2026-01-01T00:00:00Z", "expires_at": None}
    return {**found, **standing, **more}


def card_of(arguments: object, **more: object) -> list[str]:
    screen, out = screen_of()
    screen.show(card(request_of(arguments, **{"description": "Pays money.", **more}), screen, number=1))
    return out.lines


def inside(lines: list[str]) -> str:
    return "".join(line[2:-2].strip() for line in lines[1:-1])


def test_a_card_shows_the_call_its_arguments_and_what_is_at_stake() -> None:
    lines = card_of({"order_id": "7", "cents": 700, "items": [{"sku": "a"}]}, agent="Support/Payments")

    assert lines[0].startswith("+- 1  refund ---")
    assert "| agent  Support/Payments" in lines[1]
    assert [line[2:].split("  ")[0] for line in lines[4:7]] == ["order_id", "cents", "items"]
    assert '"7"' in lines[4]
    assert "Pays money." in lines[8]
    assert {cell_len(line) for line in lines} == {60}


def test_a_card_shows_long_and_wide_values_whole_within_its_frame() -> None:
    value = "word  " * 40 + "漢字" * 40 + "x" * 100
    name = "n" * 70
    screen, out = screen_of(encoding="utf-8")

    screen.show(card(request_of({"text": value, name: 1}), screen))

    table = [line[2:-2] for line in out.lines[4:-1]]
    left = 56 // 3
    assert {cell_len(line) for line in out.lines} == {60}
    assert "".join(line[left + 2 :].rstrip() for line in table).replace(" ", "") == f'"{value}"1'.replace(" ", "")
    assert "".join(line[:left].strip() for line in table) == f"text{name}"


def test_arguments_cannot_move_the_cursor_hide_or_turn_around() -> None:
    lines = card_of({"to\x1b[2J": "a\x07\u202eb\u200bc\x9b\nd"})

    text = inside(lines)
    assert all(line.isprintable() for line in lines)
    assert r"to\u001b[2J" in text
    assert r"a\u0007\u202eb\u200bc\u009b\nd" in text


HOSTILE = "[bold red]x[/] [link=https://evil.example]y[/link] :smile: https://evil.example/a [/]"
"""Markup, links and emoji codes of the library that draws."""


@pytest.mark.promise("P22")
def test_what_a_model_wrote_is_not_taken_for_markup_a_link_or_an_emoji_code() -> None:
    screen, out = screen_of(200, "utf-8", is_terminal=True)
    decision = {"decision": "reject", "by": HOSTILE, "at": "2026-01-01T00:00:00Z", "message": HOSTILE}
    request = request_of({HOSTILE: HOSTILE}, tool=HOSTILE, agent=HOSTILE, why=HOSTILE, decision=decision)
    records = [
        e.Record(0, [e.RunStarted(HOSTILE, HOSTILE, 10), e.RequestSent()]),
        e.Record(1, [_response(HOSTILE, function_call(HOSTILE, {HOSTILE: HOSTILE}))]),
        e.Record(2, [e.CallHeld("1.0", "d", "function:x", "f", HOSTILE)]),
        e.Record(3, [_decision("1.0", "reject", at=3, message=HOSTILE), e.CallEnded("1.0", "rejected", HOSTILE)]),
        e.Record(4, [_response("Done."), e.RunEnded("Done.")]),
    ]

    screen.show(request_card(request, screen), run_picture(story_of(records), "run_1", screen))
    print_table(screen, ["tool", "arguments"], [[HOSTILE, styled(HOSTILE, "bold")]])
    raw = "\n".join(out.lines)

    assert raw.count(HOSTILE) >= 14
    assert "\x1b]" not in raw  # the sequence of a link
    assert "\x1b[" in raw  # although there are colours


def test_arguments_that_are_no_object_are_shown_as_they_stand() -> None:
    lines = card_of("[1, 2")

    assert any("not a JSON object  [1, 2" in line for line in lines)


def test_a_card_of_a_call_in_doubt_says_so_and_why() -> None:
    text = inside(card_of({}, kind="in_doubt", why="its worker is gone"))

    assert "nobody knows whether ithappened." in text
    assert "Asked because its worker is gone." in text
    assert "no arguments" in text


@pytest.mark.parametrize(
    "text", ["", "one", "two words", "a " * 50, "x" * 95, "漢" * 31 + " b", "line\nline two", "b" + " " * 50]
)
def test_wrapping_loses_and_adds_nothing_but_line_breaks(text: str) -> None:
    screen, out = screen_of(10, "utf-8", is_terminal=True)
    lines = list(whole_lines(text, 10))

    screen.show(Whole(text))

    assert "".join(lines) == text.replace("\n", "")
    assert all(cell_len(line) <= 10 for line in lines)
    assert out.lines == lines or text == ""


def test_lines_are_kept_only_where_they_are_wanted() -> None:
    assert shown("a\nb") == r"a\nb"
    assert shown("a\nb\r", keep_lines=True) == "a\nb\\r"


def test_the_picture_tells_all_that_happened_in_nested_runs_too() -> None:
    ask = e.RequestSent()
    records = [
        e.Record(0, [e.RunStarted("Boss", "Clean up", 10), ask]),
        e.Record(1, [e.RequestRefused("busy"), ask]),
        e.Record(2, [_response("I delegate.", function_call("worker", {"task": "x"}))]),
        e.Record(2, [e.CallsAllowed(["1.0"]), e.CallsStarted(["1.0"])]),
        e.Record(3, [e.InChild("1.0", e.RunStarted("Worker", "x", 10)), e.InChild("1.0", ask)]),
        e.Record(4, [e.InChild("1.0", _response("", function_call("delete", {"path": "dust/a"})))]),
        e.Record(5, [e.InChild("1.0", e.CallHeld("1.0/1.0", "d", "function:delete", "f", "a rule failed"))]),
        e.Record(9, [e.InChild("1.0", _decision("1.0/1.0", "edit", at=8.5, arguments={"path": "dust/b"}))]),
        e.Record(9, [e.InChild("1.0", e.CallsStarted(["1.0/1.0"]))]),
        e.Record(10, [e.InChild("1.0", e.CallInDoubt("1.0/1.0", "d", "function:delete", "f", "its worker is gone"))]),
        e.Record(10, [e.GrantMade("g", "Boss", "function:delete", "f", "approve", "noah", 10)]),
        e.Record(11, [e.InChild("1.0", _decision("1.0/1.0", "respond", at=11, output="gone already"))]),
        e.Record(11, [e.InChild("1.0", e.CallEnded("1.0/1.0", "answered", "gone already"))]),
        e.Record(
            12, [e.InChild("1.0", ask), e.InChild("1.0", _response("Cleaned.")), e.InChild("1.0", e.RunEnded("C"))]
        ),
        e.Record(13, [e.CallEnded("1.0", "finished", "Cleaned."), e.AgentChanged("Clerk"), ask, _response("Done.")]),
        e.Record(13, [e.RunStopped("model_behavior", "no"), e.RunEnded("Done.")]),
    ]

    screen, out = screen_of(80)
    screen.show(run_picture(story_of(records), "run_1", screen))
    lines = out.lines

    assert lines == [
        "run_1  Boss  ended - 2 turns, 1 call, 13 s",
        "+-- 00:00:00  input     Clean up",
        "+-- 00:00:01  refused   busy",
        "+-- 00:00:02  turn 1    I delegate.",
        '|   `-- + worker  task="x"',
        "|         allowed -> started -> finished",
        "|       +-- 00:00:03  input     x",
        "|       +-- 00:00:04  turn 1",
        '|       |   `-- + delete  path="dust/a"',
        '|       |         waited 4 s "a rule failed" -> edited by mia "path="dust/b"" ->',
        '|       |         started -> in doubt 1 s "its worker is gone" -> answered by',
        "|       |         mia",
        '|       |         -> "gone already"',
        "|       +-- 00:00:12  turn 2    Cleaned.",
        "|       `-- 00:00:12  end",
        "+-- 00:00:10  grant     noah: always approve function:delete",
        "+-- 00:00:13  turn 2    Done.",
        "+-- 00:00:13  handoff   to Clerk",
        "+-- 00:00:13  stopped   model_behavior: no",
        "`-- 00:00:13  end",
    ]


def test_the_picture_of_a_run_that_waits_says_so() -> None:
    records = [
        e.Record(0, [e.RunStarted("Boss", "Clean up", 10), e.RequestSent()]),
        e.Record(1, [_response("", function_call("delete", {"path": "dust/a"}))]),
        e.Record(1, [e.CallHeld("1.0", "d", "function:delete", "f")]),
    ]

    screen, out = screen_of(80)
    screen.show(run_picture(story_of(records), "run_1", screen))
    lines = out.lines

    assert lines[0] == "run_1  Boss  waits - 1 turn, 1 call, 1 s"
    assert lines[3:] == ['    `-- * delete  path="dust/a"', "          waits"]


def test_the_picture_of_a_cancelled_run_tells_who_wanted_that() -> None:
    records = [
        e.Record(0, [e.RunStarted("Boss", "Clean up", 10), e.RequestSent()]),
        e.Record(1, [_response("", function_call("delete", {"path": "dust/a"}))]),
        e.Record(1, [e.CallHeld("1.0", "d", "function:delete", "f", expires_at=3, at_expiry="escalate")]),
        e.Record(3, [e.QuestionEscalated("1.0")]),
        e.Record(4, [e.CancelAsked("mia", 4, "too late"), e.CallEnded("1.0", "cancelled", "cancelled")]),
        e.Record(4, [e.RunCancelled()]),
    ]

    screen, out = screen_of(80)
    screen.show(run_picture(story_of(records), "run_1", screen))
    lines = out.lines

    assert lines == [
        "run_1  Boss  cancelled - 1 turn, 1 call, 4 s",
        "+-- 00:00:00  input     Clean up",
        "+-- 00:00:01  turn 1",
        '|   `-- x delete  path="dust/a"',
        "|         waited 2 s -> escalated -> cancelled",
        '|         -> "cancelled"',
        "+-- 00:00:04  cancel    mia asked for it: too late",
        "`-- 00:00:04  end",
    ]


def _response(text: str, *calls: dict[str, object]) -> e.ResponseReceived:
    messages = [assistant_message(text)] if text else []
    return e.ResponseReceived("r", [*messages, *calls], e.Usage())


def _decision(call: str, verdict: e.Verdict, *, at: float, **more: object) -> e.DecisionMade:
    return e.DecisionMade(call, 1, "d", verdict, "mia", at, **more)


def test_a_card_of_commands_shows_them_line_by_line() -> None:
    arguments = {"commands": ["rm -rf build\nmake", "echo \x1b[2J"], "timeout_ms": 5000, "max_output_length": None}

    text = "\n".join(card_of(arguments))

    assert "$ rm -rf build" in text
    assert "  make" in text
    assert "timeout_ms: 5000" in text
    assert "\x1b[2J" not in text


def test_a_card_of_a_patch_shows_the_diff_in_colours() -> None:
    diff = "@@ def two():\n same\n-old\n+new\n"
    arguments = {"operations": [{"type": "update_file", "path": "a.py", "diff": diff}]}
    screen, out = screen_of(60, "utf-8", is_terminal=True)

    screen.show(card(request_of(arguments, tool="apply_patch"), screen))

    text = "\n".join(out.lines)
    assert "change a.py" in text
    assert "\x1b[31m-old" in text
    assert "\x1b[32m+new" in text


def test_a_request_of_a_call_that_asks_shows_its_questions_and_what_they_take() -> None:
    asked = {
        "message": "Which account?",
        "requestedSchema": {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]},
    }
    screen, out = screen_of(80)

    screen.show(request_card(request_of({"cents": 700}, kind="elicitation", questions={"q1": asked}), screen))

    text = "\n".join(out.lines)
    assert "It asks: Which account?" in text
    assert 'iban  {"type": "string"}' in text
    assert max(map(cell_len, out.lines)) <= 80


HEAD = ["request", "tool", "arguments"]
ROWS = [["run_1:1.0#1", styled("refund", "bold"), "x" * 50], ["run_2:1.0#1", "", "漢" * 40]]


def table_of(width: int, rows: list[list[object]], *, is_terminal: bool = True) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_COLOR", "1")
        screen, out = screen_of(width, "utf-8", is_terminal=is_terminal)
    print_table(screen, HEAD, rows)
    return [line.rstrip() for line in out.lines]


def test_a_table_cuts_only_its_last_column_and_fits() -> None:
    lines = table_of(60, ROWS)

    assert lines[0] == "request      tool    arguments"
    assert lines[1].startswith("run_1:1.0#1  refund  xxx")
    assert lines[1].endswith("x…")
    assert max(map(cell_len, lines)) <= 60


def test_in_a_narrow_terminal_each_value_has_a_line_and_nothing_is_cut() -> None:
    wide = [["run_1:1.0#1 and a very long id", "refund", "some words that go on"]]

    lines = table_of(34, wide)

    assert [line.split("  ")[0] for line in lines] == HEAD
    assert [line[11:].strip() for line in lines] == wide[0]


def test_in_a_pipe_every_row_is_one_whole_line() -> None:
    lines = table_of(40, ROWS, is_terminal=False)

    assert len(lines) == 3
    assert lines[1].endswith("x" * 50)


@pytest.mark.parametrize(
    ("grant", "words"), [(None, "approved by ana, "), ("grant_1", "approved by a standing decision of ana, ")]
)
def test_what_a_standing_decision_decided_is_not_told_as_if_somebody_had_looked_at_it(
    grant: str | None, words: str
) -> None:
    made = {"decision": "approve", "by": "ana", "at": "2026-01-01T00:00:00Z", "reason": None, "grant": grant}
    screen, out = screen_of(80)

    screen.show(*decision_panel({"arguments": {}, "decision": made}, screen))

    assert words in out.lines[0]

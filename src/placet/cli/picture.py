"""The picture of a run: its story as a tree, with the times, the decisions and who made them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple, assert_never

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from placet.cli.output import Screen, shown
from placet.core.policy import text_of_heard
from placet.core.story_tree import (
    AnyStep,
    Asked,
    CallStory,
    Decided,
    Ended,
    Escalated,
    Moved,
    Note,
    NoteKind,
    ReportedLate,
    Required,
    Revoked,
    RulesHeard,
    RunStory,
    TurnStory,
    Validated,
    Voted,
    VoteWithdrawn,
)
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject, encode, parse_arguments
from placet.facts.requirements import needs_text
from placet.facts.verdict_words import WORDS, counted

BRANCH = 4
"""How many columns a branch of the tree takes before its text."""
LEAST = 20


def run_picture(story: RunStory, run_id: str, screen: Screen, erased_at: float | None = None) -> Tree:
    tree = Tree(_head(story, run_id, screen), guide_style="dim")
    _grow(tree, story, screen, screen.width, erased_at)
    return tree


def _head(story: RunStory, run_id: str, screen: Screen) -> Text:
    word, style = _state(story)
    counts = f"{counted(len(story.turns), 'turn')}, {counted(len(list(story.calls())), 'call')}"
    lasted = _span(story.latest - story.began)
    return Text.assemble(
        (run_id, "bold"),
        "  ",
        (shown(story.agent), "cyan"),
        "  ",
        (word, style),
        (f" {screen.signs.dot} {counts}, {lasted}", "dim"),
    )


def _state(story: RunStory) -> tuple[str, str]:
    if not story.has_ended:
        return "waits", "yellow"
    return ("cancelled", "red") if story.was_cancelled else ("ended", "green")


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def _grow(tree: Tree, story: RunStory, screen: Screen, width: int, erased_at: float | None = None) -> None:
    """The branches of a run in the order of time: input, turns, notes, end."""
    rows: list[tuple[float, TurnStory | Mark]] = [(story.began, Mark(story.began, "input", "bold", story.input))]
    rows += [(turn.at, turn) for turn in story.turns]
    rows += [(mark.at, mark) for mark in marks_of_run(story, erased_at)]
    rows.sort(key=lambda row: row[0])
    if story.has_ended:
        rows.append((story.latest, Mark(story.latest, "end", "green")))
    for _, row in rows:
        if isinstance(row, Mark):
            tree.add(_row(row, screen, width - BRANCH))
            continue
        branch = tree.add(_row(Mark(row.at, f"turn {row.number}", "bold", row.text), screen, width - BRANCH))
        for call in row.calls.values():
            grow_call(branch, call, screen, width - 2 * BRANCH)


def _row(mark: Mark, screen: Screen, width: int) -> Text:
    clock = datetime.fromtimestamp(mark.at, UTC).astimezone().strftime("%H:%M:%S")
    text = screen.shorten(mark.detail or "", max(LEAST, width - 20))
    found = Text.assemble((clock, "dim"), "  ", (f"{mark.word:<9}", mark.style), f" {text}")
    found.rstrip()
    return found


def grow_call(tree: Tree, call: CallStory, screen: Screen, width: int) -> None:
    """One call: what it asked for, what happened to it, and what the model read of it."""
    lines = call_lines(call, screen, width)
    if call.child is None:
        tree.add(Group(*lines))
    else:
        _grow(tree.add(Group(*lines)), call.child, screen, width)


def call_lines(call: CallStory, screen: Screen, width: int) -> list[RenderableType]:
    head = Text.assemble(_sign(call, screen), " ", (shown(call.name), "bold"), f"  {argument_text(call.arguments)}")
    below = [_marks_line(call, screen, width)]
    if call.child is None and call.output is not None:
        below.append(_output(call.output, screen, width))
    return [head, *(Padding(line, (0, 0, 0, 2)) for line in below if line)]


def _sign(call: CallStory, screen: Screen) -> tuple[str, str]:
    if call.outcome is None:
        return screen.signs.waits, "yellow"
    is_done = call.outcome in ("finished", "answered")
    return (screen.signs.done if is_done else screen.signs.refused), OUTCOME_STYLE[call.outcome]


def _output(output: Json, screen: Screen, width: int) -> Text:
    """What the model read, in about three lines."""
    signs = screen.signs
    text = output if isinstance(output, str) else encode(output).decode()
    return Text(f"{signs.arrow} {signs.left_quote}{screen.shorten(text, 3 * width - 24)}{signs.right_quote}")


def _marks_line(call: CallStory, screen: Screen, width: int) -> Text:
    """The call's way: `waited 12 s → approved by mia → started → finished`."""
    marks = list(marks_of(call))
    line = Text()
    for place, mark in enumerate(marks):
        following = marks[place + 1].at if place + 1 < len(marks) else None
        line.append(f" {screen.signs.arrow} " if place else "")
        line.append(_mark_text(mark, following, screen, width - 6), mark.style)
    return line


def _mark_text(mark: Mark, following: float | None, screen: Screen, width: int) -> str:
    text = mark.word
    if mark.word in ("waited", "in doubt"):
        text = f"{text} {_span(following - mark.at)}" if following is not None else "waits"
    if mark.detail:
        detail = screen.shorten(mark.detail, max(10, width - cell_len(text) - 3))
        text += f" {screen.signs.left_quote}{detail}{screen.signs.right_quote}"
    return screen.shorten(text, max(LEAST, width))


# -- what happened, in words ------------------------------------------------------------------------------------------


class Mark(NamedTuple):
    """One thing that happened, as it is shown."""

    at: float
    word: str
    style: str
    detail: str | None = None


OUTCOME_STYLE: dict[e.Outcome, str] = {
    "finished": "green",
    "failed": "red",
    "rejected": "red",
    "answered": "green",
    "denied": "red",
    "expired": "yellow",
    "superseded": "yellow",
    "cancelled": "yellow",
    "released": "yellow",
}
_VERDICT_STYLE: dict[e.Verdict, str] = {"approve": "green", "reject": "red", "edit": "cyan", "respond": "cyan"}


def marks_of(call: CallStory) -> Iterator[Mark]:
    """What happened to a call. An end that a decision's mark says already is left out."""
    for step in call.steps:
        is_said = isinstance(step, Ended) and step.outcome in ("rejected", "answered") and bool(call.decisions)
        if not is_said:
            yield _mark(step)


def _mark(step: AnyStep) -> Mark:
    match step:
        case Moved():
            return Mark(step.at, step.to, "dim")
        case Validated():
            return Mark(step.at, "validated", "dim", pairs_text(step.changes))
        case RulesHeard():
            return Mark(step.at, "policy", "dim", text_of_heard(step.fact))
        case Asked():
            return _mark_of_asking(step)
        case Escalated():
            return Mark(step.at, "escalated", "yellow")
        case Required() | Voted() | VoteWithdrawn():
            return _mark_of_vote(step)
        case Decided():
            return _mark_of_decision(step)
        case Revoked():
            return Mark(step.at, f"revoked by {_who(step.by)}", "yellow", step.reason)
        case Ended():
            return Mark(step.at, step.outcome, OUTCOME_STYLE[step.outcome])
        case ReportedLate():
            return Mark(step.at, "reported late", "yellow", step.outcome)
        case never:
            assert_never(never)


_VOTE_WORD: dict[e.Verdict, str] = {
    "approve": "yes",
    "reject": "no",
    "edit": "an edit",
    "respond": "an answer",
}


def _mark_of_vote(step: Required | Voted | VoteWithdrawn) -> Mark:
    match step:
        case Required():
            return Mark(step.at, "needs", "yellow", needs_text(step.requirement))
        case Voted(vote=vote):
            return Mark(step.at, f"{_who(vote.by)} voted for {_VOTE_WORD[vote.verdict]}", "cyan", vote.reason)
        case VoteWithdrawn():
            return Mark(step.at, f"vote taken back by {_who(step.by)}", "yellow", step.reason)
        case never:
            assert_never(never)


def _mark_of_asking(step: Asked) -> Mark:
    match step.kind:
        case "approval":
            return Mark(step.at, "waited", "yellow", step.why)
        case "in_doubt":
            return Mark(step.at, "in doubt", "red", step.why)
        case "elicitation":
            said = " ".join(str(each.get("message", "")) for each in (step.questions or {}).values())
            return Mark(step.at, "asked for input", "yellow", said)
        case never:
            assert_never(never)


def _mark_of_decision(step: Decided) -> Mark:
    made = step.decision
    by = "by a standing decision of" if made.grant is not None else "by"
    detail = made.message or made.reason if made.verdict == "reject" else made.reason
    if made.verdict == "edit":
        detail = pairs_text(step.changes)
    return Mark(step.at, f"{WORDS[made.verdict].status} {by} {_who(made.by)}", _VERDICT_STYLE[made.verdict], detail)


_NOTE_LOOK: dict[NoteKind, tuple[str, str]] = {
    "forked": ("forked", "dim"),
    "input": ("input", "dim"),
    "refused": ("refused", "red"),
    "lost": ("lost", "red"),
    "unusable": ("nonsense", "red"),
    "settled": ("settled", "yellow"),
    "grant": ("grant", "cyan"),
    "grant_over": ("grant over", "cyan"),
    "handoff": ("handoff", "dim"),
    "rewritten": ("rewritten", "dim"),
    "cancel": ("cancel", "yellow"),
    "resume": ("resume", "yellow"),
    "own_history": ("own history", "yellow"),
    "stopped": ("stopped", "red"),
    "tripped": ("tripwire", "red"),
    "closed": ("closed", "dim"),
}


def marks_of_run(run: RunStory, erased_at: float | None = None) -> list[Mark]:
    """What happened to a run as a whole. When it was erased is no part of its log: the store says so."""
    if run.is_erased:
        at = run.latest if erased_at is None else erased_at
        return [Mark(at, "erased", "dim", "what happened in this run was erased")]
    return [Mark(note.at, *_NOTE_LOOK[note.kind], _note_text(note)) for note in run.notes]


def _note_text(note: Note) -> str:
    match note.kind:
        case "grant":
            return f"{_who(note.by)}: {note.text}"
        case "grant_over":
            return f"{_who(note.by)} took {note.text} back"
        case "cancel" | "resume":
            return f"{_who(note.by)} asked for it{f': {note.reason}' if note.reason else ''}"
        case "own_history":
            return f"{_who(note.by)} chose it, not the server's"
        case _:
            return note.text


def _who(by: str | None) -> str:
    return by or "somebody"


def argument_text(arguments: object) -> str:
    """Arguments on one line, `name=value name=value`; as they stand when they are no JSON object."""
    found = arguments if isinstance(arguments, dict) else parse_arguments(str(arguments))
    return shown(str(arguments)) if found is None else pairs_text(found)


def pairs_text(arguments: JsonObject) -> str:
    return " ".join(f"{shown(name)}={shown(encode(value).decode())}" for name, value in arguments.items())

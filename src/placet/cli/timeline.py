"""The picture of a run: its story as a tree of lines, with the times, the decisions and who made them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from placet.cli.story import OUTCOME_STYLE, Mark, argument_text, counted, in_one_line, marks_of, marks_of_run
from placet.cli.terminal import NARROWEST, Style, Terminal, shown, width_of, wrap
from placet.core.story import CallStory, RunStory, TurnStory
from placet.facts.codec import Json, encode

BRANCH = 3
"""How many columns a branch of the tree takes before its text."""


def render_story(story: RunStory, run_id: str, terminal: Terminal, erased_at: float | None = None) -> list[str]:
    head = (
        f"{terminal.paint(run_id, 'bold')}  {terminal.paint(shown(story.agent), 'cyan')}  {_summary(story, terminal)}"
    )
    return [head, *_render_run(story, terminal, erased_at)]


def _summary(story: RunStory, terminal: Terminal) -> str:
    calls = list(story.calls())
    word, style = _state(story)
    state = terminal.paint(word, style)
    counts = f"{counted(len(story.turns), 'turn')}, {counted(len(calls), 'call')}, {_span(story.latest - story.began)}"
    return f"{state} {terminal.paint(f'{terminal.glyphs.dot} {counts}', 'dim')}"


def _state(story: RunStory) -> tuple[str, Style]:
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


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")


def _render_run(story: RunStory, terminal: Terminal, erased_at: float | None = None) -> list[str]:
    """The rows of a run in the order of time: input, turns, notes, end."""
    inner = _narrower(terminal, BRANCH)
    asked = _row(story.began, "input", in_one_line(story.input), inner)
    rows: list[tuple[float, list[str]]] = [(story.began, asked)]
    rows += [(turn.at, _turn_rows(turn, inner)) for turn in story.turns]
    rows += [
        (mark.at, _row(mark.at, mark.word, mark.detail or "", inner, mark.style))
        for mark in marks_of_run(story, erased_at)
    ]
    rows.sort(key=lambda row: row[0])
    if story.has_ended:
        rows.append((story.latest, _row(story.latest, "end", "", inner, "green")))
    return _branches([lines for _, lines in rows], terminal)


def _row(at: float, word: str, text: str, terminal: Terminal, style: Style = "bold") -> list[str]:
    head = f"{terminal.paint(_clock(at), 'dim')}  {terminal.paint(f'{word:<9}', style)}"
    return [f"{head} {terminal.shorten(text, terminal.width - 20)}".rstrip()]


def _turn_rows(turn: TurnStory, terminal: Terminal) -> list[str]:
    lines = _row(turn.at, f"turn {turn.number}", in_one_line(turn.text), terminal)
    calls = [render_call(call, _narrower(terminal, BRANCH)) for call in turn.calls.values()]
    return [*lines, *_branches(calls, terminal)]


def render_call(call: CallStory, terminal: Terminal) -> list[str]:
    """One call: what it asked for, what happened to it, and what the model read of it."""
    indent = " " * (width_of(shown(call.name)) + 4)
    arguments = wrap(argument_text(call.arguments), max(20, terminal.width - len(indent)))
    head = f"{_sign(call, terminal)} {terminal.paint(shown(call.name), 'bold')}  "
    inner = _narrower(terminal, 2)
    below = _mark_lines(call, inner)
    if call.child is not None:
        below += _render_run(call.child, inner)
    elif call.output is not None:
        below += _output_lines(call.output, inner)
    return [
        f"{head}{arguments[0]}".rstrip(),
        *(indent + line for line in arguments[1:]),
        *(f"  {line}" for line in below),
    ]


def _output_lines(output: Json, terminal: Terminal) -> list[str]:
    """What the model read, in three lines at most."""
    signs = terminal.glyphs
    room = terminal.width - len(signs.arrow) - 1
    text = output if isinstance(output, str) else encode(output).decode()
    lines = wrap(f"{signs.left_quote}{terminal.shorten(text, 3 * room - 24)}{signs.right_quote}", room)
    return [f"{signs.arrow} {lines[0]}", *(" " * (len(signs.arrow) + 1) + line for line in lines[1:])]


def _narrower(terminal: Terminal, columns: int) -> Terminal:
    return replace(terminal, width=max(NARROWEST, terminal.width - columns))


def _sign(call: CallStory, terminal: Terminal) -> str:
    if call.outcome is None:
        return terminal.paint(terminal.glyphs.waits, "yellow")
    is_done = call.outcome in ("finished", "answered")
    return terminal.paint(terminal.glyphs.done if is_done else terminal.glyphs.refused, OUTCOME_STYLE[call.outcome])


def _mark_lines(call: CallStory, terminal: Terminal) -> list[str]:
    """The call's way, in as few lines as fit: `waited 12 s → approved by mia → started → finished`."""
    room = terminal.width
    arrow = f" {terminal.glyphs.arrow} "
    lines: list[str] = []
    used = 0
    marks = list(marks_of(call))
    for index, mark in enumerate(marks):
        following = marks[index + 1].at if index + 1 < len(marks) else None
        text = _mark_text(mark, following, terminal, room - 4)
        if lines and used + 3 + width_of(text) <= room:
            lines[-1] += arrow + terminal.paint(text, mark.style)
            used += 3 + width_of(text)
        else:
            lead = "" if not lines else arrow.lstrip()
            lines.append(lead + terminal.paint(text, mark.style))
            used = width_of(lead + text)
    return lines


def _mark_text(mark: Mark, following: float | None, terminal: Terminal, room: int) -> str:
    text = mark.word
    if mark.style in ("yellow", "red") and mark.word in ("waited", "in doubt"):
        text = f"{text} {_span(following - mark.at)}" if following is not None else "waits"
    if mark.detail:
        detail = terminal.shorten(mark.detail, max(10, room - width_of(text) - 3))
        text += f" {terminal.glyphs.left_quote}{detail}{terminal.glyphs.right_quote}"
    return terminal.shorten(text, room)


def _branches(groups: list[list[str]], terminal: Terminal) -> list[str]:
    """Groups of lines as branches of a tree."""
    signs = terminal.glyphs
    lines: list[str] = []
    for index, group in enumerate(groups):
        is_last = index == len(groups) - 1
        first = terminal.paint(f"{signs.elbow if is_last else signs.tee}{signs.rule} ", "dim")
        others = "   " if is_last else terminal.paint(f"{signs.bar}  ", "dim")
        lines += [f"{first}{group[0]}", *(f"{others}{line}".rstrip() for line in group[1:])]
    return lines

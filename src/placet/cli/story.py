"""A run's story in the words and colours of the terminal: what happened to each call, and to the run as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from placet.cli.terminal import Style, shown
from placet.core.story import (
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
    Revoked,
    RunStory,
    Validated,
)
from placet.facts import events as e
from placet.facts.codec import JsonObject, encode, parse_arguments


class Mark(NamedTuple):
    """One thing that happened, as it is shown."""

    at: float
    word: str
    style: Style
    detail: str | None = None


OUTCOME_STYLE: dict[e.Outcome, Style] = {
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
_VERDICT_LOOK: dict[e.Verdict, tuple[str, Style]] = {
    "approve": ("approved", "green"),
    "reject": ("rejected", "red"),
    "edit": ("edited", "cyan"),
    "respond": ("answered", "cyan"),
}


def marks_of(call: CallStory) -> Iterator[Mark]:
    """What happened to a call. An end that a decision's mark says already is left out."""
    for step in call.steps:
        is_told_by_decision = (
            isinstance(step, Ended) and step.outcome in ("rejected", "answered") and bool(call.decisions)
        )
        if not is_told_by_decision:
            yield _mark(step)


def _mark(step: AnyStep) -> Mark:
    match step:
        case Moved():
            return Mark(step.at, step.to, "dim")
        case Validated():
            return Mark(step.at, "validated", "dim", pairs_text(step.changes))
        case Asked():
            return _mark_of_asking(step)
        case Escalated():
            return Mark(step.at, "escalated", "yellow")
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


def _mark_of_asking(step: Asked) -> Mark:
    match step.kind:
        case "approval":
            return Mark(step.at, "waited", "yellow", step.why)
        case "in_doubt":
            return Mark(step.at, "in doubt", "red", step.why)
        case "elicitation":
            text = " ".join(str(each.get("message", "")) for each in (step.questions or {}).values())
            return Mark(step.at, "asked for input", "yellow", text)
        case never:
            assert_never(never)


def _mark_of_decision(step: Decided) -> Mark:
    made = step.decision
    word, style = _VERDICT_LOOK[made.verdict]
    by = "by a standing decision of" if made.grant is not None else "by"
    detail = made.message or made.reason if made.verdict == "reject" else made.reason
    if made.verdict == "edit":
        detail = pairs_text(step.changes)
    return Mark(step.at, f"{word} {by} {_who(made.by)}", style, detail)


_NOTE_LOOK: dict[NoteKind, tuple[str, Style]] = {
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
    """What happened to a run as a whole. When it was erased is no part of its log: whoever knows says so."""
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
            return in_one_line(note.text)


def _who(by: str | None) -> str:
    return by or "somebody"


def in_one_line(text: str) -> str:
    return text.replace("\n", " ")


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def argument_text(arguments: str) -> str:
    """Arguments on one line, `name=value name=value`; as they stand when they are no JSON object."""
    found = parse_arguments(arguments)
    if found is None:
        return shown(arguments)
    return pairs_text(found)


def pairs_text(arguments: JsonObject) -> str:
    return " ".join(f"{shown(name)}={shown(encode(value).decode())}" for name, value in arguments.items())

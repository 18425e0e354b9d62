"""A run's story in the words of the pages: what went on with each call, what happened to the run, what led up to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from placet.core.index import RequestKind
from placet.core.story_tree import (
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
    Validated,
    Voted,
    VoteWithdrawn,
)
from placet.facts.codec import Json

Sort: TypeAlias = Literal["wait", "input", "doubt", "run"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time during which something went on with a call."""

    sort: Sort
    begins: float
    ends: float | None = None
    note: str = ""


_SORT_OF: dict[RequestKind, Sort] = {"approval": "wait", "in_doubt": "doubt", "elicitation": "input"}


_ASIDE = (Validated, RulesHeard, Escalated, Required, Voted, VoteWithdrawn, ReportedLate)


def stretches_of(call: CallStory) -> list[Stretch]:
    """What went on with a call, each until the next thing happened; the last may be open."""
    found: list[Stretch] = []
    for step in call.steps:
        if isinstance(step, _ASIDE):
            continue  # whatever went on goes on
        if isinstance(step, Moved) and step.to != "started":
            continue
        if found and found[-1].ends is None:
            found[-1] = replace(found[-1], ends=step.at)
        begun = _begun_by(step)
        if begun is not None:
            found.append(begun)
    return found


def _begun_by(step: Moved | Asked | Revoked | Decided | Ended) -> Stretch | None:
    match step:
        case Moved():
            return Stretch("run", step.at)
        case Asked():
            return Stretch(_SORT_OF[step.kind], step.at, None, step.why or "")
        case Revoked():
            return Stretch("wait", step.at, None, f"revoked by {who(step.by)}")
        case Decided() | Ended():
            return None
        case never:
            assert_never(never)


@dataclass(frozen=True, slots=True)
class NoteLine:
    """What happened to a run as a whole, as its page shows it."""

    at: float
    word: str
    text: str
    line: int
    is_bad: bool = False


_NOTE_LOOK: dict[NoteKind, tuple[str, bool] | None] = {
    "forked": ("forked", False),
    "input": ("message", False),
    "refused": ("model failed", True),
    "lost": ("model failed", True),
    "unusable": ("model failed", True),
    "settled": None,
    "grant": ("standing decision", False),
    "grant_over": ("standing decision over", False),
    "handoff": ("handoff", False),
    "rewritten": None,
    "cancel": ("cancel asked", False),
    "resume": ("resume asked", False),
    "own_history": ("own history", False),
    "stopped": ("stopped", True),
    "tripped": ("guardrail", True),
    "closed": ("session closed", False),
}
"""The word for each, and whether something went wrong; None for what the page leaves to the log."""


def notes_of(run: RunStory) -> list[NoteLine]:
    """What happened to the run and its nested runs as a whole, in the order of time."""
    return sorted(_notes_of(run), key=lambda note: note.at)


def _notes_of(run: RunStory) -> Iterator[NoteLine]:
    for note in run.notes:
        look = _NOTE_LOOK[note.kind]
        if look is not None:
            yield NoteLine(note.at, look[0], _note_text(note), note.line, look[1])
    for call in run.calls():
        for step in call.steps:
            if isinstance(step, Revoked):
                yield NoteLine(step.at, "revoked", f"{who(step.by)}: {call.name}", step.line)
            elif isinstance(step, Escalated):
                yield NoteLine(step.at, "escalated", f"no answer came about {call.id} in time", step.line, True)
            elif isinstance(step, ReportedLate):
                yield NoteLine(step.at, "reported late", f"{call.name}: {step.outcome}", step.line, True)
        if call.child is not None:
            yield from _notes_of(call.child)


def _note_text(note: Note) -> str:
    match note.kind:
        case "grant":
            return f"{who(note.by)}: {note.text}"
        case "grant_over":
            return f"{who(note.by)} took {note.text} back"
        case "cancel" | "resume":
            return f"{who(note.by)}{f': {note.reason}' if note.reason else ''}"
        case "own_history":
            return f"{who(note.by)}: the model's server is not asked for the history any more"
        case _:
            return note.text


def output_text(output: Json) -> str:
    """What the model read, as text: a string itself, parts by their text."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        texts = [str(each.get("text", "")) for each in output if isinstance(each, dict) and each.get("text")]
        return "\n".join(texts) or f"{len(output)} content parts"
    return "" if output is None else str(output)


def who(by: str | None) -> str:
    return by or "an unnamed person"


# -- what led to a question -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One thing that happened before a question, as its card shows it."""

    sort: Literal["asked", "said", "call"]
    who: str
    text: str
    depth: int
    outcome: str = ""
    arguments: str = ""


MAX_STEPS = 24


def lead_up(root: RunStory, call: str) -> tuple[list[HistoryRow], int]:
    """What was asked, said and done before this call, oldest first; and how many earlier steps were left out."""
    steps = all_before(root, call)
    left_out = max(0, len(steps) - MAX_STEPS)
    return ([steps[0], *steps[1 + left_out :]] if left_out else steps), left_out


def all_before(root: RunStory, call: str) -> list[HistoryRow]:
    """What was asked, said and done before this call, oldest first: all of it."""
    steps: list[HistoryRow] = []
    run: RunStory | None = root
    parts = call.split("/")
    for depth in range(len(parts)):
        if run is None:
            break
        local = "/".join(parts[: depth + 1])
        steps += _steps_of(run, local, depth)
        owner = run.find(local)
        run = owner.child if owner is not None else None
    return steps


def _steps_of(run: RunStory, until: str, depth: int) -> Iterator[HistoryRow]:
    yield HistoryRow("asked", run.by or ("" if depth == 0 else "the agent above"), run.input, depth)
    for turn in run.turns:
        if turn.text:
            yield HistoryRow("said", run.agent, turn.text, depth)
        for call in turn.calls.values():
            if call.id != until:
                state = call.outcome or ("waits too" if call.waits else "not finished")
                yield HistoryRow("call", call.name, output_text(call.output), depth, state, call.runs_with)
        if until in turn.calls:
            return

"""The picture of a run: rows and bars on a time axis on which long waits take little room.

Pure geometry: a run's story goes in, numbers and words come out, and a template draws them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from placet.core.story_tree import CallStory, RunStory, TurnStory
from placet.desk.pages.history import Stretch, stretches_of, who
from placet.desk.pages.text_format import agent_steps, clock, shortened, span
from placet.facts.events import DecisionMade
from placet.facts.verdict_words import WORDS

ROW = 30
GUTTER = 200
TOP = 34
MAX_ROWS = 150
LONG = 60.0
"""Seconds: a stretch of the axis that stands for more than this is marked as compressed."""
WIDEST, NARROWEST = 1500.0, 780.0

Look: TypeAlias = Literal["turn", "wait", "doubt", "run", "bad", "nested", "asking"]
VERDICT_SIGN = {"approve": "✓", "reject": "✕", "edit": "✎", "respond": "↩"}
_WAITING: dict[Literal["wait", "input", "doubt"], tuple[str, Look]] = {
    "wait": ("waits for a person", "wait"),
    "input": ("waits for a person's input", "wait"),
    "doubt": ("in doubt: it is unknown whether it happened", "doubt"),
}
_BAD = ("failed", "rejected", "denied", "expired", "superseded", "cancelled")


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    look: Look
    label: str
    """All that a reader should know of it, in words: shown on hover and focus, and read aloud."""
    line: int
    text: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Sign:
    """A decision: a point in time."""

    x: float
    sign: str
    look: Literal["yes", "no", "changed"]
    label: str
    line: int
    at: float = 0.0


@dataclass(slots=True)
class Row:
    y: float
    label: str
    full_label: str
    depth: int
    sort: Literal["run", "call"]
    key: str = ""
    """What it is about: the same row has the same one, however the picture grows."""
    bars: list[Bar] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    text: str
    at: float | None = None
    """Where the text is a time of day: which moment it is, for the reader's own zone."""


@dataclass(frozen=True, slots=True)
class Break:
    """Where the axis is compressed: a long time in little room."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    width: float
    height: float
    rows: list[Row]
    ticks: list[Tick]
    breaks: list[Break]
    left_out: int
    summary: str


class Axis:
    """Time to x: each gap between two things that happened gets room by the logarithm of its length."""

    def __init__(self, times: list[float]) -> None:
        self.times = sorted(set(times))
        gaps = [_room(after - before) for before, after in self._pairs()]
        total = sum(gaps) or 1.0
        scale = min(NARROWEST / total, 6.0) if total < NARROWEST else max(min(WIDEST / total, 1.0), 0.4)
        self.places = [0.0]
        for gap in gaps:
            self.places.append(self.places[-1] + gap * scale)

    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.times, self.times[1:], strict=False))

    @property
    def width(self) -> float:
        return self.places[-1]

    def x(self, at: float) -> float:
        index = bisect_right(self.times, at) - 1
        if index < 0:
            return 0.0
        if index >= len(self.times) - 1:
            return self.places[-1]
        begin, end = self.times[index], self.times[index + 1]
        return self.places[index] + (self.places[index + 1] - self.places[index]) * (at - begin) / (end - begin)

    def ticks(self) -> Iterator[Tick]:
        latest = -math.inf
        for at, place in zip(self.times, self.places, strict=True):
            if place - latest >= 74:
                passed = at - self.times[0]
                is_first = latest < 0
                yield Tick(place, f"{clock(at)} UTC" if is_first else f"+{span(passed)}", at if is_first else None)
                latest = place

    def breaks(self) -> Iterator[Break]:
        for (before, after), begin, end in zip(self._pairs(), self.places, self.places[1:], strict=False):
            if after - before > LONG:
                yield Break(begin, end - begin, span(after - before))


def _room(seconds: float) -> float:
    """Pixels for a gap: never nothing, never much more for a month than for a minute."""
    if seconds <= 0:
        return 0.0
    return 14.0 + min(26.0 * math.log2(1 + seconds / 0.5), 130.0)


def draw(run: RunStory, now: float | None = None) -> Picture:
    """`now` is given while the run goes on: what is open is drawn up to it."""
    until = max(run.latest, now) if now is not None else run.latest
    axis = Axis([*_times(run), until])
    artist = _Artist(axis, until)
    rows = list(artist.rows(run, 0))
    left_out = max(0, len(rows) - MAX_ROWS)
    kept = [rows[0], *rows[1 + left_out :]] if left_out else rows
    for index, row in enumerate(kept):
        row.y = TOP + index * ROW
    height = TOP + len(kept) * ROW + 12
    return Picture(
        round(GUTTER + axis.width + 40),
        height,
        kept,
        list(axis.ticks()),
        list(axis.breaks()),
        left_out,
        _summary(run, until),
    )


def _times(run: RunStory) -> Iterator[float]:
    yield from (run.began, run.latest)
    for turn in run.turns:
        yield from (turn.asked_at, turn.at)
        for call in turn.calls.values():
            for stretch in stretches_of(call):
                yield from (at for at in (stretch.begins, stretch.ends) if at is not None)
            yield from (decision.at for decision in call.decisions)
            if call.ended_at is not None:
                yield call.ended_at
            if call.child is not None:
                yield from _times(call.child)


def _summary(run: RunStory, until: float) -> str:
    calls = list(run.calls())
    waits = sum(call.waits for call in calls)
    state = "ended" if run.ended_at is not None else (f"{waits} waiting" if waits else "running")
    parts = [f"{len(run.turns)} turns", f"{len(calls)} calls", f"over {span(until - run.began)}", state]
    return ", ".join(parts)


class _Artist:
    def __init__(self, axis: Axis, until: float) -> None:
        self._axis = axis
        self._until = until

    def rows(self, run: RunStory, depth: int) -> Iterator[Row]:
        name = agent_steps(run.agent)[-1]
        row = Row(0, shortened(name, 24 - 2 * depth), run.agent, depth, "run", f"run-{run.path}")
        row.bars = [self._turn(run, turn) for turn in run.turns]
        if run.asked_at is not None and run.ended_at is None:
            row.bars.append(self._bar(run.asked_at, None, "asking", "the model was asked, no answer yet", 0))
        yield row
        for turn in run.turns:
            for call in turn.calls.values():
                yield self._call(call, depth)
                if call.child is not None:
                    yield from self.rows(call.child, depth + 1)

    def _bar(self, begin: float, end: float | None, look: Look, label: str, line: int, text: str = "") -> Bar:
        left = self._axis.x(begin)
        right = self._axis.x(self._until if end is None else end)
        return Bar(round(left, 1), round(max(right - left, 5.0), 1), look, label, line, text, end is None)

    def _turn(self, run: RunStory, turn: TurnStory) -> Bar:
        took = span(turn.at - turn.asked_at)
        calls = ", ".join(call.name for call in turn.calls.values())
        label = f"turn {turn.number} of {run.agent}: the model answered after {took}"
        label += f", asking for {calls}" if calls else ""
        return self._bar(turn.asked_at, turn.at, "turn", label, turn.line, str(turn.number))

    def _call(self, call: CallStory, depth: int) -> Row:
        row = Row(0, shortened(call.name, 22 - 2 * depth), call.name, depth, "call", f"call-{call.id}")
        stretches = stretches_of(call)
        row.bars = [self._stretch(call, each, each is stretches[-1]) for each in stretches]
        if not stretches:
            end = call.ended_at if call.ended_at is not None else call.at
            look: Look = "bad" if call.outcome in _BAD else "run"
            row.bars = [self._bar(call.at, end, look, f"{call.name}: {call.outcome or 'proposed'}", call.line)]
        row.signs = [self._sign(call, each) for each in call.decisions]
        return row

    def _stretch(self, call: CallStory, stretch: Stretch, is_last: bool) -> Bar:
        took = span((stretch.ends if stretch.ends is not None else self._until) - stretch.begins)
        is_open = stretch.ends is None
        because = f" ({stretch.note})" if stretch.note else ""
        look: Look
        if stretch.sort == "run":
            failed = is_last and call.outcome in _BAD
            look = "nested" if call.child is not None else ("bad" if failed else "run")
            done = "running for" if is_open else f"{call.outcome or 'ran'} after"
            return self._bar(stretch.begins, stretch.ends, look, f"{call.name}: {done} {took}", call.line)
        word, look = _WAITING[stretch.sort]
        label = f"{call.name}: {word}, {'since' if is_open else 'for'} {took}{because}"
        return self._bar(stretch.begins, stretch.ends, look, label, call.line)

    def _sign(self, call: CallStory, made: DecisionMade) -> Sign:
        look: Literal["yes", "no", "changed"] = (
            "no" if made.verdict == "reject" else ("yes" if made.verdict == "approve" else "changed")
        )
        by = f"by a standing decision of {who(made.by)}" if made.grant is not None else f"by {who(made.by)}"
        why = f": {made.reason or made.message}" if made.reason or made.message else ""
        label = f"{call.name}: {WORDS[made.verdict].label} {by}, {clock(made.at)} UTC{why}"
        return Sign(round(self._axis.x(made.at), 1), VERDICT_SIGN[made.verdict], look, label, call.line, made.at)

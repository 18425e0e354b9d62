"""Tables for people: columns as wide as they need to be, the last one as wide as there is room; and times in words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from placet.cli.terminal import Style, Terminal, shown, width_of, wrap

GAP = "  "
LEAST = 20
"""Columns that are worth showing the beginning of a text in."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: Style | None = None


def table(terminal: Terminal, head: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> list[str]:
    """Lines under a head, as wide as the terminal if that can be. A column in which nothing stands is left out.

    Nothing is cut but the last column: ids must stay whole, to be copied. Where there is no room for it, it stands on a
    line of its own; and where the others do not fit either, each of them does. In a pipe every row is one whole line.
    """
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    used = [place for place in range(len(head)) if place == len(head) - 1 or any(row[place].text for row in cells)]
    head, cells = [head[place] for place in used], [[_shown(row[place]) for place in used] for row in cells]
    widths = [max(map(width_of, [name, *(row[place].text for row in cells)])) for place, name in enumerate(head)]
    room = terminal.width - sum(widths[:-1]) - len(GAP) * (len(head) - 1)
    if terminal.is_piped or widths[-1] <= room or room >= LEAST:
        last = widths[-1] if terminal.is_piped else min(widths[-1], room)
        return _lines(terminal, head, [[*row[:-1], _cut(terminal, row[-1], last)] for row in cells], widths[:-1])
    if sum(widths[:-1]) + len(GAP) * (len(head) - 2) <= terminal.width:
        return _lines_with_the_last_below(terminal, head, cells, widths[:-1])
    return _blocks(terminal, head, cells)


def _shown(cell: Cell) -> Cell:
    return Cell(shown(cell.text), cell.style)


def _cut(terminal: Terminal, cell: Cell, width: int) -> Cell:
    return Cell(terminal.shorten(cell.text, width), cell.style)


def _lines(terminal: Terminal, head: Sequence[str], rows: Sequence[Sequence[Cell]], widths: Sequence[int]) -> list[str]:
    """A line for the head and one for each row; all columns but the last have a width."""
    named = [Cell(name, "dim") for name in head]
    return [_line(terminal, row, widths) for row in (named, *rows)]


def _line(terminal: Terminal, row: Sequence[Cell], widths: Sequence[int]) -> str:
    filled = [
        _painted(terminal, cell) + " " * (width - width_of(cell.text))
        for cell, width in zip(row, [*widths, 0], strict=False)
    ]
    return GAP.join(filled).rstrip()


def _painted(terminal: Terminal, cell: Cell) -> str:
    return terminal.paint(cell.text, cell.style) if cell.style else cell.text


def _lines_with_the_last_below(
    terminal: Terminal, head: Sequence[str], rows: Sequence[Sequence[Cell]], widths: Sequence[int]
) -> list[str]:
    lines = _lines(terminal, head[:-1], [], widths)
    for row in rows:
        lines.append(_line(terminal, row[:-1], widths))
        if row[-1].text:
            lines.append(GAP + _painted(terminal, _cut(terminal, row[-1], terminal.width - len(GAP))))
    return lines


def _blocks(terminal: Terminal, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Each row as a few lines with a name before each value: for terminals that are narrow."""
    left = max(map(width_of, head))
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for name, cell in zip(head, row, strict=True):
            lines += _named_value(terminal, name, cell, left) if cell.text else []
    return lines


def _named_value(terminal: Terminal, name: str, cell: Cell, left: int) -> list[str]:
    """A value behind its name. One word that has no room there stands below it, whole: ids are there to be copied."""
    room = max(LEAST, terminal.width - left - len(GAP))
    if " " not in cell.text and width_of(cell.text) > room:
        return [terminal.paint(name, "dim"), _painted(terminal, cell)]
    first, *more = wrap(cell.text, room)
    padded = terminal.paint(name + " " * (left - width_of(name)), "dim")
    behind = [" " * left + GAP + _painted(terminal, Cell(each, cell.style)) for each in more]
    return [f"{padded}{GAP}{_painted(terminal, Cell(first, cell.style))}", *behind]


def seconds_of(written: object) -> float | None:
    """A moment of the API as seconds since the epoch."""
    return datetime.fromisoformat(str(written)).timestamp() if written else None


def ago(written: object, now: float | None = None) -> str:
    """How long something has lasted, or how long it is until then."""
    at = seconds_of(written)
    if at is None:
        return ""
    distance = (time.time() if now is None else now) - at
    return span(distance) if distance >= 0 else f"in {span(-distance)}"


def span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0, seconds):.0f} s"

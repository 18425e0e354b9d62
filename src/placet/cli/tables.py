"""Tables for people: columns as wide as they need to be, the last one as wide as there is room; and times in words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from placet.cli.terminal import Style, Terminal, shown, width_of


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: Style | None = None


def table(terminal: Terminal, head: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> list[str]:
    """Lines under a head. Nothing is cut but the last column: ids must stay whole, to be copied. A column in which
    nothing stands is left out."""
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    used = [place for place in range(len(head)) if place == len(head) - 1 or any(row[place].text for row in cells)]
    head, cells = [head[place] for place in used], [[row[place] for place in used] for row in cells]
    texts = [[shown(cell.text) for cell in row] for row in cells]
    widths = [max([width_of(name), *(width_of(row[place]) for row in texts)]) for place, name in enumerate(head)]
    widths[-1] = max(20, min(widths[-1], terminal.width - sum(widths[:-1]) - 2 * (len(head) - 1)))
    lines = ["  ".join(terminal.paint(_padded(name, width), "dim") for name, width in zip(head, widths, strict=True))]
    for row, whole in zip(cells, texts, strict=True):
        plain = [*whole[:-1], terminal.shorten(whole[-1], widths[-1])]
        painted = [
            terminal.paint(text, cell.style) + " " * (width - width_of(text)) if cell.style else _padded(text, width)
            for text, cell, width in zip(plain, row, widths, strict=True)
        ]
        lines.append("  ".join(painted).rstrip())
    return [line.rstrip() for line in lines]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def seconds_of(moment: object) -> float | None:
    """A moment of the API as seconds since the epoch."""
    return datetime.fromisoformat(str(moment)).timestamp() if moment else None


def ago(moment: object, now: float | None = None) -> str:
    """How long something has lasted, or how long it is until then."""
    at = seconds_of(moment)
    if at is None:
        return ""
    distance = (time.time() if now is None else now) - at
    return span(distance) if distance >= 0 else f"in {span(-distance)}"


def span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0, seconds):.0f} s"

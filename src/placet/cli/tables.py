"""Lists for people, as wide as the terminal; for programs, a line for each row. And times in words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from placet.cli.output import UNBOUNDED, Screen, shown

GAP = 2
LEAST = 20
"""Columns that are worth showing the beginning of a text in."""
Row = Sequence[Text | str]


def print_table(screen: Screen, head: Sequence[str], rows: Sequence[Row]) -> None:
    """Print rows under a head. A column in which nothing stands is left out.

    Nothing is cut but the last column: ids must stay whole, to be copied. Where the others do not fit, each value has
    a line of its own. In a pipe every row is one whole line.
    """
    head, cells = _used_columns(head, [list(map(_text, row)) for row in rows])
    if screen.is_piped:
        Screen(file=screen.file, width=UNBOUNDED).show(_table(head, cells))
        return
    widths = [max(cell_len(name), *(row[place].cell_len for row in cells)) for place, name in enumerate(head)]
    room = screen.width - sum(widths[:-1]) - GAP * (len(head) - 1)
    if room >= min(widths[-1], LEAST):
        for row in cells:
            row[-1] = Text(screen.shorten(row[-1].plain, room), row[-1].style)
        screen.show(_table(head, cells))
        return
    _print_one_below_another(screen, head, cells)


def _used_columns(head: Sequence[str], cells: list[list[Text]]) -> tuple[list[str], list[list[Text]]]:
    """The table without the columns in which nothing stands; the last one stays."""
    used = [place for place in range(len(head)) if place == len(head) - 1 or any(row[place].plain for row in cells)]
    return [head[place] for place in used], [[row[place] for place in used] for row in cells]


def _print_one_below_another(screen: Screen, head: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    left = max(map(cell_len, head)) + GAP
    for number, row in enumerate(cells):
        lines = [Text.assemble((name.ljust(left), "dim"), cell) for name, cell in zip(head, row, strict=True) if cell]
        screen.show(*([""] if number else []), *lines, soft=True)


def _text(cell: Text | str) -> Text:
    return cell if isinstance(cell, Text) else Text(shown(cell))


def styled(text: str, style: str | None) -> Text:
    return Text(shown(text), style or "")


def _table(head: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for name in head:
        table.add_column(name, no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*row)
    return table


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

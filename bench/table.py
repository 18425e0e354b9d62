"""The results as a table: for people at a terminal, and for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.results import Results
from bench.work import Figure, Unit, Work

FIRST = "placet"
"""The contender that the others are compared with."""
Row = list[str]


def rows(results: Results, works: Sequence[Work]) -> list[Row]:
    """One row per figure and size, with the ratio to each other contender; growth stands below the sizes."""
    names = _names(results)
    table = [["work", *names, *(f"{FIRST} / {name}" for name in names if name != FIRST)]]
    for work in works:
        sizes = sorted({int(key.split(":")[1]) for key in results.values if key.split(":")[0] == work.name})
        for figure in work.figures:
            table.extend(_row(results, work, size, figure, names) for size in sizes)
        table.extend(_growth(results, work, names))
    return table


def _names(results: Results) -> list[str]:
    found = {name for row in results.values.values() for name in row}
    return sorted(found, key=lambda name: (name != FIRST, name))


def _row(results: Results, work: Work, size: int, figure: Figure, names: Sequence[str]) -> Row:
    values = results.of(work, size, figure)
    title = work.title.format(size=f"{size:,}") + (f": {figure.title}" if figure.title else "")
    return [
        title,
        *(shown(values[name], figure.unit) if name in values else "–" for name in names),
        *(_ratio(values.get(FIRST), values.get(name)) for name in names if name != FIRST),
    ]


def _growth(results: Results, work: Work, names: Sequence[str]) -> Iterator[Row]:
    if work.growth is None:
        return
    small, large = (results.of(work, size, work.figures[0]) for size in work.growth)
    if small and large:
        growth = [f"× {large[name] / small[name]:.2f}" if name in small and name in large else "–" for name in names]
        title = f"  growth from {work.growth[0]:,} to {work.growth[1]:,}"
        yield [title, *growth, *[""] * (len(names) - 1)]


def _ratio(mine: float | None, theirs: float | None) -> str:
    return "–" if mine is None or not theirs else f"{_digits(mine / theirs)}"


def shown(value: float, unit: Unit) -> str:
    match unit:
        case "µs":
            return f"{_digits(value * 1e6)} µs"
        case "ms":
            return f"{_digits(value * 1e3)} ms"
        case "kB":
            return f"{_digits(value / 1e3)} kB"
        case "per s":
            return f"{_digits(1 / value)} per s"


def _digits(number: float) -> str:
    """Three significant digits, no exponent."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def as_text(table: Sequence[Row]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(_aligned(cell, width, at) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in table
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def as_markdown(table: Sequence[Row]) -> str:
    head, *body = table
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cell.strip() for cell in row) + " |" for row in [head, rule, *body])


def compared(old: Results, new: Results) -> list[Row]:
    """What changed since an earlier run: old / new, so more than 1 means faster or smaller now."""
    names = _names(new)
    table = [["figure", *(f"{name} old / new" for name in names)]]
    for key, row in new.values.items():
        before = old.values.get(key, {})
        table.append(
            [key, *(f"× {before[name] / row[name]:.2f}" if row.get(name) and name in before else "–" for name in names)]
        )
    return table

"""The results as a table: for people at a terminal, and for the docs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from bench.contenders import LIMIT, PEERS, PLACET, VARIANTS
from bench.results import Results
from bench.targets import Verdict, ahead, of_figure, of_growth
from bench.work import Figure, Unit, Work

KNOWN = [each.name for each in (PLACET, LIMIT, *PEERS, *VARIANTS)]
Row = list[str]
NOTHING = "–"


def rows(results: Results, works: Sequence[Work]) -> list[Row]:
    """One row per figure and size; a figure's growth stands below its sizes. Beside the figures: how many times the
    limit Placet costs and, where peers took part, how many times less than the best of them, and whether that was the
    target. A dash is a contender without a figure; a ratio that there is not is an empty cell."""
    names = ordered({name for row in results.values.values() for name in row})
    table = [["work", *names, *_ratio_heads(names)]]
    for work in works:
        sizes = sorted({int(key.split(":")[1]) for key in results.values if key.split(":")[0] == work.name})
        for figure in work.figures:
            table.extend(_row(results, work, size, figure, names) for size in sizes)
            table.extend(_growth(results, work, figure, names))
    return table


def ordered(names: Iterable[str]) -> list[str]:
    """Placet, the limit, the peers."""
    return sorted(names, key=lambda name: (KNOWN.index(name) if name in KNOWN else len(KNOWN), name))


def _has_peers(names: Sequence[str]) -> bool:
    return bool(set(names) - {PLACET.name, LIMIT.name})


def _ratio_heads(names: Sequence[str]) -> Row:
    over = [f"{PLACET.name} / {LIMIT.name}"] if LIMIT.name in names else []
    return over + (["best peer / placet", "target"] if _has_peers(names) else [])


def _row(results: Results, work: Work, size: int, figure: Figure, names: Sequence[str]) -> Row:
    values = results.of(work, size, figure)
    title = work.title.format(size=f"{size:,}") + (f": {figure.title}" if figure.title else "")
    figures = [shown(values[name], figure.unit) if name in values else NOTHING for name in names]
    over = [_ratio(values.get(PLACET.name), values.get(LIMIT.name))] if LIMIT.name in names else []
    times = ahead(values)
    beside = ["" if times is None else _digits(times), _told(of_figure(results, work, size, figure))]
    return [title, *figures, *over, *(beside if _has_peers(names) else [])]


def _growth(results: Results, work: Work, figure: Figure, names: Sequence[str]) -> Iterator[Row]:
    if work.growth is None:
        return
    small, large = (results.of(work, size, figure) for size in work.growth)
    if small and large:
        growth = [
            f"× {large[name] / small[name]:.2f}" if small.get(name) and name in large else NOTHING for name in names
        ]
        title = (
            f"  growth of {figure.noun or figure.title or figure.key}, from {work.growth[0]:,} to {work.growth[1]:,}"
        )
        over = [""] if LIMIT.name in names else []
        yield [title, *growth, *over, *(["", _told(of_growth(results, work, figure))] if _has_peers(names) else [])]


def _told(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    sign = "≥" if verdict.kind == "ahead" else "≤"
    return f"{sign} {verdict.target:g}: {'met' if verdict.is_met else 'not met'}"


def _ratio(mine: float | None, theirs: float | None) -> str:
    return "" if mine is None or not theirs else _digits(mine / theirs)


def shown(value: float, unit: Unit) -> str:
    if value <= 0:
        return NOTHING  # so little that the clock did not move: only where a work is done once and very small
    match unit:
        case "µs":
            return f"{_digits(value * 1e6)} µs"
        case "ms":
            return f"{_digits(value * 1e3)} ms"
        case "s":
            return f"{_digits(value)} s"
        case "kB":
            return f"{_digits(value / 1e3)} kB"
        case "per s":
            return f"{_digits(1 / value)} per s"


def _digits(number: float) -> str:
    """Three significant digits, no exponent."""
    if number >= 100:
        return f"{number:,.0f}"
    if number >= 1:
        return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    return f"{number:.{2 - math.floor(math.log10(number))}f}" if number > 0 else "0"


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
    names = ordered({name for row in new.values.values() for name in row})
    table = [["figure", *(f"{name} old / new" for name in names)]]
    for key, row in new.values.items():
        before = old.values.get(key, {})
        known = {name for name in names if row.get(name) and name in before}
        table.append([key, *(f"× {before[name] / row[name]:.2f}" if name in known else NOTHING for name in names)])
    return table

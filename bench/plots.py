"""Cost against size as a picture: an SVG on logarithmic axes, written by hand, so that it needs no library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from bench.results import Results
from bench.table import KNOWN, ordered, shown
from bench.work import Unit, Work

WIDTH, HEIGHT = 780, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 214, 52, 56
LINE = 17
"""What a line of text needs, from the one above."""
COLOURS = ("#1d4ed8", "#6b7280", "#047857", "#9d174d", "#b45309", "#7c3aed")
"""In the order of KNOWN, so that each has its own in all pictures; the background is white in dark pages too."""

FONT = 'font-family="system-ui, sans-serif" font-size="13"'

Points = list[tuple[float, float]]
Place = tuple[float, float]


def plot(work: Work, results: Results) -> str:
    """The picture of a work's first figure, a line per contender, at all sizes that were measured."""
    assert work.plot is not None
    figure = work.figures[0]
    lines: dict[str, Points] = {}
    for size in work.sizes:
        for name, value in results.of(work, size, figure).items():
            lines.setdefault(name, []).append((size, value))
    return draw(work.plot.title, work.plot.x_axis, figure.unit, {name: lines[name] for name in ordered(lines)})


class _Axis:
    """A logarithmic scale from values to places in the picture."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._high = math.log10(low), math.log10(high)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / ((self._high - self._low) or 1)
        return self._start + share * (self._end - self._start)


def draw(title: str, x_axis: str, unit: Unit, lines: Mapping[str, Points]) -> str:
    sizes = sorted({x for points in lines.values() for x, _ in points})
    ticks = _decades([y for points in lines.values() for _, y in points])
    across = _Axis(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    up = _Axis(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    places = {name: [(across(x), up(y)) for x, y in points] for name, points in lines.items()}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
        _text(LEFT, 28, title, "start", 'font-size="16" font-weight="600"'),
        *(_level(up(tick), _tick(tick, unit)) for tick in ticks),
        *(_text(across(size), HEIGHT - BOTTOM + 20, f"{size:,.0f}", "middle") for size in sizes),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_axis, "middle"),
        *_lines(places, {name: f"{name}, {_readable(points[-1][1], unit)}" for name, points in lines.items()}),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lines(places: Mapping[str, Sequence[Place]], labels: Mapping[str, str]) -> Iterator[str]:
    """Each line with its label: beside the picture, or where a line ends that does not reach so far."""
    edge = WIDTH - RIGHT
    at_edge = {name: points[-1][1] for name, points in places.items() if points[-1][0] >= edge}
    heights = dict(zip(at_edge, _spread(list(at_edge.values())), strict=True))
    for number, (name, points) in enumerate(places.items()):
        colour = COLOURS[(KNOWN.index(name) if name in KNOWN else number) % len(COLOURS)]
        x, y = (edge + 20, heights[name]) if name in heights else (points[-1][0] + 10, points[-1][1])
        yield _line(points, (x, y), colour)
        yield _text(x + 2, y + 4, labels[name], "start", f'fill="{colour}" font-weight="600"')


def _readable(value: float, unit: Unit) -> str:
    """A duration in the unit in which it is a small number: a picture shows microseconds and seconds at once."""
    if unit in ("µs", "ms"):
        return shown(value, "µs" if value < 0.99e-3 else "ms" if value < 0.99 else "s")
    return shown(value, unit)


def _tick(value: float, unit: Unit) -> str:
    number, _, its_unit = _readable(value, unit).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {its_unit}"


def _spread(places: Sequence[float]) -> list[float]:
    """The heights of labels: as near to their lines as they can be without lying on one another."""
    found = list(places)
    order = sorted(range(len(places)), key=lambda at: places[at])
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + LINE)
    too_low = found[order[-1]] - (HEIGHT - BOTTOM) if order else 0
    if too_low > 0:
        found[order[-1]] -= too_low
        for above, below in pairwise(reversed(order)):
            found[below] = min(found[below], found[above] - LINE)
    return found


def _decades(values: Sequence[float]) -> list[float]:
    """The powers of ten around the values: steps that can be compared at a glance."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _level(y: float, label: str) -> str:
    rule = f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e5e7eb"/>'
    return rule + _text(LEFT - 10, y + 4, label, "end")


def _line(places: Sequence[Place], label_at: Place, colour: str) -> str:
    """The line with its points, and a thin one from its end to where its label stands."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places)
    (x, y), (to_x, to_y) = places[-1], label_at
    lead = f'<path d="M{x + 5:.1f},{y:.1f} L{to_x - 2:.1f},{to_y:.1f}" stroke="{colour}" stroke-opacity="0.5"/>'
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{lead}'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    fill = "" if "fill=" in more else 'fill="#374151" '
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {fill}{more}>{escape(text)}</text>'

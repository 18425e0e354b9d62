"""Cost against size as a picture: an SVG on logarithmic axes, written by hand, so that it needs no library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

from bench.results import Results
from bench.table import FIRST, shown
from bench.work import Unit, Work

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 84, 150, 52, 56
COLOURS = ("#1d4ed8", "#6b7280", "#b45309", "#047857", "#9d174d")
"""The first is Placet's; the background is white in light and in dark pages alike."""

FONT = 'font-family="system-ui, sans-serif" font-size="13"'

Points = list[tuple[float, float]]


def plot(work: Work, results: Results) -> str:
    """The picture of a work's first figure, a line per contender, at all sizes that were measured."""
    assert work.plot is not None
    figure = work.figures[0]
    lines: dict[str, Points] = {}
    for size in work.sizes:
        for name, value in results.of(work, size, figure).items():
            lines.setdefault(name, []).append((size, value))
    ordered = dict(sorted(lines.items(), key=lambda each: (each[0] != FIRST, each[0])))
    return draw(work.plot.title, work.plot.x_axis, figure.unit, ordered)


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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
        _text(LEFT, 28, title, "start", 'font-size="16" font-weight="600"'),
        *(_level(up(tick), shown(tick, unit)) for tick in ticks),
        *(_text(across(size), HEIGHT - BOTTOM + 20, f"{size:,.0f}", "middle") for size in sizes),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_axis, "middle"),
        *(
            _line(name, points, colour, across, up, unit)
            for (name, points), colour in zip(lines.items(), cycle(COLOURS), strict=False)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _decades(values: Sequence[float]) -> list[float]:
    """The powers of ten around the values: steps that can be compared at a glance."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _level(y: float, label: str) -> str:
    rule = f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e5e7eb"/>'
    return rule + _text(LEFT - 10, y + 4, label, "end")


def _line(name: str, points: Points, colour: str, across: _Axis, up: _Axis, unit: Unit) -> str:
    places = [(across(x), up(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places)
    label = f"{name}, {shown(points[-1][1], unit)}"
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}' + _text(
        places[-1][0] + 10, places[-1][1] + 4, label, "start", f'fill="{colour}" font-weight="600"'
    )


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    fill = "" if "fill=" in more else 'fill="#374151" '
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {fill}{more}>{escape(text)}</text>'

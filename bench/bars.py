"""Bars of two parts, one below the other, as a picture: what the program took, and what the server took."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 780, 190, 150, 44, 84
DARK, LIGHT = "#1d4ed8", "#93c5fd"
FONT = 'font-family="system-ui, sans-serif" font-size="13"'


def bars(title: str, parts: tuple[str, str], rows: Sequence[tuple[str, float, float]], unit: str) -> str:
    """A row for each name: its first part, its second behind it, and their sum as a number."""
    scale = (WIDTH - LEFT - RIGHT) / max(first + second for _, first, second in rows)
    height = TOP + ROW * len(rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        f'<text x="20" y="30" font-size="16" font-weight="600" fill="#374151">{escape(title)}</text>',
        _legend(LEFT, DARK, parts[0]),
        _legend(LEFT + 200, LIGHT, parts[1]),
    ]
    for number, (name, first, second) in enumerate(rows):
        y = TOP + ROW * number
        lines += [
            f'<text x="{LEFT - 12}" y="{y + 18}" text-anchor="end" fill="#374151">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{first * scale:.1f}" height="26" fill="{DARK}"/>',
            f'<rect x="{LEFT + first * scale:.1f}" y="{y}" width="{second * scale:.1f}" height="26" fill="{LIGHT}"/>',
            _number(LEFT + (first + second) * scale + 10, y + 18, f"{first + second:.1f} {unit}"),
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _number(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="#374151">{escape(text)}</text>'


def _legend(x: float, colour: str, text: str) -> str:
    return (
        f'<rect x="{x}" y="48" width="14" height="14" fill="{colour}"/>'
        f'<text x="{x + 22}" y="60" fill="#374151">{escape(text)}</text>'
    )

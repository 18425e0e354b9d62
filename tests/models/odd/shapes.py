"""Recorded shapes of odd answers, each a JSON file: what is odd, the answer, and the items that it must become.

A file holds `chunks` or `events` (a stream) or a `body` (a whole answer), and `items`, with `incomplete`, `usage`, or
an `error` in the items' place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shape:
    name: str
    told: dict[str, Any]

    @property
    def stream(self) -> list[dict[str, Any]] | None:
        return self.told.get("chunks") or self.told.get("events")

    def items(self, **places: str) -> list[dict[str, Any]]:
        """The items that the answer must become; words in capitals stand for what differs from test to test."""
        text = json.dumps(self.told["items"])
        for name, value in places.items():
            text = text.replace(f'"{name}"', json.dumps(value))
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def __str__(self) -> str:
        return self.name


def shapes(api: str, *, streamed: bool | None = None) -> list[Shape]:
    found = [Shape(path.stem, json.loads(path.read_text())) for path in sorted((HERE / api).glob("*.json"))]
    return [shape for shape in found if streamed is None or (shape.stream is not None) == streamed]

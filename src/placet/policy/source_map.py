"""Where in a policy's text something stands. The parser of TOML gives values without places; people need both."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import msgspec

_HEADER = re.compile(r"^\s*\[(\[)?\s*([^\]]+?)\s*\]?\]\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str | int, ...]
"""As in the parsed text: `("rule", 3, "args", "cents")`."""


class Problem(msgspec.Struct, frozen=True):
    """One fault of a policy, and where it is."""

    file: str
    line: int
    column: int
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        hint = f" {self.suggestion}" if self.suggestion else ""
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}"


class SourceMap:
    """The places of the keys of a policy's text."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._lines = text.splitlines()
        self._places: dict[Path, tuple[int, int]] = {}
        self._read()

    def _read(self) -> None:
        prefix: Path = ()
        counts: dict[Path, int] = {}
        quote: str | None = None
        for number, line in enumerate(self._lines, 1):
            if quote is not None:  # inside a text of several lines nothing is a key
                quote = None if quote in line else quote
                continue
            header = _HEADER.match(line)
            if header is not None:
                prefix = self._table(header.group(2), bool(header.group(1)), counts)
                for end in range(1, len(prefix) + 1):  # of an array the first table stands for the whole
                    self._places.setdefault(prefix[:end], (number, line.index("[") + 1))
                continue
            key = _KEY.match(line)
            if key is not None:
                path = (*prefix, *_parts(key.group(1)))
                column = key.start(1) + 1
                for end in range(len(prefix) + 1, len(path) + 1):
                    self._places.setdefault(path[:end], (number, column))
            quote = next((sign for sign in ('"""', "'''") if line.count(sign) % 2), None)

    def _table(self, name: str, is_array: bool, counts: dict[Path, int]) -> Path:
        path: Path = ()
        parts = _parts(name)
        for place, part in enumerate(parts):
            path = (*path, part)
            if is_array and place == len(parts) - 1:
                counts[path] = counts.get(path, -1) + 1
            if path in counts:  # a table inside the newest element of an array
                path = (*path, counts[path])
        return path

    def place(self, path: Path) -> tuple[int, int]:
        """Line and column of what stands there, or of the nearest thing around it. Inside of a line the last name is
        looked for: an inline table has no line of its own."""
        for end in range(len(path), 0, -1):
            found = self._places.get(path[:end])
            if found is None:
                continue
            inner = next((part for part in reversed(path[end:]) if isinstance(part, str)), None)
            if inner is not None and found[0] <= len(self._lines):
                column = self._lines[found[0] - 1].find(inner, found[1])
                if column >= 0:
                    return found[0], column + 1
            return found
        return 1, 1

    def problem(self, path: Path, message: str, suggestion: str | None = None) -> Problem:
        line, column = self.place(path)
        return Problem(self.file, line, column, message, suggestion)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(name))


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """A suggestion for a misspelt name; else the names that there are."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"There are: {', '.join(names)}." if 0 < len(names) <= 12 else None

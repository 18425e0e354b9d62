"""Reads a docstring in Google, NumPy or Sphinx style: what the function does, and what each parameter means.

Docstrings are written by people, so nothing here raises on odd text: what is not recognised stays in the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from placet.facts.errors import UserError

DocstringStyle = Literal["google", "numpy", "sphinx"]


class Docstring(msgspec.Struct, frozen=True):
    description: str
    """Summary and body. Sections about parameters, results and exceptions are left out; notes and examples stay."""
    parameters: Mapping[str, str]


def parse_docstring(text: str, parameter_names: Iterable[str], style: DocstringStyle | None = None) -> Docstring:
    """Without a style, the one that recognises the most parameters wins, then the one that leaves the least text."""
    if style is not None and style not in _READERS:
        raise UserError(f"Unknown docstring style {style!r}: use one of {', '.join(_READERS)}, or None to detect it.")
    lines = inspect.cleandoc(text).splitlines()
    names = frozenset(parameter_names)
    readers = _READERS.values() if style is None else [_READERS[style]]
    return max(
        (reader(lines, names) for reader in readers),
        key=lambda docstring: (len(docstring.parameters), -len(docstring.description)),
    )


_PARAMETER_SECTIONS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other args", "other parameters"}
)
_DROPPED_SECTIONS = _PARAMETER_SECTIONS | frozenset(
    {"return", "returns", "yield", "yields", "receives", "raise", "raises", "exceptions", "warns", "attributes"}
)


class _Collector:
    """Sorts lines into the body and the parameters' descriptions, and remembers whose lines come next."""

    def __init__(self, names: frozenset[str]) -> None:
        self.body: list[str] = []
        self._names = names
        self._parameters: dict[str, list[str]] = {}
        self._current: list[list[str]] = []

    def begin(self, names: Iterable[str], first_line: str = "") -> None:
        """A name that the function lacks (stale documentation) still takes its lines out of the body."""
        self._current = [self._parameters.setdefault(n, []) for n in names if n in self._names]
        self.more(first_line)

    def more(self, line: str) -> None:
        for lines in self._current:
            lines.append(line)

    def end(self) -> None:
        self._current = []

    def docstring(self) -> Docstring:
        body = re.sub(r"\n\s*\n\s*\n", "\n\n", "\n".join(self.body)).strip()
        described = {name: inspect.cleandoc("\n".join(lines)) for name, lines in self._parameters.items()}
        return Docstring(body, {name: text for name, text in described.items() if text})


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# ---------------------------------------------------------------------------------------------------------- Google

_GOOGLE_HEADER = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*:\s*")
_GOOGLE_ENTRY = re.compile(r"\s*`{0,2}\\?\*{0,2}(\w+)`{0,2}\s*(?:\(.*?\)\s*)?:(?:\s+(.*)|)")


def _google(lines: Sequence[str], names: frozenset[str]) -> Docstring:
    found = _Collector(names)
    position = 0
    while position < len(lines):
        section = _google_section(lines[position])
        if section is None:
            found.body.append(lines[position])
            position += 1
            continue
        end = _google_section_end(lines, position)
        if section in _PARAMETER_SECTIONS:
            _google_entries(lines[position + 1 : end], names, found)
        position = end
    return found.docstring()


def _google_section(line: str) -> str | None:
    header = _GOOGLE_HEADER.fullmatch(line)
    section = header[1].lower() if header else None
    return section if section in _DROPPED_SECTIONS else None


def _google_section_end(lines: Sequence[str], header: int) -> int:
    """Where the indented block ends; if its author did not indent it, where the paragraph ends."""
    following = range(header + 1, len(lines))
    first = next((i for i in following if lines[i].strip()), len(lines))
    indented = first < len(lines) and _indent(lines[first]) > _indent(lines[header])
    for i in following:
        blank = not lines[i].strip()
        if indented and not blank and _indent(lines[i]) <= _indent(lines[header]):
            return i
        if not indented and (blank or _google_section(lines[i]) is not None):
            return i
    return len(lines)


def _google_entries(block: Sequence[str], names: frozenset[str], found: _Collector) -> None:
    base = next((_indent(line) for line in block if line.strip()), 0)
    for line in block:
        entry = _GOOGLE_ENTRY.fullmatch(line)
        # A parameter's own name opens an entry at any indentation; another word does so only where entries stand.
        if entry and (entry[1] in names or _indent(line) <= base):
            found.begin([entry[1]], entry[2] or "")
        else:
            found.more(line)
    found.end()


# ----------------------------------------------------------------------------------------------------------- NumPy

_NUMPY_UNDERLINE = re.compile(r"\s*[-=]{3,}\s*")
_NUMPY_ENTRY = re.compile(r"\s*(\\?\*{0,2}\w+(?:\s*,\s*\\?\*{0,2}\w+)*)\s*(:.*)?")


def _numpy(lines: Sequence[str], names: frozenset[str]) -> Docstring:
    found = _Collector(names)
    headers = [i for i in range(len(lines) - 1) if lines[i].strip() and _NUMPY_UNDERLINE.fullmatch(lines[i + 1])]
    found.body.extend(lines[: headers[0]] if headers else lines)
    for header, end in pairwise([*headers, len(lines)]):
        section = lines[header].strip().rstrip(":").lower()
        if section in _PARAMETER_SECTIONS:
            _numpy_entries(lines[header + 2 : end], names, found)
        elif section not in _DROPPED_SECTIONS:
            found.body.extend(lines[header:end])
    return found.docstring()


def _numpy_entries(block: Sequence[str], names: frozenset[str], found: _Collector) -> None:
    base = next((_indent(line) for line in block if line.strip()), 0)
    for line in block:
        entry = _NUMPY_ENTRY.fullmatch(line)
        declared = [name.strip().lstrip("\\*") for name in entry[1].split(",")] if entry else []
        if entry and _indent(line) <= base and (entry[2] or names.issuperset(declared)):
            found.begin(declared)
        else:
            found.more(line)
    found.end()


# ---------------------------------------------------------------------------------------------------------- Sphinx

_SPHINX_PARAMETER = re.compile(
    r"\s*:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(?:\\?\*)*(\w+)\s*:\s*(.*)"
)
_SPHINX_OTHER_FIELD = re.compile(
    r"\s*:(?:(?:type|raise|raises|except|exception|var|ivar|cvar|vartype|meta)\s[^:]*|return|returns|rtype|yield|yields):.*"
)


def _sphinx(lines: Sequence[str], names: frozenset[str]) -> Docstring:
    found = _Collector(names)
    field_indent: int | None = None
    after_blank = False
    for line in lines:
        parameter = _SPHINX_PARAMETER.fullmatch(line)
        if parameter or _SPHINX_OTHER_FIELD.fullmatch(line):
            found.begin([parameter[1]] if parameter else [], parameter[2] if parameter else "")
            field_indent = _indent(line)
        elif field_indent is not None and (not line.strip() or not after_blank or _indent(line) > field_indent):
            found.more(line)
        else:
            # Text flush with the fields, after a blank line: the author went back to the body.
            field_indent = None
            found.end()
            found.body.append(line)
        after_blank = not line.strip()
    return found.docstring()


_READERS: Mapping[str, Callable[[Sequence[str], frozenset[str]], Docstring]] = {
    "google": _google,
    "numpy": _numpy,
    "sphinx": _sphinx,
}

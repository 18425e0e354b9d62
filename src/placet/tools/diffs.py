"""Patches as models write them, applied to a text: all of it, in the one place where it fits, or not at all.

A patch is a list of hunks. A line that begins with `@@` opens one; what follows it on that line, if anything, is a line
of the file behind which the hunk stands. Inside a hunk a blank stands for a line that stays, `-` for one that goes, `+`
for one that comes; `*** End of File` says that the hunk ends where the file does. A new file is all `+` lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

END_OF_FILE = "*** End of File"
_FRAME = ("*** Begin Patch", "*** End Patch")


class DoesNotApply(ValueError):
    """Why a patch cannot be applied; nothing was changed."""


@dataclass(slots=True)
class Hunk:
    anchor: str | None = None
    """A line of the file behind which the hunk stands."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Sign and text: what stays, goes and comes, in order."""
    at_end: bool = False

    @property
    def before(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def after(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


def apply_diff(text: str, diff: str, mode: Literal["default", "create"] = "default") -> str:
    """The text with the patch applied; DoesNotApply says why not. `create`: the patch is a whole new file."""
    if mode == "create":
        return _created(diff)
    hunks = parse(diff)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    start = 0
    for number, hunk in enumerate(hunks, 1):
        start = _apply(lines, hunk, start, number)
    return newline.join(lines)


def _created(diff: str) -> str:
    lines = _split(diff)
    strange = next((line for line in lines if not line.startswith("+")), None)
    if strange is not None:
        raise DoesNotApply(f"a new file is made of lines that begin with '+', and this one does not: {strange[:80]!r}")
    return "".join(line[1:] + "\n" for line in lines)


def parse(diff: str) -> list[Hunk]:
    """The hunks of a patch."""
    hunks: list[Hunk] = []
    for line in _split(diff):
        if line.startswith("@@"):
            hunks.append(Hunk(anchor=line.removeprefix("@@").strip().removesuffix("@@").rstrip() or None))
            continue
        if not hunks:
            hunks.append(Hunk())
        _add(hunks[-1], line)
    found = [hunk for hunk in hunks if hunk.lines]
    if not any(sign != " " for hunk in found for sign, _ in hunk.lines):
        raise DoesNotApply("it changes nothing: no line begins with '+' or '-'")
    return found


def _split(diff: str) -> list[str]:
    lines = diff.replace("\r\n", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line for line in lines if line.strip() not in _FRAME]


def _add(hunk: Hunk, line: str) -> None:
    if hunk.at_end:
        raise DoesNotApply(f"a line follows '{END_OF_FILE}' in the same hunk: {line[:80]!r}")
    if line.strip() == END_OF_FILE:
        hunk.at_end = True
    elif line == "":
        hunk.lines.append((" ", ""))  # editors strip the blank of an empty line that stays
    elif line[0] in " +-":
        hunk.lines.append((line[0], line[1:]))
    else:
        raise DoesNotApply(f"a line begins with none of ' ', '+', '-', '@@': {line[:80]!r}")


def _apply(lines: list[str], hunk: Hunk, start: int, number: int) -> int:
    """Replace the hunk's lines where they stand; where to go on looking."""
    place = _place(lines, hunk, start, number)
    lines[place : place + len(hunk.before)] = hunk.after
    return place + len(hunk.after)


def _place(lines: Sequence[str], hunk: Hunk, start: int, number: int) -> int:
    begin = start if hunk.anchor is None else _behind_anchor(lines, hunk.anchor, start, number)
    wanted = hunk.before
    if hunk.at_end or not wanted:
        return _at_end(lines, hunk, begin, number)
    for seen in (str, str.rstrip):  # as it is written; then without what stands invisibly at the ends of lines
        found = _all_places(lines, wanted, begin, seen)
        if len(found) == 1 or (found and hunk.anchor is not None):
            return found[0]
        if found:
            where = ", ".join(str(place + 1) for place in found[:5])
            raise DoesNotApply(
                f"hunk {number} fits in {len(found)} places (lines {where}): give it more lines around it, or a line "
                "above it after '@@'"
            )
    raise DoesNotApply(f"hunk {number} does not fit: no such lines as {_excerpt(wanted)} from line {begin + 1} on")


def _behind_anchor(lines: Sequence[str], anchor: str, start: int, number: int) -> int:
    found = [place for place in range(start, len(lines)) if lines[place].strip() == anchor.strip()]
    if not found:
        raise DoesNotApply(f"hunk {number} does not fit: there is no line {anchor[:80]!r} from line {start + 1} on")
    if len(found) > 1:
        raise DoesNotApply(f"hunk {number} is to stand behind {anchor[:80]!r}, and there are {len(found)} such lines")
    return found[0] + 1


def _at_end(lines: Sequence[str], hunk: Hunk, begin: int, number: int) -> int:
    """Where a hunk stands that ends with the file, or that only adds and names no place."""
    if hunk.anchor is not None and not hunk.at_end:
        return begin
    end = len(lines) - 1 if lines and lines[-1] == "" else len(lines)  # the last newline is not a line
    place = end - len(hunk.before)
    if place < begin or [line.rstrip() for line in lines[place:end]] != [line.rstrip() for line in hunk.before]:
        raise DoesNotApply(f"hunk {number} does not fit: the file does not end with {_excerpt(hunk.before)}")
    return place


def _all_places(lines: Sequence[str], wanted: Sequence[str], begin: int, look: Callable[[str], str]) -> list[int]:
    target = [look(line) for line in wanted]
    here = [look(line) for line in lines]
    last = len(lines) - len(wanted)
    return [place for place in range(begin, last + 1) if here[place : place + len(wanted)] == target]


def _excerpt(lines: Sequence[str]) -> str:
    return repr("\n".join(lines[:3])[:120]) + (" …" if len(lines) > 3 else "")

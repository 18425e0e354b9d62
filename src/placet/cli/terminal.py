"""The terminal: colours where there are some, lines that fit, text that cannot deceive, and a person who types.

Rule of this file: whatever came from a model is `shown` before it is printed. A tool's argument must not move the
cursor, hide itself or reverse its reading direction while somebody is asked about it.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, TypeAlias

from placet.cli.exit_codes import UsageError
from placet.facts.addresses import without_credentials
from placet.facts.errors import ServerHistoryNotFound

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan"]

_CODES: dict[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_PAINT = re.compile(r"(\033\[[0-9;]*m)")
WIDEST = 100
"""Wider lines are hard to read, however wide the window is."""
NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs that pictures are made of."""

    bar: str
    tee: str
    elbow: str
    rule: str
    corners: str
    """Of a card: top left, top right, bottom left, bottom right."""
    arrow: str
    done: str
    refused: str
    waits: str
    prompt: str
    left_quote: str
    right_quote: str
    dot: str
    cut: str


PRETTY = Glyphs("│", "├", "└", "─", "╭╮╰╯", "→", "✓", "✗", "●", "›", "«", "»", "·", "…")
PLAIN = Glyphs("|", "|", "`", "-", "++++", "->", "+", "x", "*", ">", '"', '"', "-", "...")


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command writes, and what can be done there."""

    out: TextIO
    width: int = 80
    coloured: bool = False
    glyphs: Glyphs = PRETTY
    is_piped: bool = False
    """Nobody looks: a program reads, and lines may be as long as they are."""

    def print_line(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)

    def print_lines(self, lines: list[str]) -> None:
        self.print_line("\n".join(lines))

    def shorten(self, text: str, width: int) -> str:
        """The text on one line of at most this width, with a sign where something was left out."""
        line = shown(text.replace("\n", " "))
        if width_of(line) <= width:
            return line
        return line[: _fitting(line, width - width_of(self.glyphs.cut))] + self.glyphs.cut

    def paint(self, text: str, *styles: Style) -> str:
        if not self.coloured or not styles or not text:
            return text
        return f"\033[{';'.join(_CODES[style] for style in styles)}m{text}\033[0m"


def this_terminal() -> Terminal:
    """The standard output of this process."""
    out = sys.stdout
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))
    glyphs = PRETTY if _can_write_pretty(out) else PLAIN
    return Terminal(out, width, has_colours(out), glyphs, not out.isatty())


def has_colours(out: TextIO) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _can_write_pretty(out: TextIO) -> bool:
    try:
        "".join(getattr(PRETTY, name) for name in Glyphs.__slots__).encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def never_fail_to_print() -> None:
    """A character that the output's encoding lacks is written as an escape, and is no error; neither is an output that
    whoever started us has closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """Say on standard error why the command ends."""
    red = Terminal(sys.stderr, coloured=has_colours(sys.stderr))
    lines = shown(without_credentials(f"placet: {text}"), keep_lines=True)  # a word of the command line may be a URL
    if sys.stderr.isatty():
        lines = "\n".join(line.rstrip() for line in wrap(lines, shutil.get_terminal_size((80, 24)).columns))
    print(red.paint("placet:", "red", "bold") + lines.removeprefix("placet:"), file=sys.stderr, flush=True)


# -- somebody who types ----------------------------------------------------------------------------------------------


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def ask(prompt: str) -> str | None:
    """A line that the person typed; None when they closed the input (Ctrl-D). Ctrl-C raises KeyboardInterrupt."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # being imported is all it needs: input() then lets people correct what they type
    try:
        return input(f"{prompt} ")
    except EOFError:
        return None
    except UnicodeDecodeError:
        return ""  # not text: as good as nothing, and the question is asked again


def read_all(what: str) -> str:
    """All of standard input; whoever sits there is told that they are waited for."""
    if sys.stdin is None:  # whoever started us has closed it
        return ""
    if sys.stdin.isatty():
        print(f"Type {what}, then Ctrl-D.", file=sys.stderr, flush=True)
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not text in UTF-8.") from error


# -- text that fits and does not deceive -----------------------------------------------------------------------------


def this_user() -> str:
    """Who sits at this system, for the record."""
    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return "somebody"


def shown(text: str, *, keep_lines: bool = False) -> str:
    """The text with every character that does not print (control, direction, zero width) written as its escape."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (keep_lines and each == "\n") else json.dumps(each)[1:-1] for each in text
    )


def way_on(stopped: str, run_id: str = "") -> str:
    """What has a run go on that an error stopped, in words."""
    command = f"placet runs resume {run_id}".rstrip()
    if stopped.startswith(f"{ServerHistoryNotFound.code}:"):
        return f"«{command} --own-history» has it go on with its own history, «{command}» tries again."
    return f"«{command}» has it go on."


def sentence(text: object) -> str:
    """The text with one full stop, whether it has one already or not."""
    return f"{str(text or '').rstrip().rstrip('.')}."


def width_of(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most this width, broken behind spaces where there are some.

    Nothing is lost or added but the line breaks: a person who is asked about a text sees all of it.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        rest = paragraph
        while width_of(rest) > width:
            cut = _where_to_break(rest, width)
            lines.append(rest[:cut])
            rest = rest[cut:]
        lines.append(rest)
    return lines


def clipped(painted: str, width: int) -> str:
    """A line with colours, up to this width: on a whole screen a longer one would push the others down."""
    columns, found = 0, ""
    for part in _PAINT.split(painted):
        if _PAINT.fullmatch(part):
            found += part
            continue
        kept = part[: _fitting(part, width - columns)]
        columns += width_of(kept)
        found += kept
    return found


def _where_to_break(text: str, width: int) -> int:
    end = max(1, _fitting(text, width))
    space = text.rfind(" ", 0, end)
    return space + 1 if space > 0 else end


def _fitting(text: str, width: int) -> int:
    """How many characters of the text fit into this width."""
    columns = 0
    for index, character in enumerate(text):
        columns += _columns(character)
        if columns > width:
            return index
    return len(text)

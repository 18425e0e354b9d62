"""What the command prints: on a rich console, without markup, and with every text from a model escaped.

Rule of this file: whatever came from a model, a person or a desk is `shown` before it is printed, and reaches rich as a
`Text`, never as a string. A tool's argument must not move the cursor, hide itself, reverse its reading direction, or
style and link itself while somebody is asked about it.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from click import UsageError
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from placet.facts.addresses import without_credentials

WIDEST = 100
"""Wider lines are hard to read, however wide the window is."""
NARROWEST = 40
UNBOUNDED = 1_000_000
"""Columns of a line that a program reads."""


class Signs(NamedTuple):
    """The signs that rich has no plain form of."""

    arrow: str
    done: str
    refused: str
    waits: str
    prompt: str
    left_quote: str
    right_quote: str
    dot: str
    cut: str
    bar: str
    """What is filled of a bar, and what is not."""


PRETTY = Signs("→", "✓", "✗", "●", "›", "«", "»", "·", "…", "█░")
PLAIN = Signs("->", "+", "x", "*", ">", '"', '"', "-", "...", "#.")


class Screen(Console):
    """A console on which strings are only strings: no markup, no emoji codes, no highlighting."""

    def __init__(self, file: IO[str] | None = None, width: int | None = None, *, is_error: bool = False) -> None:
        out = file or (sys.stderr if is_error else sys.stdout)
        super().__init__(
            file=file,
            stderr=is_error,
            width=width or max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns)),
            color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich would keep bold and dim
            force_terminal=out.isatty(),
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    @property
    def is_piped(self) -> bool:
        """Nobody looks: a program reads, and lines may be as long as they are."""
        return not self.is_terminal

    @property
    def signs(self) -> Signs:
        return PRETTY if self.encoding.startswith("utf") else PLAIN

    def show(self, *parts: RenderableType, soft: bool = False) -> None:
        """Print each on lines of its own; `soft`: lines are as long as they are, and the terminal breaks them."""
        with self.capture() as captured:
            for part in parts:
                self.print(part, soft_wrap=soft)
        text = captured.get()
        if self.is_piped:  # rich fills its columns up with spaces
            text = "\n".join(line.rstrip() for line in text.split("\n"))
        self.file.write(text)
        self.file.flush()

    def shorten(self, text: str, width: int) -> str:
        """The text on one line of at most this width, with a sign where something was left out."""
        line = shown(text.replace("\n", " "))
        if cell_len(line) <= width:
            return line
        return set_cell_size(line, max(0, width - len(self.signs.cut))) + self.signs.cut


def echo_json(value: object) -> None:
    """A value as one line of JSON, for programs."""
    print(json.dumps(value))


def print_result(found: object, words: str, *, as_json: bool) -> None:
    """What was done: a sentence for people, or all of it for programs."""
    if as_json:
        echo_json(found)
    else:
        print(shown(words, keep_lines=True))


def complain(text: str) -> None:
    """Say on standard error why the command ends, or what should be known."""
    words = shown(without_credentials(text), keep_lines=True)  # a word of the command line may be a URL
    line = Text.assemble(("placet:", "bold red"), f" {words}")
    screen = Screen(is_error=True, width=shutil.get_terminal_size((80, 24)).columns)
    screen.show(line, soft=screen.is_piped)


# -- text that does not deceive ---------------------------------------------------------------------------------------


def shown(text: str, *, keep_lines: bool = False) -> str:
    """The text with every character that does not print (control, direction, zero width) written as its escape."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (keep_lines and each == "\n") else json.dumps(each)[1:-1] for each in text
    )


def value_text(value: object) -> str:
    """A value as JSON: a person can tell the text "7" from the number 7."""
    return shown(json.dumps(value, ensure_ascii=False))


def sentence(text: object) -> str:
    """The text with one full stop, whether it has one already or not."""
    bare = str(text or "").rstrip().rstrip(".")
    return bare if bare.endswith(("!", "?")) else f"{bare}."


def whole_lines(text: str, width: int) -> Iterator[str]:
    """The text in lines of at most this width, broken behind spaces where there are some.

    Nothing is lost or added but the line breaks: rich drops the spaces at the end of a line, and a person who is asked
    about a command has to see all of it.
    """
    for paragraph in text.split("\n"):
        rest = paragraph
        while cell_len(rest) > width:
            line = (chop_cells(rest[: width + 1], width) or [rest[:1]])[0]
            cut = line.rfind(" ") + 1 or len(line)
            yield rest[:cut]
            rest = rest[cut:]
        yield rest


class Whole:
    """Text of which every character is printed, whatever room there is."""

    def __init__(self, text: str, style: str = "", sign: str = "") -> None:
        self.text = text
        self.style = style
        self.sign = sign
        """It stands before the first line, and the others are indented by it."""

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, options.max_width - len(self.sign))
        for number, line in enumerate(whole_lines(self.text, room)):
            lead = " " * len(self.sign) if number else self.sign
            yield Text(f"{lead}{line}", self.style, no_wrap=True, overflow="ignore")

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(cell_len(line) for line in self.text.split("\n")) + len(self.sign)
        return Measurement(min(1, longest), min(longest, options.max_width))


def two_columns(rows: Iterable[tuple[str, str]], width: int, style: str) -> Table:
    """Names and their values, all of both."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(max_width=max(1, width // 3))
    table.add_column()
    for name, value in rows:
        table.add_row(Whole(shown(name), style), Whole(value))
    return table


# -- somebody who types -----------------------------------------------------------------------------------------------


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def read_all(what: str) -> str:
    """All of standard input; a person who sits there is told that the command waits for them."""
    if sys.stdin is None:  # the program that started us has closed it
        return ""
    if sys.stdin.isatty():
        print(f"Type {what}, then Ctrl-D.", file=sys.stderr, flush=True)
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not text in UTF-8.") from error


def this_user() -> str:
    """Who is logged in to this system, as far as it says."""
    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return "somebody"

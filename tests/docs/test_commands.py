"""Command lines in the documentation are of commands that there are, with the arguments that they take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from placet.cli.main import root
from tests.docs.pages import PAGES, name_of

_LINE = re.compile(r"^ *(?:\$ )?(placet .+)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(placet [^`\n]+)`(?!`)")
_ENDS = re.compile(r" (?:>|&&|<) .*")


def commands_of(page: Path) -> Iterator[tuple[str, bool]]:
    """Command lines, and whether each is whole: within a sentence its arguments may be left out."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    found = [(line, True) for line in _LINE.findall(text)] + [(line, False) for line in _INLINE.findall(text)]
    for line, is_whole in found:
        if not any(sign in line for sign in "…|[«"):
            yield _ENDS.sub("", line), is_whole


def problem_with(line: str, *, is_whole: bool) -> str | None:
    """Why the command line is none, or None."""
    command: click.Command = root
    context = click.Context(root)
    words = shlex.split(line.replace("--store URL", "--store sqlite:///placet.db"), comments=True)[1:]
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            command, context = found, click.Context(found, parent=context, info_name=name)
        if not isinstance(command, click.Group):
            command.make_context(context.info_name, list(words), parent=context.parent)
    except click.exceptions.Exit:  # it shows help
        return None
    except (click.BadParameter, click.BadOptionUsage) as error:  # a value is left out: `--grace`
        return f"{line}: {error.format_message()}" if is_whole else None
    except click.UsageError as error:
        return f"{line}: {error.format_message()}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_line_of_the_page_can_be_typed(page: Path) -> None:
    problems = [problem_with(line, is_whole=is_whole) for line, is_whole in commands_of(page)]

    assert [each for each in problems if each is not None] == []


def test_a_line_that_cannot_be_typed_is_found() -> None:
    lines = ['placet tokens add jobs "the cellar"', "placet nothing", "placet users add", "placet users add x --no"]

    assert all(problem_with(line, is_whole=True) is not None for line in lines)
    assert problem_with("placet users add", is_whole=False) is None
    assert problem_with("placet users add x --no", is_whole=False) is not None

"""Settings of other programs, changed for a person: shown as a diff first, written whole, kept as they were."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click
from click import ClickException, UsageError

from placet.cli.output import is_interactive, shown
from placet.facts.errors import UserError

BEFORE = ".before-placet"
"""The name of the settings as they were, beside them."""

yes_option = click.option("--yes", is_flag=True, help="write it without a question")


def text_of(file: Path) -> str | None:
    """What stands in it, byte for byte; None: there is no such file."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}. Nothing was changed.") from error


def kept_place(file: Path) -> Path:
    return file.with_name(file.name + BEFORE)


def write_whole(file: Path, text: str) -> None:
    """All or nothing: half a settings file would switch us off. A link stays a link, and the mode stays."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_bytes(text.encode())
    fresh.chmod(mode)
    fresh.replace(target)


def show_diff(file: Path, text: str | None, wanted: str | None) -> None:
    lines = ((text or "").splitlines(), (wanted or "").splitlines())
    for line in difflib.unified_diff(*lines, str(file), str(file), lineterm=""):
        print(shown(line))


def confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not is_interactive():
        raise UsageError("nobody is here to confirm this: write --yes.")
    if not click.confirm(question):
        raise ClickException("nothing was changed.")

"""`placet edit ID`: approve with other arguments, written in an editor or given as options."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from placet.cli.deciding import add_request, send_decisions
from placet.cli.exit_codes import CommandFailed, UsageError
from placet.cli.terminal import is_interactive
from placet.cli.verdicts import parse_changes
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Approves a request with other arguments. They are opened in your editor
($VISUAL, $EDITOR) as JSON; saving them unchanged decides nothing. --set changes
single ones without an editor. The arguments are checked against the tool before
anything is decided, where the agents' code is at hand (at the desk, or with
--agents).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change this one (repeatable)")
    parser.add_argument("--arguments", metavar="JSON", help="all of them, as a JSON object")
    add_request(parser, several=False)


def run(options: argparse.Namespace) -> int:
    if options.set and options.arguments is not None:
        raise UsageError("--set changes some arguments and --arguments gives all: write one of them.")
    return send_decisions(
        options, lambda request: {"decision": "edit", "arguments": _edited(options, request)}, "Edit this?"
    )


def _edited(options: argparse.Namespace, request: JsonObject) -> JsonObject:
    present = request["arguments"]
    if options.arguments is not None:
        return _object(options.arguments)
    if not isinstance(present, dict):
        raise CommandFailed("its arguments are not one JSON object: give new ones with --arguments.")
    if options.set:
        changes = [parse_changes(each if each.startswith("{") else shlex.quote(each), present) for each in options.set]
        return {**present, **{name: value for change in changes for name, value in change.items()}}
    changed = _object(_in_editor(json.dumps(present, indent=2, ensure_ascii=False) + "\n"))
    if changed == present:
        raise CommandFailed("nothing was changed, so nothing was decided. To approve it as it is: placet approve.")
    return changed


def _object(text: str) -> JsonObject:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"the arguments are not JSON: {error}. Nothing was decided.") from error
    if not isinstance(found, dict):
        raise CommandFailed("the arguments are one JSON object. Nothing was decided.")
    return found


def _in_editor(text: str) -> str:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    found = next((each for each in ("sensible-editor", "nano", "vi") if shutil.which(each)), None)
    if chosen is None and (found is None or not is_interactive()):
        raise UsageError("there is no editor here: set EDITOR, or write the changes as --set NAME=VALUE.")
    command = _command(chosen or str(found))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*command, str(file)], check=False)  # noqa: S603  # one's own editor
        except OSError as error:
            words = f"the editor {command[0]!r} cannot be started: {error.strerror}"
            raise UsageError(f"{words}. Set EDITOR to another, or write the changes as --set NAME=VALUE.") from error
        if done.returncode:
            raise CommandFailed(f"the editor ended with {done.returncode}: nothing was decided.")
        return file.read_text(encoding="utf-8")


def _command(editor: str) -> list[str]:
    try:
        found = shlex.split(editor)
    except ValueError as error:
        raise UsageError(f"the editor «{editor}» cannot be taken apart: {error}. Set EDITOR to another.") from error
    if not found:
        raise UsageError("EDITOR is empty: set it to an editor, or write the changes as --set NAME=VALUE.")
    return found

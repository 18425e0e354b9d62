"""`placet port`: a program written for the OpenAI Agents SDK moves in by its imports."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.cli.exit_codes import FAILED, OK, UsageError
from placet.cli.loading import add_json

if TYPE_CHECKING:
    from placet.agents.porting import Ported, PortingNote

DESCRIPTION = """\
Shows what would change in programs that are written for the OpenAI Agents SDK:
«import agents» becomes «import placet.agents as agents», and «from agents …»
becomes «from placet.agents …». Below the diff stands what it found that is left
out or differs. Nothing is written without --write.
"""
_SKIPPED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "site-packages"})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("path", type=Path, metavar="PATH", help="a program, or a folder of them")
    parser.add_argument("--write", action="store_true", help="change the files")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from placet.agents.porting import port

    root: Path = options.path
    if not root.exists():
        raise UsageError(f"there is no {str(root)!r}: give a program, or a folder of them.")
    _refuse_an_own_package(root)
    found: dict[str, Ported] = {}
    unread: dict[str, str] = {}
    for path in _programs(root):
        try:
            found[str(path)] = port(_text_of(path), str(path))
        except (SyntaxError, ValueError, OSError) as error:
            unread[str(path)] = str(error)
    changed = {name: each for name, each in found.items() if each.is_changed}
    if options.write:
        for name, each in changed.items():
            with Path(name).open("w", encoding="utf-8", newline="") as file:
                file.write(each.after)
    notes = {name: each.notes for name, each in found.items() if each.notes and (each.is_changed or _is_ours(each))}
    if options.json:
        listed = {name: [{"line": note.line, "text": note.text} for note in each] for name, each in notes.items()}
        answer = {"changed": sorted(changed), "written": options.write, "notes": listed, "unread": unread}
        print(msgspec.json.encode(answer).decode())
    else:
        _show(changed, notes, unread, written=options.write)
    return FAILED if unread else OK


def _is_ours(ported: Ported) -> bool:
    """A program that was moved in before: what differs in it is said again."""
    return "placet.agents" in ported.before


def _text_of(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:  # line ends stay what they are
        return file.read()


def _refuse_an_own_package(root: Path) -> None:
    """A package of the user's own that is called `agents` is not the SDK's."""
    folder = root if root.is_dir() else root.parent
    if (folder / "agents" / "__init__.py").exists() or (folder / "agents.py").exists():
        raise UsageError(f"{str(folder)!r} has a module «agents» of its own, so its imports may mean that one.")


def _programs(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(root).parts):
            yield path


def _show(
    changed: Mapping[str, Ported], notes: Mapping[str, Sequence[PortingNote]], unread: dict[str, str], *, written: bool
) -> None:
    for name, each in changed.items():
        before, after = each.before.splitlines(keepends=True), each.after.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(before, after, name, name))
    for name, found in notes.items():
        print(f"\n{name}")
        for note in found:
            print(f"  line {note.line}: {note.text}")
    for name, why in unread.items():
        print(f"\n{name}\n  could not be read: {why}")
    how = "changed" if written else "would change"
    print(f"\n{len(changed)} files {how}, {len(unread)} could not be read.")
    if changed and not written:
        print("«placet port --write PATH» changes them. docs/porting.md says what differs, and why.")

"""`placet port`: a program written for the OpenAI Agents SDK moves in by its imports."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click import UsageError

from placet.cli.exit_codes import FAILED, OK
from placet.cli.options import command, json_option

if TYPE_CHECKING:
    from placet.agents.porting import Ported, PortingNote

_SKIPPED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "site-packages"})


@command("port")
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH", help="a program, or a folder of them")
@click.option("--write", "writes", is_flag=True, help="change the files")
@json_option
def port(path: Path, *, writes: bool, as_json: bool) -> int:
    """Show what would change in programs that are written for the OpenAI Agents SDK.

    «import agents» becomes «import placet.agents as agents», and «from agents …» becomes «from placet.agents …». Below
    the diff stands what it found that is left out or differs. Nothing is written without --write.
    """
    if not path.exists():
        raise UsageError(f"there is no {str(path)!r}: give a program, or a folder of them.")
    _refuse_an_own_package(path)
    found, unread = _ported(_programs(path))
    changed = {name: each for name, each in found.items() if each.is_changed}
    if writes:
        _write(changed)
    notes = {name: each.notes for name, each in found.items() if each.notes and (each.is_changed or _is_ours(each))}
    if as_json:
        listed = {name: [{"line": note.line, "text": note.text} for note in each] for name, each in notes.items()}
        answer = {"changed": sorted(changed), "written": writes, "notes": listed, "unread": unread}
        print(msgspec.json.encode(answer).decode())
    else:
        _show(changed, notes, unread, written=writes)
    return FAILED if unread else OK


def _ported(programs: Iterable[Path]) -> tuple[dict[str, Ported], dict[str, str]]:
    """What becomes of each program, and of those that cannot be read the reason."""
    from placet.agents.porting import port as ported

    found: dict[str, Ported] = {}
    unread: dict[str, str] = {}
    for program in programs:
        try:
            found[str(program)] = ported(_text_of(program), str(program))
        except (SyntaxError, ValueError, OSError) as error:
            unread[str(program)] = str(error)
    return found, unread


def _write(changed: Mapping[str, Ported]) -> None:
    for name, each in changed.items():
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            file.write(each.after)


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

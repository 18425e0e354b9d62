"""The tour names files and functions: they exist, and its drawings are those of the code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache

from placet.core import transitions
from tests.docs.pages import DOCS, ROOT, blocks_of, prose_of

TOUR = DOCS / "tour.md"
SOURCE = ROOT / "src" / "placet"
_PLACE = re.compile(r"`(?P<file>[\w/]+\.py)(?:::(?P<name>[\w.]+))?`")


@cache
def names_in(file: str) -> frozenset[str]:
    """What a file defines at its top, and the members of its classes as Class.member."""
    found: set[str] = set()
    for node in ast.parse((SOURCE / file).read_text("utf-8")).body:
        found.update(_defined(node))
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{name}" for inner in node.body for name in _defined(inner))
    return frozenset(found)


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def is_there(file: str, name: str | None) -> bool:
    return (SOURCE / file).is_file() and (name is None or name in names_in(file))


def test_every_file_and_function_that_the_tour_names_exists() -> None:
    places = [(match["file"], match["name"]) for match in _PLACE.finditer(prose_of(TOUR))]

    assert len(places) > 30
    assert [place for place in places if not is_there(*place)] == []


def test_a_function_that_moved_away_is_found() -> None:
    assert not is_there("runtime/loop.py", "gate_calls")
    assert not is_there("runtime/nowhere.py", None)


def test_the_drawing_of_a_calls_life_is_the_one_in_the_code() -> None:
    drawings = [block.text.rstrip() for block in blocks_of(TOUR) if block.info == "text"]
    lines = inspect.cleandoc(transitions.__doc__ or "").splitlines()
    in_the_code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))

    assert in_the_code in drawings


def test_the_table_of_moves_is_the_one_in_the_code() -> None:
    shown = prose_of(TOUR).partition("| status | moves |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()

    assert shown == [
        f"| {status.value} | " + ", ".join(f"{move.value} → {then.value}" for move, then in moves.items()) + " |"
        for status, moves in transitions.TABLE.items()
        if moves
    ]

"""Finds the promise marks in the sources of the tests: on functions, on classes, and for whole files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def marks_in(path: Path, name: str) -> dict[str, set[str]]:
    """The promises that each test of a file is marked with, by pytest id; unmarked tests have an empty set."""
    tree = ast.parse(path.read_text(), path.name)
    return dict(_tests(tree.body, name, _of_block(tree.body)))


def all_marks(root: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted((root / "tests").rglob("*.py")):
        if "__pycache__" not in path.parts:
            found |= marks_in(path, path.relative_to(root).as_posix())
    return found


def _tests(body: list[ast.stmt], prefix: str, inherited: set[str]) -> Iterator[tuple[str, set[str]]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                yield f"{prefix}::{name}", inherited | _of_decorators(node.decorator_list)
            case ast.ClassDef():
                own = inherited | _of_decorators(node.decorator_list) | _of_block(node.body)
                yield from _tests(node.body, f"{prefix}::{node.name}", own)


def _of_block(body: list[ast.stmt]) -> set[str]:
    """What `pytestmark = …` says for a whole file or class."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            marks = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            found |= _of_decorators(marks)
    return found


def _of_decorators(marks: list[ast.expr]) -> set[str]:
    found: set[str] = set()
    for mark in marks:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
            found |= {ast.literal_eval(argument) for argument in mark.args}
    return found

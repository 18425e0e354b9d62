"""From a program written for the Agents SDK to one on Placet: imports are rewritten, and what differs is listed."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from placet.agents import _left_out

SDK = "agents"
OURS = "placet.agents"
_FROM = re.compile(r"\b(from\s+)agents\b")


@dataclass(frozen=True, slots=True)
class PortingNote:
    """Something in a program that deserves a look."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Ported:
    """A program as it would be, and what was found in it."""

    before: str
    after: str
    notes: tuple[PortingNote, ...]

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


DIFFERS: dict[str, str] = {
    "ShellTool": "asks a person unless needs_approval=False says otherwise",
    "ApplyPatchTool": "asks a person unless needs_approval=False says otherwise",
    "LocalShellTool": "asks a person unless needs_approval=False says otherwise",
    "ComputerTool": "asks a person before it acts",
    "MCPServerStdio": "a tool that require_approval does not name waits, and so does a destructive one",
    "MCPServerStreamableHttp": "a tool that require_approval does not name waits, and so does a destructive one",
    "MCPServerSse": "a tool that require_approval does not name waits, and so does a destructive one",
    "BackendSpanExporter": "traces are not sent to OpenAI: add a processor of your own, or use OpenTelemetry",
    "set_tracing_export_api_key": "traces are not sent to OpenAI, so the key is used for nothing",
}
"""Names that do the same a little differently, and how."""

_PROSE = {
    "raw_item": "isinstance of a raw item: raw items are dicts that can be read as objects; ask for .type",
    "_approvals": "a private field of the SDK: use context.approvals, is_tool_approved or the state",
}


def port(source: str, name: str = "<program>") -> Ported:
    """The program with its imports rewritten, and notes on what differs. Raises SyntaxError for what is no program."""
    tree = ast.parse(source, name)
    lines = source.splitlines(keepends=True)
    notes: list[PortingNote] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_of_sdk(node.module or ""):
            _rewrite(lines, node, _FROM, rf"\1{OURS}")
            notes.extend(_notes_on_names(node))
        elif isinstance(node, ast.Import) and any(_is_of_sdk(each.name) for each in node.names):
            _rewrite_plain(lines, node)
            notes.extend(_notes_on_modules(node))
        else:
            notes.extend(_notes_on(node))
    return Ported(source, "".join(lines), tuple(sorted(set(notes), key=lambda note: (note.line, note.text))))


def _is_of_sdk(module: str) -> bool:
    return module == SDK or module.startswith(f"{SDK}.")


def _rewrite(lines: list[str], node: ast.stmt, pattern: re.Pattern[str], replacement: str) -> None:
    """Only the words of the statement itself change: what else stands on its lines is left alone."""
    at = node.lineno - 1
    start = len(lines[at].encode()[: node.col_offset].decode())
    lines[at] = lines[at][:start] + pattern.sub(replacement, lines[at][start:], count=1)


def _rewrite_plain(lines: list[str], node: ast.Import) -> None:
    """`import agents` keeps its name in the program: `import placet.agents as agents`."""
    at = node.lineno - 1
    names = []
    for each in node.names:
        if not _is_of_sdk(each.name):
            names.append(each.name if each.asname is None else f"{each.name} as {each.asname}")
            continue
        ours = OURS + each.name.removeprefix(SDK)
        if each.asname is not None:
            names.append(f"{ours} as {each.asname}")
        else:
            names.append(f"{OURS} as {SDK}")
            names += [] if ours == OURS else [ours]
    end = node.end_lineno or node.lineno
    start = len(lines[at].encode()[: node.col_offset].decode())
    stop = len(lines[end - 1].encode()[: node.end_col_offset].decode())
    text = f"import {', '.join(dict.fromkeys(names))}"
    lines[at:end] = [lines[at][:start] + text + lines[end - 1][stop:], *[""] * (end - 1 - at)]


def _notes_on_names(node: ast.ImportFrom) -> Iterator[PortingNote]:
    module = (node.module or "").partition(".")[2]
    if any(part.startswith("_") for part in module.split(".") if part) or module.startswith("run_internal"):
        yield PortingNote(node.lineno, f"agents.{module} is private to the SDK: nothing stands for it here")
        return
    left_out = _why_module(module)
    if left_out is not None:
        yield PortingNote(node.lineno, f"agents.{module} is left out: {left_out}")
        return
    for each in node.names:
        yield from _notes_on_name(node.lineno, module, each.name)


def _notes_on_name(line: int, module: str, name: str) -> Iterator[PortingNote]:
    if name in DIFFERS:
        yield PortingNote(line, f"{name}: {DIFFERS[name]}")
    if name == "*":
        return
    why = _left_out.NAMES.get(name) or _why_module(".".join(filter(None, [module, name])))
    if why is not None:
        yield PortingNote(line, f"{name} is left out: {why}")
    elif not _is_there(module, name):
        yield PortingNote(line, f"{name} is not in {'.'.join(filter(None, [OURS, module]))}")


def _why_module(module: str) -> str | None:
    parts = module.split(".")
    ways = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return next((_left_out.MODULES[way] for way in ways if way in _left_out.MODULES), None)


def _is_there(module: str, name: str) -> bool:
    where = ".".join(filter(None, [OURS, module]))
    try:
        return hasattr(importlib.import_module(where), name) or importlib.import_module(f"{where}.{name}") is not None
    except ImportError:
        return False


def _notes_on_modules(node: ast.Import) -> Iterator[PortingNote]:
    for each in node.names:
        left_out = _why_module(each.name.partition(".")[2]) if _is_of_sdk(each.name) else None
        if left_out is not None:
            yield PortingNote(node.lineno, f"{each.name} is left out: {left_out}")


def _notes_on(node: ast.AST) -> Iterator[PortingNote]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args:
        first = node.args[0]
        if isinstance(first, ast.Attribute) and first.attr == "raw_item":
            yield PortingNote(node.lineno, _PROSE["raw_item"])
    elif isinstance(node, ast.Attribute) and node.attr == "_approvals":
        yield PortingNote(node.lineno, _PROSE["_approvals"])
    elif isinstance(node, ast.keyword) and node.arg == "custom_data_extractor":
        yield PortingNote(
            node.value.lineno, f"custom_data_extractor: {_left_out.NAMES['FunctionToolCustomDataExtractor']}"
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"agents\.\w+\.", node.value):
        yield PortingNote(node.lineno, f"the text {node.value!r} names a module of the SDK: is it meant for a mock?")

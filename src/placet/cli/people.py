"""What `placet users`, `tokens` and `grants` share: lists, and scopes as they are written in options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from placet.cli.exit_codes import OK
from placet.cli.tables import Cell, table
from placet.cli.terminal import complain, this_terminal
from placet.facts.codec import JsonObject
from placet.facts.events import Pattern

ROLES = ("guest", "viewer", "reviewer", "admin")
Row = list[Cell | str]


def add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decides",
        action="append",
        metavar="AGENT[:TOOL]",
        help="which calls they may decide, by patterns (repeatable; default: all)",
    )


def scopes_of(texts: Sequence[str] | None) -> list[JsonObject] | None:
    """`Support:refund*` as the API takes it."""
    if texts is None:
        return None
    parts = [text.partition(":") for text in texts]
    return [{"agent": agent or "*", "tool": tool or "*"} for agent, _, tool in parts]


def pattern_of(text: str) -> Pattern:
    """`Support:refund*` as the rules of a store have it."""
    agent, _, tool = text.partition(":")
    return agent or "*", tool or "*"


def scope_text(scopes: object) -> str:
    if not isinstance(scopes, list):
        return ""
    return ", ".join(f"{each['agent']}:{each['tool']}" for each in scopes) or "nothing"


def warn(found: JsonObject) -> None:
    """Say on standard error what the desk wants to be known about what it has done."""
    warnings = found.get("warnings")
    for each in warnings if isinstance(warnings, list) else ():
        complain(str(each))


def show_list(
    options: argparse.Namespace, rows: list[JsonObject], head: list[str], row: Callable[[JsonObject], Row], nothing: str
) -> int:
    if options.json:
        for each in rows:
            print(json.dumps(each))
        return OK
    terminal = this_terminal()
    terminal.print_lines(table(terminal, head, [row(each) for each in rows]) if rows else [nothing])
    return OK

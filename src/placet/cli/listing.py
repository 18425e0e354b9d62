"""What the lists of `pending` and `runs` share: how many, from where on, and saying what was left out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from placet.cli.asking import PAGE, Client, Query
from placet.cli.exit_codes import OK
from placet.cli.number_options import whole_number
from placet.cli.tables import Cell, table
from placet.cli.terminal import Terminal, complain, this_terminal
from placet.facts.codec import JsonObject

IN_A_TERMINAL = 50
"""Rows that somebody looks at. A program gets all: it would not notice that some are missing."""
COUNTED = 1000
"""How far the rest is counted."""
Row = list[Cell | str]


def add_paging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number(1),
        metavar="N",
        help=f"how many at most (default: {IN_A_TERMINAL} in a terminal, otherwise all)",
    )
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--cursor", metavar="CURSOR", help="begin where an earlier list ended")


def show_pages(
    client: Client,
    path: str,
    query: Query,
    options: argparse.Namespace,
    head: list[str],
    row: Callable[[JsonObject, Terminal], Row],
    nothing: str,
) -> int:
    """The list as far as it is wanted; what is left out is counted, and how to get it is said."""
    terminal = this_terminal()
    is_for_people = not (options.json or terminal.is_piped)
    most = None if options.all else options.limit or (IN_A_TERMINAL if is_for_people else None)
    shown: list[JsonObject] = []
    cursor: object = options.cursor
    while most is None or len(shown) < most:
        wanted = PAGE if most is None else min(PAGE, most - len(shown))
        page = client.ask("GET", path, {**query, "cursor": cursor, "limit": wanted})
        if options.json:
            for each in page["data"]:
                print(json.dumps(each))
        shown += page["data"]
        cursor = page["next"]
        if cursor is None:
            break
    if not options.json:
        terminal.print_lines(table(terminal, head, [row(each, terminal) for each in shown]) if shown else [nothing])
    if cursor is not None:
        complain(f"{_rest(client, path, query, cursor)} more: --all shows all, --cursor {cursor} the next ones.")
    return OK


def _rest(client: Client, path: str, query: Query, cursor: object) -> str:
    count = 0
    while cursor is not None:
        if count >= COUNTED:
            return f"more than {count:,}"
        page = client.ask("GET", path, {**query, "cursor": cursor, "limit": PAGE})
        count += len(page["data"])
        cursor = page["next"]
    return f"{count:,}"

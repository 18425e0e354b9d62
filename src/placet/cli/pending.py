"""`placet pending`: what waits for a person, oldest first."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import add_desk, client_of
from placet.cli.listing import Row, add_paging, show_pages
from placet.cli.loading import add_json
from placet.cli.naming import short_name
from placet.cli.story import argument_text
from placet.cli.tables import Cell, ago
from placet.cli.terminal import Terminal
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Lists what waits for a person, oldest first. «placet show NAME» shows all of
one, «placet approve NAME» and its siblings show it and ask before they decide.
A name stands for one request as it was asked, and never for another. Where no
terminal is, the whole ids are listed, and one of them is needed to decide.
"""
WIDEST = 24
"""Columns that a name may take: arguments are what somebody looks for."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--agent", metavar="PATH", help="only calls of this agent")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--run", metavar="RUN", help="only calls of this run")
    add_paging(parser)
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    query = {"status": "pending", "agent": options.agent, "tool": options.tool, "run_id": options.run}
    head = ["request", "agent", "tool", "waits", "deadline", "arguments"]
    with client_of(options) as client:
        return show_pages(client, "/v1/approvals", query, options, head, _row, "Nothing waits.")


def _row(found: JsonObject, terminal: Terminal) -> Row:
    tool, agent = str(found["tool"]), str(found["agent"])
    if not terminal.is_piped:
        tool, agent = terminal.shorten(tool, WIDEST), terminal.shorten(agent, WIDEST)
    arguments = found["arguments"]
    return [
        str(found["id"]) if terminal.is_piped else Cell(short_name(found), "bold"),
        agent,
        Cell(f"{tool} (in doubt)", "red") if found["kind"] == "in_doubt" else Cell(tool, "bold"),
        ago(found["created_at"]),
        ago(found["expires_at"]),
        argument_text(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)),
    ]

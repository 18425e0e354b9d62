"""`placet pending`: what waits for a person, oldest first."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import add_desk, all_pages, client_of
from placet.cli.exit_codes import OK
from placet.cli.loading import add_json
from placet.cli.number_options import whole_number
from placet.cli.story import argument_text
from placet.cli.tables import Cell, ago, table
from placet.cli.terminal import this_terminal
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Lists what waits for a person, oldest first. «placet show ID» shows all of one,
«placet approve ID» and its siblings decide; the end of an id is enough where it
fits only one.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--agent", metavar="PATH", help="only calls of this agent")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--run", metavar="RUN", help="only calls of this run")
    parser.add_argument("--limit", type=whole_number(1), default=50, metavar="N", help="how many at most (default: 50)")
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    query = {"status": "pending", "agent": options.agent, "tool": options.tool, "run_id": options.run}
    with client_of(options) as client:
        found = list(all_pages(client, "/v1/approvals", query, options.limit))
    if options.json:
        for each in found:
            print(json.dumps(each))
        return OK
    terminal = this_terminal()
    if not found:
        terminal.say("Nothing waits.")
        return OK
    head = ["request", "agent", "tool", "waits", "deadline", "arguments"]
    terminal.say_all(table(terminal, head, [_row(each) for each in found]))
    return OK


def _row(found: JsonObject) -> list[Cell | str]:
    tool = str(found["tool"])
    arguments = found["arguments"]
    return [
        str(found["id"]),
        str(found["agent"]),
        Cell(f"{tool} (in doubt)", "red") if found["kind"] == "in_doubt" else Cell(tool, "bold"),
        ago(found["created_at"]),
        ago(found["expires_at"]),
        argument_text(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)),
    ]

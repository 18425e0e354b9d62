"""`placet pending`: what waits for a person, oldest first."""

from __future__ import annotations

import click

from placet.cli.client import client_of, show_pages
from placet.cli.completing import RunId
from placet.cli.naming import run_named, short_name
from placet.cli.options import Paging, Place, command, desk_options, paging_options
from placet.cli.output import Screen
from placet.cli.picture import argument_text
from placet.cli.tables import Row, ago, styled
from placet.facts.codec import JsonObject

WIDEST = 24
"""Columns that a name may take: arguments are what somebody looks for."""


@command("pending")
@click.option("--agent", metavar="PATH", help="only calls of this agent")
@click.option("--tool", metavar="NAME", help="only calls of this tool")
@click.option("--run", "run_id", type=RunId(), metavar="RUN", help="only calls of this run")
@paging_options
@desk_options
def pending(
    place: Place, paging: Paging, agent: str | None, tool: str | None, run_id: str | None, *, as_json: bool
) -> None:
    """List what waits for a person, oldest first.

    «placet show NAME» shows all of one, «placet approve NAME» and its siblings show it and ask before they decide. A
    name stands for one request as it was asked, and never for another. Where no terminal is, the whole ids are listed,
    and one of them is needed to decide.
    """
    head = ["request", "agent", "tool", "waits", "deadline", "arguments"]
    with client_of(place, asks=True) as client:
        run = None if run_id is None else run_named(client, run_id)
        query = {"status": "pending", "agent": agent, "tool": tool, "run_id": run}
        show_pages(client, "/v1/approvals", query, paging, head, _row, "Nothing waits.", as_json=as_json)


def _row(found: JsonObject, screen: Screen) -> Row:
    tool, agent = str(found["tool"]), str(found["agent"])
    if not screen.is_piped:
        tool, agent = screen.shorten(tool, WIDEST), screen.shorten(agent, WIDEST)
    return [
        str(found["id"]) if screen.is_piped else styled(short_name(found), "bold"),
        agent,
        styled(f"{tool} (in doubt)", "red") if found["kind"] == "in_doubt" else styled(tool, "bold"),
        ago(found["created_at"]),
        ago(found["expires_at"]),
        argument_text(found["arguments"]),
    ]

"""`placet run`: start a run of an agent and drive it in this process, until it ends or waits for people."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import msgspec

from placet.cli.deciding import cancel_text
from placet.cli.exit_codes import FAILED, OK, UsageError
from placet.cli.loading import add_json, add_store, agents_of, refuse_if_missing
from placet.cli.terminal import Terminal, complain, read_all, sentence, shown, this_terminal, this_user, way_on
from placet.declare.agent import Agent
from placet.desk import Desk, DeskRequest, DeskRun
from placet.desk.cancelling import cancel_of
from placet.facts.events import CancelAsked
from placet.stores.opening import open_store

DESCRIPTION = """\
Starts a run and drives it here, until it ends or waits for people. What waits
is kept in the store: decide with «placet approve» and its siblings or in the
inbox, and whoever drives the store («placet serve», or this command with
--go-on RUN) goes on.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("agents", metavar="MODULE:NAME", help="where the agents are: an Agent or a list")
    parser.add_argument("input", nargs="?", metavar="INPUT", help="what the agent is asked («-»: standard input)")
    parser.add_argument("--agent", metavar="NAME", help="which of them, if there are several")
    parser.add_argument("--go-on", metavar="RUN", help="drive this run instead of starting one")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if (options.input is None) == (options.go_on is None):
        raise UsageError("give the INPUT of a new run, or --go-on RUN.")
    if options.go_on is not None:
        refuse_if_missing(str(options.store))
    agents = agents_of(options.agents)
    names = [agent.address for agent in agents]
    if options.go_on is None and options.agent is None and len(agents) > 1:
        raise UsageError(f"which agent? --agent with one of {', '.join(names)}.")
    return asyncio.run(_drive(options, agents, options.agent or names[0]))


async def _drive(options: argparse.Namespace, agents: list[Agent[Any]], name: str) -> int:
    async with (
        open_store(str(options.store), create=options.go_on is None) as store,
        Desk(store, agents=agents, run=False) as desk,  # no other run of the store is touched
    ):
        if options.go_on is None:
            text = read_all("the input") if options.input == "-" else options.input
            run_id = (await desk.start(name, text, by=this_user())).id
        else:
            run_id = options.go_on
        found = await desk.get(run_id)
        if found.status != "ended" and desk.agent_at(found.agent) is None:
            raise UsageError(f"run {run_id} is of agent {found.agent!r}, which is not among {options.agents}.")
        await desk.drive(run_id)  # unless somebody else does
        rested = await desk.wait(run_id, until="paused")
        waiting = await desk.pending(run_id=run_id)
        cancel = await cancel_of(desk.store, rested)
    if options.json:
        answer = {"run": rested, "pending": waiting, "cancelled": cancel}
        print(json.dumps(msgspec.to_builtins(answer)))
    else:
        _print_result(rested, waiting, cancel, this_terminal())
    if rested.status != "stopped":
        return OK
    complain(f"an error stopped the run: {sentence(rested.stopped)} {way_on(rested.stopped or '', rested.id)}")
    return FAILED


def _print_result(rested: DeskRun, waiting: list[DeskRequest], cancel: CancelAsked | None, terminal: Terminal) -> None:
    terminal.print_line(f"{terminal.paint(rested.id, 'bold')}  {rested.status}")
    if cancel is not None:
        terminal.print_line(shown(cancel_text(cancel.by, cancel.reason)))
    elif rested.status == "ended":
        terminal.print_line(shown(str(rested.final_output), keep_lines=True))
    for request in waiting:
        terminal.print_line(f"{terminal.glyphs.waits} {shown(request.tool)}  placet show '{request.id}'")

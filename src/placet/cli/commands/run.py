"""`placet run`: start a run of an agent and drive it in this process, until it ends or waits for people."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec
from click import UsageError
from rich.text import Text

from placet.cli.cards import as_object
from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import agents_of, refuse_if_missing
from placet.cli.naming import run_in_store
from placet.cli.options import agents_argument, command, json_option, store_option
from placet.cli.output import Screen, complain, echo_json, read_all, sentence, shown, this_user
from placet.cli.run_sentences import cancelled_by, way_on
from placet.declare.agent import Agent
from placet.desk import Desk, DeskRequest, DeskRun
from placet.desk.cancelling import cancel_of
from placet.facts.events import CancelAsked
from placet.stores.opening import open_store


@command("run")
@agents_argument()
@click.argument("text", metavar="[INPUT]", required=False, help="what the agent is asked («-»: standard input)")
@click.option("--agent", metavar="NAME", help="which of them, if there are several")
@click.option("--go-on", metavar="RUN", help="drive this run instead of starting one")
@store_option
@json_option
def run(agents: str, text: str | None, agent: str | None, go_on: str | None, store: str, *, as_json: bool) -> int:
    """Start a run and drive it here, until it ends or waits for people.

    What waits is kept in the store: decide with «placet approve» and its siblings or in the inbox, and the process that
    drives the store («placet serve», or this command with --go-on RUN) goes on.
    """
    if (text is None) == (go_on is None):
        raise UsageError("give the INPUT of a new run, or --go-on RUN.")
    if go_on is not None:
        refuse_if_missing(store)
    found = agents_of(agents)
    names = [each.address for each in found]
    if go_on is None and agent is None and len(found) > 1:
        raise UsageError(f"which agent? --agent with one of {', '.join(names)}.")
    asked = read_all("the input") if text == "-" else text
    rested, waiting, cancel = asyncio.run(_drive(store, found, agent or names[0], asked, go_on, agents))
    if as_json:
        pending = [as_object(request) for request in waiting]
        echo_json(msgspec.to_builtins({"run": rested, "pending": pending, "cancelled": cancel}))
    else:
        _print_result(rested, waiting, cancel)
    if rested.status != "stopped":
        return OK
    complain(f"an error stopped the run: {sentence(rested.stopped)} {way_on(rested.stopped or '', rested.id)}")
    return FAILED


async def _drive(
    url: str, agents: list[Agent[Any]], name: str, text: str | None, go_on: str | None, place: str
) -> tuple[DeskRun, list[DeskRequest], CancelAsked | None]:
    async with (
        open_store(url, create=go_on is None) as store,
        Desk(store, agents=agents, run=False) as desk,  # no other run of the store is touched
    ):
        if go_on is None:
            run_id = (await desk.start(name, text or "", by=this_user())).id
        else:
            run_id = await run_in_store(store, go_on)
        found = await desk.get(run_id)
        if found.status != "ended" and desk.agent_at(found.agent) is None:
            raise UsageError(f"run {run_id} is of agent {found.agent!r}, which is not among {place}.")
        await desk.drive(run_id)  # unless another process does
        rested = await desk.wait(run_id, until="paused")
        return rested, await desk.pending(run_id=run_id), await cancel_of(desk.store, rested)


def _print_result(rested: DeskRun, waiting: list[DeskRequest], cancel: CancelAsked | None) -> None:
    screen = Screen()
    screen.show(Text.assemble((rested.id, "bold"), f"  {rested.status}"))
    if cancel is not None:
        screen.show(Text(shown(cancelled_by(cancel.by, cancel.reason))))
    elif rested.status == "ended":
        screen.show(Text(shown(str(rested.final_output), keep_lines=True)), soft=screen.is_piped)
    for request in waiting:
        screen.show(Text(f"{screen.signs.waits} {shown(request.tool)}  placet show '{request.id}'"), soft=True)

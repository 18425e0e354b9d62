"""`placet runs`: the runs of a store, newest first; start one, cancel one, have one go on."""

from __future__ import annotations

import time
from typing import get_args

import click
from click import ClickException, UsageError

from placet.cli.client import Client, client_of, part, show_pages
from placet.cli.completing import RunId
from placet.cli.naming import refuse_unconfirmed, run_named
from placet.cli.options import (
    Paging,
    Place,
    actions,
    agents_option,
    desk_options,
    paging_options,
    reason_option,
)
from placet.cli.output import Screen, complain, print_result, read_all, value_text
from placet.cli.run_sentences import cancellation, drivers_of
from placet.cli.tables import Row, ago, styled
from placet.core.index import RunStatus
from placet.facts.codec import JsonObject

_STATUSES: tuple[str, ...] = get_args(RunStatus)
_STYLE = {"waiting": "yellow", "ended": "green", "running": "cyan", "stopped": "red"}
RESTS_WITHIN = 1800.0
run_argument = click.argument("run_id", type=RunId(), metavar="RUN", help="its id, or a beginning or end of it")


@actions("runs")
def runs() -> None:
    """List runs, newest first; start, cancel and resume them."""


@runs.command("list")
@click.option("--status", type=click.Choice(_STATUSES), help="only those")
@click.option("--agent", metavar="NAME", help="only runs of this agent")
@paging_options
@desk_options
def list_runs(place: Place, paging: Paging, status: str | None, agent: str | None, *, as_json: bool) -> None:
    """List runs, newest first. It is what «placet runs» does."""
    query = {"status": status, "agent": agent}
    head = ["run", "status", "agent", "age", "note"]
    with client_of(place) as client:
        show_pages(client, "/v1/runs", query, paging, head, _row, "No runs.", as_json=as_json)


@runs.command("start")
@click.argument("agent", metavar="AGENT", help="which agent")
@click.argument("text", metavar="INPUT", help="what it is asked («-»: standard input)")
@click.option("--wait", "waits", is_flag=True, help="wait until it rests, and show what it says")
@desk_options
@agents_option
def start(place: Place, agent: str, text: str, *, waits: bool, as_json: bool) -> None:
    """Start a run. Straight on a store, --agents says where the code is, and the process that serves the store drives
    it."""
    if not place.desk and place.agents is None:
        raise UsageError("straight on a store, say where the agents' code is: --agents MODULE:NAME.")
    with client_of(place, begins=True) as client:
        body: JsonObject = {"agent": agent, "input": read_all("the input") if text == "-" else text}
        found = client.ask("POST", "/v1/runs", None, body)
        if waits:
            _print_what_is_waited_for(place, str(found["id"]))
            found = _rested(client, str(found["id"]))
    _print_run(found, as_json=as_json)


@runs.command("cancel")
@run_argument
@reason_option
@desk_options
def cancel(place: Place, run_id: str, reason: str | None, *, as_json: bool) -> None:
    """End a run: each open call gets an output, as soon as somebody drives the run.

    A short form of the id is confirmed in a terminal; elsewhere the whole id is needed.
    """
    with client_of(place) as client:
        whole = run_named(client, run_id)
        refuse_unconfirmed(run_id, whole, f"Cancel {whole}?", can_ask=not as_json)
        body: JsonObject = {} if reason is None else {"reason": reason}
        found = client.ask("POST", f"/v1/runs/{part(whole)}/cancel", None, body)
    if as_json or found["status"] == "ended":
        _print_run(found, as_json=as_json)
        return
    print(f"{found['id']}  {found['status']}")
    print("The cancellation is recorded. Somebody drives the run: it ends when the calls that run have ended.")


@runs.command("resume")
@run_argument
@click.option("--own-history", is_flag=True, help="send the run's own history instead of the server's")
@desk_options
def resume(place: Place, run_id: str, *, own_history: bool, as_json: bool) -> None:
    """Have a run go on that was parked, or that an error stopped.

    With --own-history it goes on without what the model's server kept of it, if that is gone.
    """
    with client_of(place) as client:
        body: JsonObject = {"own_history": True} if own_history else {}
        found = client.ask("POST", f"/v1/runs/{part(run_named(client, run_id))}/resume", None, body)
    _print_run(found, as_json=as_json)


# -- what is printed --------------------------------------------------------------------------------------------------


def _row(found: JsonObject, _screen: Screen) -> Row:
    status = str(found["status"])
    return [
        str(found["id"]),
        styled(status, _STYLE.get(status)),
        str(found["agent"]),
        ago(found["created_at"]),
        styled(*_note(found)),
    ]


def _note(found: JsonObject) -> tuple[str, str | None]:
    if found.get("is_parked"):
        return "parked: took too many drivers down; placet runs resume gives it another chance", "red"
    if found.get("stopped"):
        return str(found["stopped"]), "red"
    if found.get("erased_at"):
        return "erased", "dim"
    if found.get("cancelled"):
        return cancellation(found), "yellow"
    if found["status"] == "ended":
        output = found.get("final_output")
        return output if isinstance(output, str) else value_text(output), None
    return (f"started by {found['started_by']}" if found.get("started_by") else ""), None


def _print_what_is_waited_for(place: Place, run_id: str) -> None:
    """On standard error, before the wait: a person who ends it knows which run goes on without them."""
    drivers = "the desk drives it" if place.desk else f"a process that drives the store does: {drivers_of(run_id)}"
    complain(f"{run_id} is started, and is waited for; {drivers}. Ctrl-C ends the waiting, not the run.")


def _rested(client: Client, run_id: str) -> JsonObject:
    """The run when it has ended, or waits for people."""
    give_up = time.monotonic() + RESTS_WITHIN
    while time.monotonic() < give_up:
        found: JsonObject = client.ask("GET", f"/v1/runs/{part(run_id)}")
        if found["status"] != "running" or found["is_parked"]:
            return found
        time.sleep(0.5)
    raise ClickException(f"run {run_id} did not come to rest within half an hour: is anybody driving it?")


def _print_run(found: JsonObject, *, as_json: bool) -> None:
    words = ""
    if found.get("cancelled"):
        words = cancellation(found)
    elif found["status"] == "waiting":
        words = f"It waits for people: placet pending --run {found['id']}"
    elif found.get("final_output") is not None:
        words = str(found["final_output"])
    print_result(found, f"{found['id']}  {found['status']}\n{words}".rstrip(), as_json=as_json)

"""`placet runs`: the runs of a store, newest first; start one, cancel one, have one gone on with."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import get_args

from placet.cli.asking import Client, add_desk, client_of, part
from placet.cli.deciding import cancel_text, drivers_of
from placet.cli.exit_codes import OK, CommandFailed, UsageError
from placet.cli.listing import add_paging, show_pages
from placet.cli.loading import add_json
from placet.cli.tables import Cell, ago
from placet.cli.terminal import Style, complain, read_all, shown
from placet.core.index import RunStatus
from placet.facts.codec import JsonObject

DESCRIPTION = """\
placet runs                    lists runs, newest first
placet runs start AGENT INPUT  starts one («-» reads the input from standard
                               input); straight on a store, --agents says where
                               the code is, and whoever serves it drives it
placet runs cancel RUN         ends one: each open call gets an output, as soon
                               as somebody drives the run
placet runs resume RUN         goes on with one that was parked, or that an
                               error stopped; --own-history: without what the
                               model's server kept of it, if that is gone
"""
_ACTIONS = ("list", "start", "cancel", "resume")
_STATUSES: tuple[str, ...] = get_args(RunStatus)
_STYLE: dict[str, Style] = {"waiting": "yellow", "ended": "green", "running": "cyan", "stopped": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", metavar="|".join(_ACTIONS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="what start, cancel and resume are about")
    parser.add_argument("--status", choices=_STATUSES, metavar="|".join(_STATUSES), help="only those")
    parser.add_argument("--agent", metavar="NAME", help="only runs of this agent")
    add_paging(parser)
    parser.add_argument("--reason", metavar="TEXT", help="for cancel: why, for the record")
    parser.add_argument(
        "--own-history", action="store_true", help="for resume: send the run's own history instead of the server's"
    )
    parser.add_argument("--wait", action="store_true", help="for start: wait until it rests, and show what it says")
    add_desk(parser, with_agents=True)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    at_a_desk = not options.store and (options.desk or os.environ.get("PLACET_DESK"))
    if options.action == "start" and options.agents is None and not at_a_desk:
        raise UsageError("straight on a store, say where the agents' code is: --agents MODULE:NAME.")
    with client_of(options, begins=options.action == "start") as client:
        match options.action, options.words:
            case "list", []:
                return _list(client, options)
            case "start", [agent, text]:
                return _start(client, options, agent, read_all("the input") if text == "-" else text)
            case "cancel", [run_id]:
                body: JsonObject = {} if options.reason is None else {"reason": options.reason}
                return _print_cancelled(options, client.ask("POST", f"/v1/runs/{part(run_id)}/cancel", None, body))
            case "resume", [run_id]:
                body = {"own_history": True} if options.own_history else {}
                return _print_result(options, client.ask("POST", f"/v1/runs/{part(run_id)}/resume", None, body))
            case _:
                raise UsageError("write «placet runs», «runs start AGENT INPUT», «runs cancel RUN», «runs resume RUN».")


def _list(client: Client, options: argparse.Namespace) -> int:
    query = {"status": options.status, "agent": options.agent}
    head = ["run", "status", "agent", "age", "note"]
    return show_pages(client, "/v1/runs", query, options, head, lambda found, _terminal: _row(found), "No runs.")


def _row(found: JsonObject) -> list[Cell | str]:
    status = str(found["status"])
    return [
        str(found["id"]),
        Cell(status, _STYLE.get(status)),
        str(found["agent"]),
        ago(found["created_at"]),
        _note(found),
    ]


def _note(found: JsonObject) -> Cell | str:
    if found.get("is_parked"):
        return Cell("parked: took too many drivers down; placet runs resume gives it another chance", "red")
    if found.get("stopped"):
        return Cell(str(found["stopped"]), "red")
    if found.get("erased_at"):
        return Cell("erased", "dim")
    if found.get("cancelled"):
        return Cell(_cancelled(found), "yellow")
    if found["status"] == "ended":
        output = found.get("final_output")
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return f"started by {found['started_by']}" if found.get("started_by") else ""


def _cancelled(found: JsonObject) -> str:
    """That it was cancelled, by whom and why; and whether that is still to come."""
    asked = found["cancelled"]
    assert isinstance(asked, dict), "the desk tells of it as an object"
    words = cancel_text(asked["by"], asked["reason"])
    return words if found["status"] == "ended" else f"{words}; ends when the calls that run have ended"


def _start(client: Client, options: argparse.Namespace, agent: str, text: str) -> int:
    found = client.ask("POST", "/v1/runs", None, {"agent": agent, "input": text})
    if options.wait:
        _print_who_decides(options, found)
        found = _rested(client, str(found["id"]))
    return _print_result(options, found)


def _print_who_decides(options: argparse.Namespace, found: JsonObject) -> None:
    """On standard error, before the wait: whoever gives it up knows which run goes on without them."""
    drivers = "the desk drives it" if options.desk else f"whoever drives the store does: {drivers_of(str(found['id']))}"
    complain(f"{found['id']} is started, and is waited for; {drivers}. Ctrl-C ends the waiting, not the run.")


def _rested(client: Client, run_id: str) -> JsonObject:
    """The run when it has ended, or waits for people."""
    for _ in range(3600):
        found: JsonObject = client.ask("GET", f"/v1/runs/{part(run_id)}")
        if found["status"] != "running" or found["is_parked"]:
            return found
        time.sleep(0.5)
    raise CommandFailed(f"run {run_id} did not come to rest within half an hour: is anybody driving it?")


def _print_cancelled(options: argparse.Namespace, found: JsonObject) -> int:
    """A run ends where it is cancelled, unless somebody drives it at that moment: then its driver ends it."""
    if options.json or found["status"] == "ended":
        return _print_result(options, found)
    print(f"{found['id']}  {found['status']}")
    print("The cancellation is recorded. Somebody drives the run: it ends when the calls that run have ended.")
    return OK


def _print_result(options: argparse.Namespace, found: JsonObject) -> int:
    if options.json:
        print(json.dumps(found))
        return OK
    print(f"{found['id']}  {found['status']}")
    if found["status"] == "waiting" and not found.get("cancelled"):
        print(f"It waits for people: placet pending --run {found['id']}")
    elif found.get("cancelled"):
        print(_cancelled(found))
    elif found.get("final_output") is not None:
        print(shown(str(found["final_output"]), keep_lines=True))
    return OK

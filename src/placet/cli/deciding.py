"""What `approve`, `reject`, `edit`, `respond` and `revoke` share: which requests, and saying the word about each."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from placet.cli.asking import Client, DeskRefused, add_desk, all_pages, client_of, part
from placet.cli.cards import two_columns, value_text
from placet.cli.exit_codes import FAILED, OK, CommandFailed, UsageError
from placet.cli.loading import add_json
from placet.cli.naming import Found, is_whole_id, request_named
from placet.cli.people import warn
from placet.cli.show import request_lines
from placet.cli.terminal import Terminal, ask, complain, is_interactive, sentence, shown, this_terminal
from placet.facts.codec import JsonObject

_DONE = {"approve": "approved", "reject": "rejected", "edit": "approved with other arguments", "respond": "answered"}
YES = ("y", "yes")
MAX_LISTED = 20
TAKEN_WITHIN = 1.5
"""Seconds within which somebody who drives a store takes what was decided."""


def cancel_text(by: object, reason: object) -> str:
    """That a run was cancelled, by whom and why."""
    return f"cancelled by {by or 'somebody'}" + (f": {reason}" if reason else "")


def drivers_of(run_id: str) -> str:
    """Who could have a run go on, and how."""
    return f"«placet serve MODULE:NAME», a worker, or «placet run MODULE:NAME --go-on {run_id}»"


def add_request(parser: argparse.ArgumentParser, *, several: bool) -> None:
    words = "of a request; in a terminal a short name does too, after its card was shown and confirmed"
    parser.add_argument("ids", nargs="+" if several else 1, metavar="ID", help=words)
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record")
    add_digest(parser)
    add_desk(parser, with_agents=True)
    add_json(parser)


def add_digest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--digest", metavar="DIGEST", help="decide only about what had this digest when it was shown")


def add_always(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--always",
        nargs="?",
        const="run",
        type=_scope,
        metavar="run|agent",
        help="also for later calls of this tool by this agent: in this run, or («agent») in all its runs",
    )


def _scope(text: str) -> str:
    if text not in ("run", "agent"):
        words = f"{text!r} is no scope: write --always, --always=run or --always=agent behind the ids"
        raise argparse.ArgumentTypeError(words)
    return text


# -- which request, and whether it is meant ---------------------------------------------------------------------------


def can_ask(options: argparse.Namespace) -> bool:
    """Whether somebody is there who can look at a card and confirm it; a program that reads JSON is nobody."""
    return is_interactive() and not options.json


def refuse_uncertain_names(options: argparse.Namespace) -> None:
    """Before anything is done: where nobody can be asked, a short name could mean what came after somebody looked."""
    uncertain = [name for name in options.ids if not is_whole_id(name)]
    if uncertain and options.digest is None and not can_ask(options):
        words = f"{uncertain[0]!r} is a short name, and nobody is here to confirm what it means"
        raise UsageError(f"{words}: write the whole id («placet pending --json» lists them), or add --digest.")


def is_meant(options: argparse.Namespace, found: Found, question: str) -> bool:
    """Whether the request is the one that was meant: certainly, or because somebody has seen its card and says so."""
    if found.is_certain:
        return True
    if not can_ask(options):
        request = found.request
        words = f"is a short name that means {request['id']} at this moment: write the whole id, or add --digest"
        raise CommandFailed(f"{words}.")
    terminal = this_terminal()
    terminal.print_lines(request_lines(found.request, terminal))
    return (ask(f"{question} [y/N]") or "").strip().lower() in YES


# -- saying it --------------------------------------------------------------------------------------------------------


def send_decisions(options: argparse.Namespace, decision_for: Callable[[JsonObject], JsonObject], question: str) -> int:
    """Say the word about each request; one that is refused does not keep the others from being decided."""
    refuse_uncertain_names(options)
    with client_of(options) as client:
        runs = [_send_one(client, options, name, decision_for, question) for name in options.ids]
        for run_id in dict.fromkeys(filter(None, runs)):
            _warn_if_not_driven(client, run_id)
    return OK if all(runs) else FAILED


def _send_one(
    client: Client,
    options: argparse.Namespace,
    name: str,
    decision_for: Callable[[JsonObject], JsonObject],
    question: str,
) -> str | None:
    """The run in which it was decided; None: it was not."""
    try:
        named = request_named(client, name, options.digest)
        if not is_meant(options, named, question):
            failed(options, name, "nothing was decided.")
            return None
    except DeskRefused:
        raise
    except CommandFailed as error:
        failed(options, name, str(error))
        return None
    request = named.request
    decision = {**decision_for(request), **_common(options, request)}
    if "always" in decision and not _stands_for_more(client, options, request):
        failed(options, str(request["id"]), "nothing was decided.")
        return None
    try:
        found: JsonObject = client.ask("POST", f"/v1/approvals/{part(str(request['id']))}/decisions", None, decision)
    except DeskRefused as error:
        failed(options, str(request["id"]), str(error), error.problem)
        return None
    warn(found)
    if options.json:
        print(json.dumps(found))
    else:
        terminal = this_terminal()
        terminal.print_lines(decided_lines(found, decision, terminal))
    return str(found["run_id"])


def _warn_if_not_driven(client: Client, run_id: str) -> None:
    """A decision takes effect when somebody drives the run: where nobody comes, it must not look done."""
    give_up = time.monotonic() + TAKEN_WITHIN
    while True:
        numbers = client.ask("GET", "/v1/numbers")["store"]
        if not numbers["due"] or numbers["driven"]:
            return
        if time.monotonic() > give_up:
            break
        time.sleep(0.1)
    held = client.ask("GET", f"/v1/runs/{part(run_id)}")["held"]
    if held:
        complain(f"{run_id} is held back: {sentence(held)} It goes on when the hold is lifted.")
    else:
        complain(f"recorded, but nobody seems to drive the runs of this store: {drivers_of(run_id)} would.")


def _common(options: argparse.Namespace, request: JsonObject) -> JsonObject:
    found: JsonObject = {"digest": options.digest or request["digest"]}  # what was just looked at is what is meant
    if options.reason is not None:
        found["reason"] = options.reason
    if getattr(options, "always", None):
        found["always"] = {"scope": options.always}
    return found


def _stands_for_more(client: Client, options: argparse.Namespace, request: JsonObject) -> bool:
    """Say, before anything is decided, what waits already and would be decided with it; whether that is meant. In a
    terminal somebody is asked; where nobody is, the one who wrote --always has said so."""
    also = _decided_besides(client, request, in_all_runs=options.always == "agent")
    if not also:
        return True
    where = "in all runs of this agent" if options.always == "agent" else "in this run"
    count = f"{len(also)} more call{'' if len(also) == 1 else 's'}"
    complain(f"it would stand for {count} that wait {where}, and decide them too: {_listed(also)}.")
    if not can_ask(options):
        return True
    return (ask(f"Decide {len(also) + 1} calls? [y/N]") or "").strip().lower() in YES


def _decided_besides(client: Client, request: JsonObject, *, in_all_runs: bool) -> list[str]:
    """What waits already and a standing decision about this request would decide with it."""
    query = {"status": "pending", "agent": request["agent"], "tool": request["tool"]}
    if not in_all_runs:
        query["run_id"] = request["run_id"]
    rows = all_pages(client, "/v1/approvals", query, None)
    return [str(row["id"]) for row in rows if row["id"] != request["id"] and row["kind"] == "approval"]


def _listed(ids: list[str]) -> str:
    more = len(ids) - MAX_LISTED
    return ", ".join(ids[:MAX_LISTED]) + (f" and {more} others" if more > 0 else "")


def decided_lines(found: JsonObject, decision: JsonObject, terminal: Terminal) -> list[str]:
    """What was decided, whole: the tool, the arguments that run, whose call it is, and who decided."""
    verdict = str(decision["decision"])
    rows = [*_arguments(found, decision), *_answer_rows(decision)]
    rows += [("agent", shown(str(found["agent"]))), ("run", str(found["run_id"])), ("request", str(found["id"]))]
    rows += [("by", shown(str(found.get("decided_by") or "somebody")))]
    width = 10_000 if terminal.is_piped else terminal.width - 2
    lines = [painted.rstrip() for _, painted in two_columns(rows, width, terminal, "dim")]
    return [f"{_DONE[verdict]}: {shown(str(found['tool']))}  {found['id']}", *(f"  {line}" for line in lines)]


def _arguments(found: JsonObject, decision: JsonObject) -> list[tuple[str, str]]:
    arguments = decision["arguments"] if decision["decision"] == "edit" else found["arguments"]
    if not isinstance(arguments, dict):
        return [("arguments", shown(str(arguments)))]
    return [(shown(name), value_text(value)) for name, value in arguments.items()] or [("no arguments", "")]


def _answer_rows(decision: JsonObject) -> list[tuple[str, str]]:
    rows_given = [
        ("the model reads", decision.get("message")),
        ("answer", decision.get("output")),
        ("reason", decision.get("reason")),
    ]
    return [
        (name, shown(value) if isinstance(value, str) else value_text(value)) for name, value in rows_given if value
    ]


def failed(options: argparse.Namespace, name: str, words: str, problem: JsonObject | None = None) -> None:
    """Say why nothing was done about this one."""
    if options.json:
        print(json.dumps({"id": name, "problem": problem or {"detail": words}}))
    complain(f"{name}: {words}")

"""What `approve`, `reject`, `edit` and `respond` share: which requests, and sending the word."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from placet.cli.asking import Client, Refused, add_desk, client_of, part
from placet.cli.exit_codes import FAILED, OK, CommandFailed
from placet.cli.loading import add_json
from placet.cli.naming import request_named
from placet.cli.people import warn
from placet.cli.terminal import complain, shown
from placet.facts.codec import JsonObject

_DONE = {"approve": "approved", "reject": "rejected", "edit": "approved with other arguments", "respond": "answered"}


def cancel_words(by: object, reason: object) -> str:
    """That a run was cancelled, by whom and why."""
    return f"cancelled by {by or 'somebody'}" + (f": {reason}" if reason else "")


def add_request(parser: argparse.ArgumentParser, *, several: bool) -> None:
    words = "of a request; its end is enough where it fits only one"
    parser.add_argument("ids", nargs="+" if several else 1, metavar="ID", help=words)
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record")
    parser.add_argument("--digest", metavar="DIGEST", help="decide only about what had this digest when it was shown")
    add_desk(parser, with_agents=True)
    add_json(parser)


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


def say(options: argparse.Namespace, word_for: Callable[[JsonObject], JsonObject]) -> int:
    """Say the word about each request; one that is refused does not keep the others from being decided."""
    failed = 0
    with client_of(options) as client:
        for name in options.ids:
            failed += not _say_one(client, options, name, word_for)
    return FAILED if failed else OK


def _say_one(
    client: Client, options: argparse.Namespace, name: str, word_for: Callable[[JsonObject], JsonObject]
) -> bool:
    try:
        request = request_named(client, name)
    except Refused:
        raise
    except CommandFailed as error:
        return _failed(options, name, {"detail": str(error)}, str(error))
    common: JsonObject = {"digest": options.digest or request["digest"]}  # what was just looked up is what is meant
    if options.reason is not None:
        common["reason"] = options.reason
    if getattr(options, "always", None):
        common["always"] = {"scope": options.always}
    word = {**word_for(request), **common}
    path = f"/v1/approvals/{part(str(request['id']))}/decisions"
    try:
        found: JsonObject = client.ask("POST", path, None, word)
    except Refused as error:
        return _failed(options, str(request["id"]), error.problem, f"{request['id']}: {error}")
    warn(found)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{_DONE[str(word['decision'])]}: {shown(str(found['tool']))}  {found['id']}")
    return True


def _failed(options: argparse.Namespace, name: str, problem: JsonObject, words: str) -> bool:
    if options.json:
        print(json.dumps({"id": name, "problem": problem}))
    complain(words)
    return False

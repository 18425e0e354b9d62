"""`placet revoke ID …`: take an approval back, until its call begins."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import Client, DeskRefused, add_desk, client_of, part
from placet.cli.deciding import add_digest, failed, is_meant, refuse_uncertain_names
from placet.cli.exit_codes import FAILED, OK, CommandFailed
from placet.cli.loading import add_json
from placet.cli.naming import decided_request_named
from placet.cli.story import argument_text
from placet.cli.terminal import shown
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Takes an approval back, until its call begins: the call is asked about anew,
and no standing decision decides it. A call that has begun goes on: what has
happened has happened.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    words = "of a request that was approved; in a terminal a short name does too, after its card was confirmed"
    parser.add_argument("ids", nargs="+", metavar="ID", help=words)
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record: who is asked anew reads it")
    add_digest(parser)
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Each on its own: one that cannot be taken back does not keep the others."""
    refuse_uncertain_names(options)
    count = 0
    with client_of(options) as client:
        for name in options.ids:
            count += not _revoke(client, options, name)
    return FAILED if count else OK


def _revoke(client: Client, options: argparse.Namespace, name: str) -> bool:
    why: JsonObject = {} if options.reason is None else {"reason": options.reason}
    try:
        named = decided_request_named(client, name, options.digest)
        request = named.request
        if options.digest not in (None, request["digest"]):
            failed(options, name, "what was approved is something else than what was shown: look again.")
            return False
        if not is_meant(options, named, "Take this approval back?"):
            failed(options, name, "nothing was taken back.")
            return False
        asked = client.ask("POST", f"/v1/approvals/{part(str(request['id']))}/revocation", None, why)
    except CommandFailed as error:
        failed(options, name, str(error), error.problem if isinstance(error, DeskRefused) else None)
        return False
    if options.json:
        print(json.dumps(asked))
        return True
    given = asked["arguments"]
    arguments = argument_text(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
    print(f"taken back: {shown(str(asked['tool']))} {arguments}  {request['id']}\nasked anew: {asked['id']}")
    return True

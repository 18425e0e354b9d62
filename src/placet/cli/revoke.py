"""`placet revoke ID …`: take an approval back, until its call begins."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import Client, Refused, add_desk, client_of, part
from placet.cli.exit_codes import FAILED, OK, CommandFailed
from placet.cli.loading import add_json
from placet.cli.naming import decided_request_named
from placet.cli.terminal import complain, shown
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Takes an approval back, until its call begins: the call is asked about anew,
and no standing decision decides it. A call that has begun goes on: what has
happened has happened.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    words = "of a request that was approved; its end is enough where it fits only one in a run that goes on"
    parser.add_argument("ids", nargs="+", metavar="ID", help=words)
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record: who is asked anew reads it")
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Each on its own: one that cannot be taken back does not keep the others."""
    failed = 0
    with client_of(options) as client:
        for name in options.ids:
            failed += not _revoke(client, options, name)
    return FAILED if failed else OK


def _revoke(client: Client, options: argparse.Namespace, name: str) -> bool:
    why: JsonObject = {} if options.reason is None else {"reason": options.reason}
    try:
        request = decided_request_named(client, name)
        asked = client.ask("POST", f"/v1/approvals/{part(str(request['id']))}/revocation", None, why)
    except CommandFailed as error:
        if options.json:
            problem = error.problem if isinstance(error, Refused) else {"detail": str(error)}
            print(json.dumps({"id": name, "problem": problem}))
        complain(f"{name}: {error}")
        return False
    if options.json:
        print(json.dumps(asked))
    else:
        print(f"taken back: {shown(str(asked['tool']))}  {request['id']}\nasked anew: {asked['id']}")
    return True

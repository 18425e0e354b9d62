"""`placet reject ID …`: say no; the call never runs."""

from __future__ import annotations

import argparse

from placet.cli.deciding import add_always, add_request, send_decisions
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Rejects requests: the calls never run, and the model reads the message. Of a
call that is in doubt it means: give it up.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--message", metavar="TEXT", help="what the model reads")
    add_request(parser, several=True)
    add_always(parser)


def run(options: argparse.Namespace) -> int:
    decision: JsonObject = {"decision": "reject"}
    if options.message is not None:
        decision["message"] = options.message
    return send_decisions(options, lambda _request: decision, "Reject this?")

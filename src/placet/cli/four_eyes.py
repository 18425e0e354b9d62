"""`placet four-eyes`: where whoever started a run may not approve its calls."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import add_desk, client_of
from placet.cli.exit_codes import OK, UsageError
from placet.cli.loading import add_json
from placet.cli.people import scope_text, scopes_of
from placet.facts.codec import JsonObject

DESCRIPTION = """\
placet four-eyes                        says where four eyes are demanded
placet four-eyes set AGENT[:TOOL] …     demands them there and nowhere else
placet four-eyes off                    demands them nowhere

It is a setting of the store: every desk, worker and command on it obeys it at
once, also for what was approved and has not begun. Changes are recorded; at a
desk they take an admin.
"""
_ACTIONS = ("show", "set", "off")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="show", metavar="|".join(_ACTIONS))
    parser.add_argument("patterns", nargs="*", metavar="AGENT[:TOOL]", help="for set: where, by patterns with * and ?")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record")
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if bool(options.patterns) != (options.action == "set"):
        words = "«set» takes patterns, as in «placet four-eyes set 'Payroll*' Support:refund»; nothing else does."
        raise UsageError(words)
    with client_of(options, begins=options.action == "set") as client:
        if options.action == "show":
            return _print_result(options, client.ask("GET", "/v1/four-eyes"))
        body: JsonObject = {"patterns": scopes_of(options.patterns) or []}
        if options.reason is not None:
            body["reason"] = options.reason
        return _print_result(options, client.ask("PUT", "/v1/four-eyes", None, body))


def _print_result(options: argparse.Namespace, found: JsonObject) -> int:
    where = scope_text(found["patterns"]) if found["patterns"] else "nowhere"
    print(json.dumps(found) if options.json else f"Four eyes are demanded: {where}.")
    return OK

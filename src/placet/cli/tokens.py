"""`placet tokens`: keys for programs that use a desk."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import add_desk, all_pages, client_of, part
from placet.cli.exit_codes import OK, UsageError
from placet.cli.loading import add_json
from placet.cli.number_options import number_above
from placet.cli.people import ROLES, Row, add_scope, scope_text, scopes_of, show_list
from placet.cli.tables import ago
from placet.facts.codec import JsonObject

DESCRIPTION = """\
placet tokens                       lists tokens
placet tokens add NAME --owner WHO  makes one and prints it, this once
placet tokens revoke ID             the next request that shows it is refused
"""
_ACTIONS = ("list", "add", "revoke")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", metavar="|".join(_ACTIONS))
    parser.add_argument("name", nargs="?", metavar="NAME|ID", help="what the action is about")
    parser.add_argument("--owner", metavar="USER", help="whose it is: decisions made with it are theirs")
    parser.add_argument("--role", choices=ROLES, help="at most the owner's (default: the owner's)")
    parser.add_argument("--days", type=number_above(0, "days"), metavar="N", help="not valid after so many days")
    add_scope(parser)
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if (options.name is None) != (options.action == "list"):
        raise UsageError("«placet tokens» lists; add takes a NAME, and revoke the ID of a token.")
    with client_of(options) as client:
        if options.action == "list":
            rows = list(all_pages(client, "/v1/tokens", {"owner": options.owner}, None))
            head = ["token", "name", "owner", "role", "used", "expires", "decides"]
            return show_list(options, rows, head, _row, "No tokens.")
        if options.action == "revoke":
            client.ask("DELETE", f"/v1/tokens/{part(options.name)}")
            print(json.dumps({"id": options.name}) if options.json else f"Token {options.name} is revoked.")
            return OK
        return _add(client.ask("POST", "/v1/tokens", None, _new(options)), options)


def _new(options: argparse.Namespace) -> JsonObject:
    if options.owner is None and not options.desk:
        raise UsageError("straight on a store there is nobody logged in to the desk: say whose it is with --owner.")
    given = {"owner": options.owner, "role": options.role, "days": options.days, "decides": scopes_of(options.decides)}
    return {"name": options.name, **{name: value for name, value in given.items() if value is not None}}


def _add(found: JsonObject, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(found))
        return OK
    print(f"{found['token']}")
    print("It is shown this once. Keep it where programs find it, as in PLACET_TOKEN.")
    return OK


def _row(found: JsonObject) -> Row:
    used = ago(found["last_used_at"])
    words = (
        found["id"],
        found["name"],
        found["owner"],
        found["role"],
        used and f"{used} ago",
        ago(found["expires_at"]),
    )
    return [*(str(each) for each in words), scope_text(found["decides"])]

"""`placet users`: who may use a desk, and what they may decide."""

from __future__ import annotations

import argparse
import json

from placet.cli.asking import add_desk, all_pages, client_of, part
from placet.cli.exit_codes import OK, UsageError
from placet.cli.loading import add_json
from placet.cli.people import ROLES, Row, add_scope, scope_text, scopes_of, show_list, warn
from placet.cli.tables import Cell, ago
from placet.facts.codec import JsonObject

DESCRIPTION = """\
placet users                lists who may use the desk
placet users add NAME       adds somebody and prints a link that works once,
                            with which they set a password
placet users change NAME    changes role, what they may decide, or (--off, --on)
                            whether they may use it at all; it holds at once
placet users invite NAME    prints a new link; an older one of theirs is void
placet users links          lists the links that can still be followed
placet users unlink ID      revokes such a link
placet users remove NAME    removes them, with all sessions, tokens and links
"""
_ACTIONS = ("list", "add", "change", "invite", "links", "unlink", "remove")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", metavar="ACTION", help="one of these")
    parser.add_argument("name", nargs="?", metavar="NAME|ID", help="whom the action is about")
    parser.add_argument("--role", choices=ROLES, help="what they may do (default: reviewer)")
    switch = parser.add_mutually_exclusive_group()
    switch.add_argument("--off", action="store_true", help="for change: they may not use it any more")
    switch.add_argument("--on", action="store_true", help="for change: they may again")
    add_scope(parser)
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if (options.name is None) != (options.action in ("list", "links")):
        raise UsageError("«placet users» and «placet users links» list; every other action is about a NAME, or an ID.")
    with client_of(options, begins=options.action == "add") as client:
        match options.action:
            case "list":
                rows = list(all_pages(client, "/v1/users", {}, None))
                return show_list(options, rows, ["user", "role", "since", "decides"], _row, "There is nobody yet.")
            case "add":
                body: JsonObject = {"name": options.name, "role": options.role or "reviewer"}
                scopes = scopes_of(options.decides)
                return _print_link(options, client.ask("POST", "/v1/users", None, body | _given(decides=scopes)))
            case "invite":
                return _print_link(options, client.ask("POST", f"/v1/users/{part(options.name)}/invitation", None, {}))
            case "links":
                links = client.ask("GET", "/v1/invitations")["data"]
                return show_list(options, links, ["link", "for", "role", "made by", "made"], _link, "No links.")
            case "unlink":
                client.ask("DELETE", f"/v1/invitations/{part(options.name)}")
                print(json.dumps({"id": options.name}) if options.json else f"Link {options.name} is revoked.")
            case "change":
                active = True if options.on else False if options.off else None
                change = _given(role=options.role, decides=scopes_of(options.decides), is_active=active)
                found = client.ask("PATCH", f"/v1/users/{part(options.name)}", None, change)
                print(json.dumps(found) if options.json else f"{found['name']} is {_role_text(found['role'])}.")
            case _:
                client.ask("DELETE", f"/v1/users/{part(options.name)}")
                print(json.dumps({"name": options.name}) if options.json else f"{options.name} is removed.")
    return OK


def _role_text(role: object) -> str:
    return f"an {role}" if role == "admin" else f"a {role}"


def _given(**values: object) -> JsonObject:
    return json.loads(json.dumps({name: value for name, value in values.items() if value is not None}))  # type: ignore[no-any-return]


def _print_link(options: argparse.Namespace, found: JsonObject) -> int:
    warn(found)
    if not options.desk:  # a store does not know under which address a desk is reached
        _, path, key = str(found["link"]).partition("/invitation")
        found = {**found, "link": path + key}
    if options.json:
        print(json.dumps(found))
        return OK
    user = found["user"]
    assert isinstance(user, dict)
    print(f"{user['name']} is {_role_text(user['role'])}. This link works once, and sets their password:")
    print(f"\n  {found['link']}\n")
    if not options.desk:
        print("It stands behind the address of the desk.")
    return OK


def _link(found: JsonObject) -> Row:
    whose = str(found["name"] or "the first admin")
    return [str(found["id"]), whose, str(found["role"]), str(found["by"] or ""), ago(found["created_at"])]


def _row(found: JsonObject) -> Row:
    state = "" if found["is_active"] else " (off)"
    role = str(found["role"])
    styled = Cell(role + state, "cyan" if role == "admin" else None)
    return [str(found["name"]), styled, ago(found["created_at"]), scope_text(found["decides"])]

"""`placet grants` and what operators hold: standing decisions, and what must not start."""

from __future__ import annotations

import argparse
import json
import re
from datetime import UTC, datetime, timedelta

from placet.cli.asking import Client, add_desk, all_pages, client_of, part
from placet.cli.exit_codes import OK, UsageError
from placet.cli.loading import add_json
from placet.cli.number_options import whole_number
from placet.cli.people import Row, show_list, warn
from placet.cli.tables import Cell, ago
from placet.facts.codec import JsonObject

DESCRIPTION = """\
placet grants                 lists standing decisions
placet grants add AGENT TOOL  makes one: calls of this tool by this agent are
                              approved (with --reject: rejected) from now on;
                              where two contradict each other, the newer wins
placet grants revoke ID       takes one back; calls that have not begun are
                              asked about
placet grants holds           lists what operators hold back
placet grants hold KIND NAME  holds a run, an agent or a tool: nothing that it
                              covers starts, approved or not
placet grants lift KIND NAME  lifts a hold
"""
_SPAN = re.compile(r"(\d{1,6})\s*(min|h|d)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_KINDS = ("agent", "run", "tool")
_ACTIONS = ("list", "add", "revoke", "holds", "hold", "lift")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", metavar="|".join(_ACTIONS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="what the action is about")
    parser.add_argument("--reject", action="store_true", help="for add: a standing no")
    parser.add_argument("--arguments", metavar="JSON", help="for add: only calls with exactly these values")
    parser.add_argument("--uses", type=whole_number(1), metavar="N", help="for add: so many times")
    parser.add_argument("--until", metavar="TIME", help="for add: until then, as in 8h, 7d or 2030-01-31T18:00Z")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the record")
    add_desk(parser, with_agents=True)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    with client_of(options, begins=options.action in ("add", "hold")) as client:
        match options.action, options.words:
            case "list", []:
                return _list_grants(client, options)
            case "add", [agent, tool]:
                made = client.ask("POST", "/v1/grants", None, _grant(options, agent, tool))
                warn(made)
                return _print_result(options, made, "made")
            case "revoke", [grant_id]:
                client.ask("DELETE", f"/v1/grants/{part(grant_id)}")
                return _print_result(options, {"id": grant_id}, "revoked")
            case "holds", []:
                return _list_holds(client, options)
            case "hold" | "lift", [kind, _] if kind not in _KINDS:
                raise UsageError(f"nothing of kind {kind!r} can be held: it is one of {', '.join(_KINDS)}.")
            case "hold", [kind, name]:
                body = {"kind": kind, "name": name} | ({} if options.reason is None else {"reason": options.reason})
                warn(client.ask("POST", "/v1/holds", None, body))
                return _print_result(options, {"kind": kind, "name": name}, "held")
            case "lift", [kind, name]:
                client.ask("DELETE", "/v1/holds", {"kind": kind, "name": name})
                return _print_result(options, {"kind": kind, "name": name}, "lifted")
            case _:
                raise UsageError("«placet grants --help» says which words each action takes.")


def _grant(options: argparse.Namespace, agent: str, tool: str) -> JsonObject:
    found: JsonObject = {"agent": agent, "tool": tool, "decision": "reject" if options.reject else "approve"}
    if options.arguments is not None:
        try:
            found["arguments"] = json.loads(options.arguments)
        except ValueError as error:
            raise UsageError(f"--arguments is not JSON: {error}.") from error
    until = None if options.until is None else _time_of(options.until)
    given = {"uses": options.uses, "until": until, "reason": options.reason}
    return {**found, **{name: value for name, value in given.items() if value is not None}}


def _time_of(text: str, now: datetime | None = None) -> str:
    """A moment as the API takes it: written whole, or as a span from now on."""
    span = _SPAN.fullmatch(text.strip())
    try:
        if span is not None:
            return ((now or datetime.now(UTC)) + int(span[1]) * _UNITS[span[2]]).isoformat(timespec="seconds")
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"--until {text!r}: write a span like 30min, 8h or 7d, or a moment like 2030-01-31T18:00:00Z.")
    return found.isoformat()


def _list_grants(client: Client, options: argparse.Namespace) -> int:
    head = ["grant", "decision", "agent", "tool", "by", "age", "bounds"]
    rows = list(all_pages(client, "/v1/grants", {}, None))
    return show_list(options, rows, head, _grant_row, "No standing decisions.")


def _grant_row(found: JsonObject) -> Row:
    bounds = [
        f"only {json.dumps(found['arguments'])}" if found.get("arguments") else "",
        f"{found['uses']} uses" if found.get("uses") else "",
        _end(found["until"]) if found.get("until") else "",
    ]
    verdict = str(found["decision"])
    tool = str(found["tool"]).rpartition(":")[2]
    words = ", ".join(filter(None, bounds)) or "any arguments, no end"
    styled = Cell(verdict, "green" if verdict == "approve" else "red")
    return [str(found["id"]), styled, str(found["agent"]), tool, str(found["by"] or ""), ago(found["at"]), words]


def _end(until: object) -> str:
    when = ago(until)
    return f"ends {when}" if when.startswith("in ") else f"over for {when}"


def _list_holds(client: Client, options: argparse.Namespace) -> int:
    rows = list(all_pages(client, "/v1/holds", {}, None))
    return show_list(options, rows, ["held", "name", "by", "since", "reason"], _hold_row, "Nothing is held.")


def _hold_row(found: JsonObject) -> Row:
    words = (found["kind"], found["name"], found["by"] or "", ago(found["at"]), found["reason"] or "")
    return [str(each) for each in words]


def _print_result(options: argparse.Namespace, found: JsonObject, done: str) -> int:
    about = found.get("id") or f"{found.get('kind')} {found.get('name')}"
    print(json.dumps(found) if options.json else f"{done}: {about}")
    return OK

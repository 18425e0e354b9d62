"""`placet grants`: standing decisions, and what operators hold back."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import click
from click import UsageError

from placet.cli.client import all_pages, client_of, part, show_rows, warn
from placet.cli.grant_terms import bars, confirm_option, confirmed, read_json
from placet.cli.naming import listed_id, run_named
from placet.cli.options import Place, actions, agents_option, desk_options, reason_option
from placet.cli.output import Screen, is_interactive, print_result
from placet.cli.tables import Row, ago, styled
from placet.facts.codec import JsonObject

_SPAN = re.compile(r"(\d{1,6})\s*(min|h|d)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_KINDS = ("agent", "run", "tool")


@actions("grants")
def grants() -> None:
    """List and make standing decisions, and hold back what must not start."""


@grants.command("list")
@desk_options
def list_grants(place: Place, *, as_json: bool) -> None:
    """List standing decisions. It is what «placet grants» does."""
    head = ["grant", "decision", "agent", "tool", "by", "age", "bounds", "left"]
    with client_of(place) as client:
        rows = list(all_pages(client, "/v1/grants", {}))
    show_rows(rows, head, _grant_row, "No standing decisions.", as_json=as_json)


@grants.command("add")
@click.argument("agent", metavar="AGENT", help="whose calls")
@click.argument("tool", metavar="TOOL", help="of which tool")
@click.option("--reject", "is_no", is_flag=True, help="a standing no")
@click.option("--arguments", metavar="JSON", help="only calls with exactly these values")
@click.option("--match", "matching", metavar="JSON", help='what arguments have to be: {"cents": {"max": 5000}}')
@click.option("--budget", metavar="JSON", help='how much: {"sum": "cents", "most": 50000, "every": "day"}')
@click.option("--uses", type=click.IntRange(min=1), metavar="N", help="so many times")
@click.option("--until", metavar="TIME", help="until then, as in 8h, 7d or 2030-01-31T18:00Z")
@click.option("--try", "is_trial", is_flag=True, help="make nothing; say what it would have decided so far")
@confirm_option
@reason_option
@desk_options
@agents_option
def add(
    place: Place,
    agent: str,
    tool: str,
    arguments: str | None,
    matching: str | None,
    budget: str | None,
    uses: int | None,
    until: str | None,
    confirm: str | None,
    reason: str | None,
    *,
    is_no: bool,
    is_trial: bool,
    as_json: bool,
) -> None:
    """Make a standing decision: calls of this tool by this agent are approved (with --reject: rejected) from now on.

    Where two contradict each other, the newer wins. One that reaches further than what people approved has to be
    confirmed: somebody types the tool's name.
    """
    grant: JsonObject = {"agent": agent, "tool": tool, "decision": "reject" if is_no else "approve"}
    grant |= read_json({"arguments": arguments, "matching": matching, "budget": budget})
    bounds = {"uses": uses, "until": None if until is None else moment(until), "reason": reason}
    grant |= {name: value for name, value in bounds.items() if value is not None}
    with client_of(place, begins=True) as client:
        if is_trial:
            found = client.ask("POST", "/v1/grants/preview", None, grant)
            print_result(found, _trial_text(found), as_json=as_json)
            return
        made = confirmed(
            lambda word: client.ask("POST", "/v1/grants", None, grant | word),
            confirm,
            can_ask=is_interactive() and not as_json,
        )
    warn(made)
    print_result(made, f"made: {made['id']}", as_json=as_json)


@grants.command("revoke")
@click.argument("grant_id", metavar="ID", help="of a standing decision, or a beginning or end of it")
@desk_options
def revoke(place: Place, grant_id: str, *, as_json: bool) -> None:
    """Take a standing decision back; calls that have not begun are asked about."""
    with client_of(place) as client:
        whole = listed_id(client, "/v1/grants", grant_id, "standing decision", ": «placet grants» lists them")
        client.ask("DELETE", f"/v1/grants/{part(whole)}")
    print_result({"id": whole}, f"revoked: {whole}", as_json=as_json)


@grants.command("holds")
@desk_options
def holds(place: Place, *, as_json: bool) -> None:
    """List what operators hold back."""
    with client_of(place) as client:
        rows = list(all_pages(client, "/v1/holds", {}))
    show_rows(rows, ["held", "name", "by", "since", "reason"], _hold_row, "Nothing is held.", as_json=as_json)


@grants.command("hold")
@click.argument("kind", metavar="KIND", help="run, agent or tool")
@click.argument("name", metavar="NAME", help="which one")
@reason_option
@desk_options
@agents_option
def hold(place: Place, kind: str, name: str, reason: str | None, *, as_json: bool) -> None:
    """Hold a run, an agent or a tool: nothing that it covers starts, approved or not."""
    _refuse_other_kinds(kind)
    with client_of(place, begins=True) as client:
        whole = run_named(client, name) if kind == "run" else name
        body: JsonObject = {"kind": kind, "name": whole}
        if reason is not None:
            body["reason"] = reason
        warn(client.ask("POST", "/v1/holds", None, body))
    print_result({"kind": kind, "name": whole}, f"held: {kind} {whole}", as_json=as_json)


@grants.command("lift")
@click.argument("kind", metavar="KIND", help="run, agent or tool")
@click.argument("name", metavar="NAME", help="which one")
@desk_options
def lift(place: Place, kind: str, name: str, *, as_json: bool) -> None:
    """Lift a hold."""
    _refuse_other_kinds(kind)
    with client_of(place) as client:
        whole = run_named(client, name) if kind == "run" else name
        client.ask("DELETE", "/v1/holds", {"kind": kind, "name": whole})
    print_result({"kind": kind, "name": whole}, f"lifted: {kind} {whole}", as_json=as_json)


def _refuse_other_kinds(kind: str) -> None:
    if kind not in _KINDS:
        raise UsageError(f"nothing of kind {kind!r} can be held: it is one of {', '.join(_KINDS)}.")


def _trial_text(found: JsonObject) -> str:
    wider = found["wider"] if isinstance(found["wider"], list) else []
    against = found["contradicts"] if isinstance(found["contradicts"], list) else []
    lines = [str(found["line"]), *(f"wider than what people approved: {each}" for each in wider)]
    return "\n".join([*lines, *(f"a person said otherwise: {each}" for each in against)])


def moment(text: str, now: datetime | None = None) -> str:
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


def _grant_row(found: JsonObject, screen: Screen) -> Row:
    bounds = [
        f"only {json.dumps(found['arguments'])}" if found.get("arguments") else "",
        f"within {json.dumps(found['matching'])}" if found.get("matching") else "",
        f"{found['uses']} uses" if found.get("uses") else "",
        _end(found["until"]) if found.get("until") else "",
    ]
    verdict = str(found["decision"])
    tool = str(found["tool"]).rpartition(":")[2]
    words = ", ".join(filter(None, bounds)) or "any arguments, no end"
    look = styled(verdict, "green" if verdict == "approve" else "red")
    left = bars(found["left"], screen)
    return [str(found["id"]), look, str(found["agent"]), tool, str(found["by"] or ""), ago(found["at"]), words, left]


def _end(until: object) -> str:
    when = ago(until)
    return f"ends {when}" if when.startswith("in ") else f"over for {when}"


def _hold_row(found: JsonObject, _screen: Screen) -> Row:
    values = (found["kind"], found["name"], found["by"] or "", ago(found["at"]), found["reason"] or "")
    return [str(each) for each in values]

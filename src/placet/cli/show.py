"""`placet show ID`: all of one request, as a card; or the picture of a run, from its log."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

from placet.cli.asking import Client, add_desk, client_of, part
from placet.cli.cards import Card, render_card
from placet.cli.decided import decision_lines
from placet.cli.exit_codes import OK, CommandFailed
from placet.cli.loading import add_json
from placet.cli.naming import NoSuchRequest, request_named
from placet.cli.tables import ago, seconds_of
from placet.cli.terminal import Terminal, sentence, shown, this_terminal, way_on, wrap
from placet.cli.timeline import render_story
from placet.core.story import story_of
from placet.desk.web.feed import kind_name
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.items import ToolApprovalItem

DESCRIPTION = """\
Shows all of one request, exactly as it would run, or the picture of a run: its
turns and calls, who decided what, when. ID is that of a request or of a run.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("id", metavar="ID", help="of a request (or a short name that fits only one) or of a run")
    parser.add_argument("--log", action="store_true", help="of a run: every fact, in order")
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    terminal = this_terminal()
    with client_of(options) as client:
        if options.id.startswith("run_") and ":" not in options.id:
            return _show_run(client, options, terminal)
        found = _request(client, options.id)
    if options.json:
        print(json.dumps(found))
    else:
        terminal.print_lines(request_lines(found, terminal))
    return OK


def _request(client: Client, name: str) -> JsonObject:
    try:
        return request_named(client, name).request
    except NoSuchRequest as error:
        words = f"there is neither a run nor a request {name!r}: «placet runs» and «placet pending» list them"
        raise CommandFailed(f"{words}.") from error


# -- a request --------------------------------------------------------------------------------------------------------


class _Owner:
    """An agent of which only the name is known here."""

    def __init__(self, name: str) -> None:
        self.name = name


def request_lines(found: JsonObject, terminal: Terminal) -> list[str]:
    item = _item(found)
    lines = [*render_card(Card(0, item, _stakes(found)), terminal), *decision_lines(found, terminal)]
    state_lines = [line for text in _state_lines(found) for line in wrap(text, terminal.width)]
    return [*lines, *(terminal.paint(line.rstrip(), "dim") for line in state_lines)]


def _item(found: JsonObject) -> ToolApprovalItem:
    arguments = found["arguments"]
    raw = {"name": found["tool"], "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    why, questions, written = found.get("why"), found.get("questions"), found.get("proposed_arguments")
    return ToolApprovalItem(
        _Owner(str(found["agent"])),
        raw,
        id=str(found["id"]),
        kind=_kind(found["kind"]),
        agent_path=str(found["agent"]),
        why=why if isinstance(why, str) else None,
        proposed_arguments=written if written is None or isinstance(written, str) else json.dumps(written),
        questions=questions if isinstance(questions, dict) else None,
    )


def _kind(text: object) -> Literal["approval", "in_doubt", "elicitation"]:
    match text:
        case "in_doubt" | "elicitation":
            return text
        case _:
            return "approval"


def _stakes(found: JsonObject) -> str | None:
    described = found.get("description")
    return described if isinstance(described, str) and described else None


def _state_lines(found: JsonObject) -> Iterator[str]:
    yield f"{found['status']}, asked {ago(found['created_at'])} ago"
    yield f"digest {found['digest']}"
    if found.get("expires_at") and found["status"] == "pending":
        is_over = not ago(found["expires_at"]).startswith("in ")
        yield "the time to decide is over" if is_over else f"to be decided {ago(found['expires_at'])}"
    if found.get("decided_by") and not found.get("decision"):
        reason = f": {shown(str(found['reason']))}" if found.get("reason") else ""
        word = "its approval was taken back" if found["status"] == "closed" else "decided"
        yield f"{word} by {shown(str(found['decided_by']))}{reason}"
    if found.get("you_may_not"):
        yield shown(str(found["you_may_not"]))


# -- a run ------------------------------------------------------------------------------------------------------------


def _show_run(client: Client, options: argparse.Namespace, terminal: Terminal) -> int:
    run_id = options.id
    found = client.ask("GET", f"/v1/runs/{part(run_id)}")
    lines = list(_log(client, run_id))
    if options.json:
        print(json.dumps({**found, "log": lines} if options.log else found))
        return OK
    if options.log:
        terminal.print_lines([text for line in lines for text in _log_lines(line)])
        return OK
    story = story_of(map(_record, lines))
    picture = render_story(story, run_id, terminal, seconds_of(found.get("erased_at")))
    terminal.print_lines([*picture, *(terminal.paint(line, "yellow") for line in _hindrances(found, terminal))])
    return OK


def _hindrances(found: JsonObject, terminal: Terminal) -> list[str]:
    """Why it does not go on by itself, where it is not only that people are asked."""
    if found["status"] == "ended":
        return []
    texts = [
        f"held back: {found['held']}" if found.get("held") else "",
        f"stopped: {sentence(found['stopped'])} {way_on(str(found['stopped']))}" if found.get("stopped") else "",
        "parked: it took too many drivers down; «placet runs resume» gives it another chance"
        if found.get("is_parked")
        else "",
    ]
    return [line.rstrip() for text in filter(None, texts) for line in wrap(shown(text), terminal.width)]


def _log_lines(line: JsonObject) -> Iterator[str]:
    facts = line["facts"]
    assert isinstance(facts, list)
    for fact in facts:
        data = {name: value for name, value in fact["data"].items() if value not in (None, [], {}, "")}
        place = f" {fact['path']}" if fact["path"] else ""
        yield shown(f"{line['position']:>4}  {line['at']}{place}  {fact['kind']}  {json.dumps(data)}")


def _log(client: Client, run_id: str) -> Iterator[JsonObject]:
    after: object = -1
    while after is not None:
        page = client.ask("GET", f"/v1/runs/{part(run_id)}/log", {"after": after, "limit": 200})
        yield from page["data"]
        after = page["next"]


_KINDS: dict[str, type[e.PlainFact]] = {kind_name(kind): kind for kind in get_args(e.PlainFact)}
"""The facts by the names that the API gives them."""


def _record(line: JsonObject) -> e.Record:
    """A line of the log as it was written."""
    facts = line["facts"]
    assert isinstance(facts, list)
    at = seconds_of(line["at"])
    assert at is not None
    return e.Record(at, [_fact(each) for each in facts])


def _fact(given: JsonObject) -> e.AnyFact:
    kind = _KINDS.get(str(given["kind"]))
    data = given["data"]
    if kind is None or not isinstance(data, dict):
        raise CommandFailed(f"the log holds {given['kind']!r}, which this version does not know: --log shows it.")
    fields = {each.name: msgspec.convert(data[each.name], each.type) for each in msgspec.structs.fields(kind)}
    fact = kind(**fields)
    return e.InChild(str(given["path"]), fact) if given["path"] else fact

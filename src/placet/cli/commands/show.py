"""`placet show ID`: all of one request, as a card; or the picture of a run, from its log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import get_args

import click
import msgspec
from click import ClickException
from rich.text import Text

from placet.cli.cards import request_card
from placet.cli.client import Client, Refused, all_pages, client_of, part
from placet.cli.completing import RequestOrRun
from placet.cli.naming import NothingNamed, any_request_named, request_named, run_named
from placet.cli.options import Place, command, desk_options
from placet.cli.output import Screen, echo_json, sentence, shown
from placet.cli.picture import run_picture
from placet.cli.run_sentences import way_on
from placet.cli.tables import seconds_of
from placet.core.story import story_of
from placet.desk.web.feed import kind_name
from placet.facts import events as e
from placet.facts.codec import JsonObject


@command("show")
@click.argument(
    "name", metavar="ID", type=RequestOrRun(), help="of a request or of a run, or what its id begins or ends with"
)
@click.option("--log", "with_log", is_flag=True, help="of a run: every fact, in order")
@desk_options
def show(place: Place, name: str, *, with_log: bool, as_json: bool) -> None:
    """Show all of one request, exactly as it would run, or the picture of a run: its turns and calls, who decided what,
    when."""
    screen = Screen()
    with client_of(place) as client:
        request, run_id = _found(client, name)
        if request is None:
            _show_run(client, run_id, screen, with_log=with_log, as_json=as_json)
        elif as_json:
            echo_json(request)
        else:
            screen.show(request_card(request, screen))


def _found(client: Client, name: str) -> tuple[JsonObject | None, str]:
    """The request that is meant, or no request and the id of the run."""
    try:
        return None, str(client.ask("GET", f"/v1/runs/{part(name or '?')}")["id"])
    except Refused as error:
        if error.status != 404:
            raise
    with contextlib.suppress(NothingNamed):
        if not _begins_a_run(client, name):
            return request_named(client, name).request, ""
    with contextlib.suppress(NothingNamed):
        return None, run_named(client, name)
    with contextlib.suppress(NothingNamed):
        return any_request_named(client, name), ""
    words = f"there is neither a run nor a request {name!r}: «placet runs» and «placet pending» list them"
    raise ClickException(f"{words}.")


def _begins_a_run(client: Client, name: str) -> bool:
    """What a run's id begins with means the run, although the ids of its requests begin so, too."""
    waiting = all_pages(client, "/v1/approvals", {"status": "pending"})
    return bool(name) and any(
        str(row["run_id"]).removeprefix("run_").startswith(name.removeprefix("run_")) for row in waiting
    )


def _show_run(client: Client, run_id: str, screen: Screen, *, with_log: bool, as_json: bool) -> None:
    found = client.ask("GET", f"/v1/runs/{part(run_id)}")
    lines = list(_log(client, run_id))
    if as_json:
        echo_json({**found, "log": lines} if with_log else found)
    elif with_log:
        screen.show(*(Text(text) for line in lines for text in _log_lines(line)), soft=True)
    else:
        story = story_of(map(_record, lines))
        picture = run_picture(story, run_id, screen, seconds_of(found.get("erased_at")))
        screen.show(picture, *(Text(line, "yellow") for line in _hindrances(found)))


def _hindrances(found: JsonObject) -> Iterator[str]:
    """Why it does not go on by itself, where it is not only that people are asked."""
    if found["status"] == "ended":
        return
    if found.get("held"):
        yield shown(f"held back: {found['held']}")
    if found.get("stopped"):
        yield shown(f"stopped: {sentence(found['stopped'])} {way_on(str(found['stopped']))}")
    if found.get("is_parked"):
        yield "parked: it took too many drivers down; «placet runs resume» gives it another chance"


# -- the log ----------------------------------------------------------------------------------------------------------


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
        raise ClickException(f"the log holds {given['kind']!r}, which this version does not know: --log shows it.")
    fields = {each.name: msgspec.convert(data[each.name], each.type) for each in msgspec.structs.fields(kind)}
    fact = kind(**fields)
    return e.InChild(str(given["path"]), fact) if given["path"] else fact

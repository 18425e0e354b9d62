"""`placet channels`: who is told of what happens, what did not get through, and a message to try it."""

from __future__ import annotations

from importlib.util import find_spec

import click
from click import Choice, ClickException, UsageError
from rich.text import Text

from placet.channels.targets import ADDRESSES
from placet.cli.client import Client, client_of, part, show_rows, warn
from placet.cli.naming import the_one
from placet.cli.options import Decorated, Place, actions, desk_options, reason_option
from placet.cli.output import Screen, print_result, sentence
from placet.cli.tables import Row, ago, styled
from placet.facts.codec import JsonObject

PATH = "/v1/subscriptions"
KEEP = "It is shown this once. The receiver checks messages with it."

id_argument = click.argument("hook", metavar="ID", help="of a channel, or a beginning or end of it, or its name")


def filter_options(function: Decorated) -> Decorated:
    for option in (
        click.option("--group", "groups", multiple=True, metavar="NAME", help="only questions that need this group"),
        click.option("--tool", "tools", multiple=True, metavar="NAME", help="only about this tool; * and ? fit any"),
        click.option(
            "--agent", "of_agents", multiple=True, metavar="NAME", help="only about this agent; * and ? fit any"
        ),
        click.option("--event", "events", multiple=True, metavar="NAME", help="only this (repeatable; default: all)"),
    ):
        function = option(function)
    return function


@actions("channels")
def channels() -> None:
    """List, add and change channels: who is told that something waits, was decided, or ended.

    How the address begins says how they are told: https:// is a webhook, slack: is Slack, mailto: is mail, apprise: is
    anything else. Desks and
    workers send the messages. «placet webhooks» is the same command.
    """


@channels.command("list")
@desk_options
def list_channels(place: Place, *, as_json: bool) -> None:
    """List channels. It is what «placet channels» does."""
    with client_of(place) as client:
        rows = client.ask("GET", PATH)["data"]
    show_rows(rows, ["channel", "name", "to", "told of", "state"], _row, "No channels.", as_json=as_json)


@channels.command("add")
@click.argument("name", metavar="NAME", help="what it is called in lists")
@click.argument("url", metavar="URL", help=f"where messages go: {ADDRESSES}")
@filter_options
@click.option("--arguments", "shows_arguments", is_flag=True, help="messages hold the arguments of the call, too")
@click.option("--every", type=Choice(["hour", "day"]), help="told together, once an hour or a day (mail, apprise)")
@desk_options
def add_channel(
    place: Place,
    name: str,
    url: str,
    events: tuple[str, ...],
    of_agents: tuple[str, ...],
    tools: tuple[str, ...],
    groups: tuple[str, ...],
    *,
    shows_arguments: bool,
    every: str | None,
    as_json: bool,
) -> None:
    """Have somebody told of what happens from now on. The secret of a webhook is printed, this once."""
    body: JsonObject = {"name": name, "url": url, "shows_arguments": shows_arguments, "every": every}
    body |= {"events": [*events], "agents": [*of_agents], "tools": [*tools], "groups": [*groups]}
    with client_of(place, begins=True) as client:
        found = client.ask("POST", PATH, None, body)
    warn(found)
    told = f"{name} is told of {_told(found['subscription'])}."
    print_result(found, f"{found['secret']}\n{KEEP}" if found["secret"] else told, as_json=as_json)


@channels.command("change")
@id_argument
@click.option("--name", metavar="NAME", help="what it is called in lists")
@click.option("--url", metavar="URL", help="where messages go")
@filter_options
@click.option("--all-events", is_flag=True, help="told of all events again")
@click.option("--arguments/--no-arguments", "shows_arguments", default=None, help="with the arguments of the call")
@click.option("--every", type=Choice(["hour", "day", "at-once"]), help="when it is told (mail)")
@desk_options
def change_channel(
    place: Place,
    hook: str,
    name: str | None,
    url: str | None,
    events: tuple[str, ...],
    of_agents: tuple[str, ...],
    tools: tuple[str, ...],
    groups: tuple[str, ...],
    *,
    all_events: bool,
    shows_arguments: bool | None,
    every: str | None,
    as_json: bool,
) -> None:
    """Change where messages go and what they tell; a filter that is given replaces the one before."""
    if all_events and events:
        raise UsageError("--all-events and --event contradict each other: write one of them.")
    given = {"name": name, "url": url, "shows_arguments": shows_arguments, "events": [] if all_events else events}
    given |= {"every": every.replace("-", "_") if every is not None else None}
    given |= {"agents": of_agents, "tools": tools, "groups": groups}
    body: JsonObject = {
        key: [*value] if isinstance(value, tuple) else value
        for key, value in given.items()
        if value is not None and value != ()
    }
    with client_of(place) as client:
        found = client.ask("PATCH", f"{PATH}/{part(_named(client, hook))}", None, body)
    warn(found)
    print_result(found, f"{found['name']} is told of {_told(found)}.", as_json=as_json)


@channels.command("remove")
@id_argument
@desk_options
def remove_channel(place: Place, hook: str, *, as_json: bool) -> None:
    """Tell it nothing more; what did not get through goes, too."""
    with client_of(place) as client:
        whole = _named(client, hook)
        client.ask("DELETE", f"{PATH}/{part(whole)}")
    print_result({"id": whole}, f"{whole} is removed.", as_json=as_json)


@channels.command("rotate")
@id_argument
@desk_options
def rotate_secret(place: Place, hook: str, *, as_json: bool) -> None:
    """Make a new secret of a webhook and print it; for a day messages are signed with the one before, too."""
    with client_of(place) as client:
        found = client.ask("POST", f"{PATH}/{part(_named(client, hook))}/secret", None, {})
    print_result(found, f"{found['secret']}\n{KEEP}", as_json=as_json)


@channels.command("test")
@id_argument
@desk_options
def send_test(place: Place, hook: str, *, as_json: bool) -> None:
    """Send a message that means nothing, at once, and say what came of it."""
    with client_of(place) as client:
        found = client.ask("POST", f"{PATH}/{part(_named(client, hook))}/test", None, {})
    if not found["is_delivered"]:
        raise ClickException(f"it did not get through: {sentence(found['error'])}")
    print_result(found, "It got through.", as_json=as_json)


@channels.command("letters")
@id_argument
@desk_options
def list_letters(place: Place, hook: str, *, as_json: bool) -> None:
    """List what did not get through: what is tried again, and what was given up."""
    with client_of(place) as client:
        rows = client.ask("GET", f"{PATH}/{part(_named(client, hook))}/letters")["data"]
    head = ["letter", "about", "event", "tries", "state", "why"]
    show_rows(rows, head, _letter_row, "Everything got through.", as_json=as_json)


@channels.command("send")
@id_argument
@click.argument("letter", metavar="[LETTER]", required=False, help="of a dead letter (default: all of them)")
@desk_options
def send_again(place: Place, hook: str, letter: str | None, *, as_json: bool) -> None:
    """Send dead letters again."""
    with client_of(place) as client:
        path = f"{PATH}/{part(_named(client, hook))}/letters"
        if letter is not None:
            dead = [str(each["id"]) for each in client.ask("GET", path)["data"] if each["is_dead"]]
            path = f"{path}/{part(the_one(dead, letter, 'dead letter', ': «placet channels letters» lists them'))}"
        found = client.ask("POST", f"{path}/send", None, {})
    count = found["count"]
    print_result(found, f"{count} dead {'letter is' if count == 1 else 'letters are'} sent again.", as_json=as_json)


@channels.command("suspend")
@id_argument
@reason_option
@desk_options
def suspend(place: Place, hook: str, reason: str | None, *, as_json: bool) -> None:
    """Send nothing for now; what happens meanwhile is sent when it is resumed."""
    with client_of(place) as client:
        body: JsonObject = {} if reason is None else {"reason": reason}
        found = client.ask("POST", f"{PATH}/{part(_named(client, hook))}/suspend", None, body)
    print_result(found, f"{found['name']} is suspended: {sentence(found['suspended'])}", as_json=as_json)


@channels.command("resume")
@id_argument
@click.option("--from-now", is_flag=True, help="what happened while it was suspended is not told")
@desk_options
def resume(place: Place, hook: str, *, from_now: bool, as_json: bool) -> None:
    """Send again, from where it stood."""
    with client_of(place) as client:
        found = client.ask("POST", f"{PATH}/{part(_named(client, hook))}/resume", None, {"from_now": from_now})
    print_result(found, f"{found['name']} is told again.", as_json=as_json)


@channels.command("push-key")
def push_key() -> None:
    """Make a key with which the desk tells browsers, and print it. Each desk and worker gets the same one."""
    if find_spec("pywebpush") is None:
        raise ClickException("browsers are told with an extra that is not installed: pip install 'placet[push]'.")
    from placet.channels.push import KEY, SENDER, new_push_key

    print(f"export {KEY}={new_push_key()}\nexport {SENDER}=mailto:you@example.com")


def _named(client: Client, typed: str) -> str:
    """The id of the channel that is meant: by its name, if one has it."""
    rows = client.ask("GET", PATH)["data"]
    by_name = [str(each["id"]) for each in rows if each["name"] == typed]
    if len(by_name) == 1:
        return by_name[0]
    if by_name:  # of a store from before names were told apart
        count = "two" if len(by_name) == 2 else len(by_name)
        raise UsageError(
            f"{count} channels are called {typed!r}: use the id.\n" + "\n".join(f"  {each}" for each in by_name)
        )
    return the_one([str(each["id"]) for each in rows], typed, "channel", ": «placet channels» lists them")


def _told(found: JsonObject) -> str:
    parts = [", ".join(map(str, _list(found["events"]))) or "everything"]
    for name in ("agents", "tools", "groups"):
        parts += [f"{name} {', '.join(map(str, _list(found[name])))}"] if found[name] else []
    parts += [f"every {found['every']}"] if found["every"] else []
    return "; ".join([*parts, *(["with arguments"] if found["shows_arguments"] else [])])


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _row(found: JsonObject, _screen: Screen) -> Row:
    return [str(found["id"]), str(found["name"]), str(found["url"]), _told(found), _state(found)]


def _state(found: JsonObject) -> Text | str:
    if found["suspended"] is not None:
        gap = f", a gap until {found['gap_until']}" if found["gap_until"] is not None else ""
        return styled(f"suspended: {found['suspended']}{gap}", "red")
    troubles = [f"{found[name]} {name}" for name in ("waiting", "dead") if found[name]]
    return styled(", ".join(troubles), "yellow") if troubles else "ok"


def _letter_row(found: JsonObject, _screen: Screen) -> Row:
    state = styled("dead", "red") if found["is_dead"] else "tried again"
    about = f"{found['about']} ({ago(found['happened_at'])} ago)"
    return [str(found["id"]), about, str(found["type"]), str(found["tries"]), state, str(found["error"])]

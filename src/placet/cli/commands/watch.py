"""`placet watch`: what happens, while it happens."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import click
from rich.text import Text

from placet.cli.client import client_of
from placet.cli.completing import RunId
from placet.cli.naming import run_named
from placet.cli.options import Place, command, desk_options
from placet.cli.output import Screen, shown
from placet.facts.codec import JsonObject

_STYLE = {
    "call_held": "yellow",
    "call_in_doubt": "red",
    "input_asked": "yellow",
    "decision_made": "green",
    "run_started": "cyan",
    "run_ended": "green",
    "run_stopped": "red",
}
_SHOWN_APART = ("type", "at", "run_id", "sequence", "index", "id", "path")


@command("watch")
@click.option("--run", "run_id", type=RunId(), metavar="RUN", help="only this run")
@click.option(
    "--after", type=click.IntRange(min=0), metavar="N", help="begin after this sequence number (0: from the start)"
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="end after so many lines")
@desk_options
def watch(place: Place, run_id: str | None, after: int | None, count: int | None, *, as_json: bool) -> None:
    """Print what happens in all runs, or in one, line by line as it happens, until Ctrl-C."""
    screen = Screen()
    with client_of(place) as client:
        client.ask("GET", "/v1/numbers")  # a store that cannot be used would be waited for in silence,
        run = None if run_id is None else run_named(client, run_id)  # and so would a run that does not exist
        with closing(client.listen("/v1/events", {"run_id": run, "after": after})) as events:
            for number, event in enumerate(events, 1):
                screen.show(Text(json.dumps(event)) if as_json else line_of(event), soft=True)
                if number == count:
                    break


def line_of(event: JsonObject) -> Text:
    kind = str(event.get("type", ""))
    at = event.get("at")
    clock = datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S") if isinstance(at, int | float) else ""
    rest = {
        name: value for name, value in event.items() if name not in _SHOWN_APART and value not in (None, "", [], {})
    }
    details = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items()
    )
    line = Text.assemble(
        f"{clock}  {shown(str(event.get('run_id', '')))}  ",
        (f"{kind:<18}", _STYLE.get(kind, "")),
        f"  {shown(details)}",
    )
    line.rstrip()
    return line

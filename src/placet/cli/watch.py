"""`placet watch`: what happens, while it happens."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from placet.cli.asking import add_desk, client_of, part
from placet.cli.exit_codes import OK
from placet.cli.loading import add_json
from placet.cli.number_options import whole_number
from placet.cli.terminal import Style, Terminal, shown, this_terminal
from placet.facts.codec import JsonObject

DESCRIPTION = """\
Prints what happens in all runs, or in one, line by line as it happens, until
Ctrl-C.
"""
_STYLE: dict[str, Style] = {
    "call_held": "yellow",
    "call_in_doubt": "red",
    "input_asked": "yellow",
    "decision_made": "green",
    "run_started": "cyan",
    "run_ended": "green",
    "run_stopped": "red",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--run", metavar="RUN", help="only this run")
    parser.add_argument(
        "--after", type=whole_number(0), metavar="N", help="begin after this sequence number (0: from the start)"
    )
    parser.add_argument("--count", type=whole_number(1), metavar="N", help="end after so many lines")
    add_desk(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    terminal = this_terminal()
    with client_of(options) as client:
        client.ask("GET", "/v1/numbers")  # a store that cannot be used would be waited for in silence,
        if options.run is not None:  # and so would a run that does not exist
            client.ask("GET", f"/v1/runs/{part(options.run)}")
        events = client.listen("/v1/events", {"run_id": options.run, "after": options.after})
        for number, event in enumerate(events, 1):
            terminal.print_line(json.dumps(event) if options.json else line_of(event, terminal))
            if number == options.count:
                break
    return OK


def line_of(event: JsonObject, terminal: Terminal) -> str:
    kind = str(event.get("type", ""))
    at = event.get("at")
    clock = datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S") if isinstance(at, int | float) else ""
    known = ("type", "at", "run_id", "sequence", "index", "id", "path")
    rest = {name: value for name, value in event.items() if name not in known and value not in (None, "", [], {})}
    details = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items()
    )
    painted = terminal.paint(f"{kind:<18}", _STYLE[kind]) if kind in _STYLE else f"{kind:<18}"
    return f"{clock}  {event.get('run_id', '')}  {painted}  {shown(details)}".rstrip()

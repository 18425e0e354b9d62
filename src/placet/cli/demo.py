"""`placet demo`: agents work and pause where it matters; a person decides, in the browser or in the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path

from placet.cli.demo_folder import DemoFolder
from placet.cli.demo_screen import DemoScreen
from placet.cli.demo_session import DemoSession
from placet.cli.exit_codes import INTERRUPTED, OK, UsageError
from placet.cli.number_options import whole_number
from placet.cli.terminal import is_interactive, this_terminal, this_user
from placet.cli.verdicts import Approve, Decision, Reject, parse_specs

DESCRIPTION = """\
Starts a desk on this machine with a few agents (scripted models, no key needed)
and some runs that wait already, and opens the inbox in the browser. Approve,
reject, edit or answer, and the runs go on. Nobody is asked who they are: this
is for you alone, and listens on this machine alone.

With --terminal, or with an option that decides, there is no desk: one support
agent makes three calls at once. Looking up the stock runs at once; the two
refunds wait for you. In a terminal the command asks; elsewhere it decides by
options, and without any it prints what waits, and leaves it waiting.
"""
EPILOG = """\
decisions in the terminal:
  --decide takes the number on the card and one of
    approve
    reject                      or reject:MESSAGE, which the model reads
    edit:cents=12400            or edit:{"cents": 12400}
    respond:ANSWER              which the model reads in the tool's place
  Several are separated by commas. All are valid, or none is applied.

what survives in the terminal:
  The process may be killed at any moment, kill -9 included; run the command
  again, and it goes on. The run's log is in DIR/state.json before it counts: a
  decision before anything follows from it, a claim before its refund. If the
  process dies between a refund and its record, the refund is asked for again
  under the same idempotency key, and the shop in DIR/shop pays once for a key.
  One process at a time works on a folder. A run that has ended is moved to
  DIR/last.json, and the next demo starts a new one.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--port", type=whole_number(0, 65535), help="the desk's port (default: 8700, or a free one)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")
    parser.add_argument("--store", metavar="URL", help="the desk's store (default: an SQLite file in DIR)")
    _configure_terminal(parser.add_argument_group("in the terminal"))
    parser.add_argument("--dir", type=Path, help="the folder of what the demo keeps (default: .placet-demo)")
    parser.add_argument("--reset", action="store_true", help="forget what the demo kept, and start afresh")


def _configure_terminal(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--terminal", action="store_true", help="decide here, without a desk")
    everything = parser.add_mutually_exclusive_group()
    everything.add_argument("--yes", action="store_true", help="approve all that waits")
    everything.add_argument(
        "--no", nargs="?", const="", metavar="MESSAGE", help="reject all that waits; the model reads MESSAGE"
    )
    parser.add_argument(
        "--decide",
        action="append",
        default=[],
        metavar="DECISIONS",
        help="decide call by call, as in «1=approve,2=reject:too much»; --yes or --no then decides the rest",
    )
    parser.add_argument("--by", metavar="NAME", help="who decides (default: the user of this system)")
    parser.add_argument("--json", action="store_true", help="ask nothing, and print a report for programs")


def run(options: argparse.Namespace) -> int:
    options.dir = options.dir or Path(".placet-demo")
    decides = any([options.terminal, options.yes, options.no is not None, options.decide, options.by, options.json])
    serves = any([options.port is not None, options.no_open, options.store is not None])
    if decides and serves:
        raise UsageError("--port, --no-open and --store are for the desk, the other options for the terminal: choose.")
    return _in_the_terminal(options) if decides else _at_a_desk(options)


def _at_a_desk(options: argparse.Namespace) -> int:
    from placet.cli.demo_desk import serve_demo  # the desk on the web is an extra

    opens = not options.no_open
    return serve_demo(options.dir, store=options.store, port=options.port, opens=opens, starts_afresh=options.reset)


def _in_the_terminal(options: argparse.Namespace) -> int:
    specs = parse_specs(options.decide)
    folder = DemoFolder(options.dir)
    with folder.used_alone():
        if options.reset:
            folder.clear()
        screen = DemoScreen(DemoSession(folder, options.by or this_user()), this_terminal(), for_programs=options.json)
        rest = _decision_for_the_rest(options)
        try:
            screen.begin()
            if specs or rest is not None:
                screen.decide_by_options(specs, rest)
            elif not options.json and is_interactive():
                screen.decide_at_the_prompt()
            screen.finish()
        except KeyboardInterrupt:
            screen.print_how_to_continue()
            return INTERRUPTED
    return OK


def _decision_for_the_rest(options: argparse.Namespace) -> Decision | None:
    """What --yes or --no say about all that --decide does not mention."""
    if options.yes:
        return Approve()
    return Reject(options.no or None) if options.no is not None else None

"""`placet demo`: an agent works on a small case and pauses where it matters; a person decides, and the run goes on."""

from __future__ import annotations

import argparse
from pathlib import Path

from placet.cli.demo_folder import DemoFolder
from placet.cli.demo_screen import DemoScreen
from placet.cli.demo_session import DemoSession
from placet.cli.exit_codes import INTERRUPTED, OK
from placet.cli.terminal import is_somebody_there, this_terminal, this_user
from placet.cli.verdicts import Approve, Decision, Reject, parse_specs

DESCRIPTION = """\
A support agent with a scripted model (no key needed) makes three calls at once.
Looking up the stock runs at once; the two refunds wait for you. Approve,
reject, edit or answer them, and the run goes on. At the end you see a picture
of what happened.

In a terminal the command asks. Elsewhere it decides by options; without any it
prints what waits, and leaves it waiting.
"""
EPILOG = """\
decisions:
  --decide takes the number on the card and one of
    approve
    reject                      or reject:MESSAGE, which the model reads
    edit:cents=12400            or edit:{"cents": 12400}
    respond:ANSWER              which the model reads in the tool's place
  Several are separated by commas. All are valid, or none is applied.

what survives:
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
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(".placet-demo"),
        help="the folder of the run and its shop (default: %(default)s)",
    )
    parser.add_argument("--reset", action="store_true", help="forget the run that waits, and start afresh")


def run(options: argparse.Namespace) -> int:
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
            elif not options.json and is_somebody_there():
                screen.decide_at_the_prompt()
            screen.finish()
        except KeyboardInterrupt:
            screen.say_how_to_go_on()
            return INTERRUPTED
    return OK


def _decision_for_the_rest(options: argparse.Namespace) -> Decision | None:
    """What --yes or --no say about all that --decide does not mention."""
    if options.yes:
        return Approve()
    return Reject(options.no or None) if options.no is not None else None

"""`placet respond ID`: answer in the tool's place; the call does not run."""

from __future__ import annotations

import argparse
import json

from placet.cli.deciding import add_request, say
from placet.cli.exit_codes import WrongUsage
from placet.cli.terminal import read_all

DESCRIPTION = """\
Answers in the tool's place: the call does not run, and the model reads the
answer. Of a call that is in doubt it means: it happened, this is what came of
it. Of a call that asks for input it is the input.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--output", metavar="TEXT", help="the answer; without it, standard input is read")
    parser.add_argument("--as-json", action="store_true", help="the answer is JSON, not a text")
    add_request(parser, several=False)


def run(options: argparse.Namespace) -> int:
    text = _from_standard_input() if options.output is None else options.output
    try:
        output = json.loads(text) if options.as_json else text
    except ValueError as error:
        raise WrongUsage(f"the answer is not JSON: {error}.") from error
    return say(options, lambda _request: {"decision": "respond", "output": output})


def _from_standard_input() -> str:
    """The answer that was piped or typed. Silence is none: a closed input must not answer for people."""
    text = read_all("the answer")
    if not text.strip():
        raise WrongUsage('standard input is empty: nothing was answered. An empty answer on purpose: --output "".')
    return text

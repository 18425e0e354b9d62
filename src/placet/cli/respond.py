"""`placet respond ID`: answer in the tool's place; the call does not run."""

from __future__ import annotations

import argparse
import json
import shlex

from placet.cli.deciding import add_request, send_decisions
from placet.cli.exit_codes import UsageError
from placet.cli.terminal import read_all
from placet.facts.codec import Json

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
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # an answer that stands where it does not belong


def run(options: argparse.Namespace) -> int:
    if options.words:
        words = shlex.quote(" ".join(options.words))
        raise UsageError(f"the answer is an option: placet respond {options.ids[0]} --output {words}.")
    if options.output is not None:
        _answer(options)  # what cannot be read is refused before anybody is asked anything
    return send_decisions(options, lambda _request: {"decision": "respond", "output": _answer(options)}, "Answer this?")


def _answer(options: argparse.Namespace) -> Json:
    text = _from_standard_input() if options.output is None else options.output
    try:
        found: Json = json.loads(text) if options.as_json else text
    except ValueError as error:
        raise UsageError(f"the answer is not JSON: {error}.") from error
    return found


def _from_standard_input() -> str:
    """The answer that was piped or typed. Silence is none: a closed input must not answer for people."""
    text = read_all("the answer")
    if not text.strip():
        raise UsageError('standard input is empty: nothing was answered. An empty answer on purpose: --output "".')
    return text

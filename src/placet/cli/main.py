"""The root of the `placet` command. A command is a module with `configure` and `run`, and one line in COMMANDS.

A command's module is imported when the command is used, so that the others cost nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn, Protocol

from placet import PlacetError, __version__
from placet.cli.exit_codes import FAILED, INTERRUPTED, USAGE, CommandFailed, UsageError
from placet.cli.terminal import complain, never_fail_to_print


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    module: str
    summary: str


COMMANDS = (
    Command("demo", "placet.cli.demo", "agents work and pause; you decide, and the runs go on"),
    Command("serve", "placet.cli.serve", "the desk on the web: API, inbox, and the engine"),
    Command("run", "placet.cli.run", "start a run and drive it here, until it ends or waits"),
    Command("runs", "placet.cli.runs", "list runs; start, cancel and resume them"),
    Command("pending", "placet.cli.pending", "what waits for a person"),
    Command("show", "placet.cli.show", "all of a request, or the picture of a run"),
    Command("approve", "placet.cli.approve", "say yes"),
    Command("reject", "placet.cli.reject", "say no, with a message for the model"),
    Command("edit", "placet.cli.edit", "say yes, with other arguments"),
    Command("respond", "placet.cli.respond", "answer in the tool's place"),
    Command("revoke", "placet.cli.revoke", "take an approval back, until its call begins"),
    Command("watch", "placet.cli.watch", "what happens, while it happens"),
    Command("grants", "placet.cli.grants", "standing decisions, and what is held back"),
    Command("users", "placet.cli.users", "who may use a desk, and what they may decide"),
    Command("four-eyes", "placet.cli.four_eyes", "where whoever started a run may not approve its calls"),
    Command("tokens", "placet.cli.tokens", "keys for programs that use a desk"),
    Command("doctor", "placet.cli.doctor", "which waiting runs cannot go on with today's code"),
    Command("audit", "placet.cli.audit", "who did what, and whether the logs are whole"),
    Command("worker", "placet.cli.worker", "drive runs out of a PostgreSQL that many share"),
    Command("top", "placet.cli.top", "a fleet at a glance: workers, runs, what has waited longest"),
    Command("migrate", "placet.cli.migrate", "create a store's schema, or bring it up to date"),
    Command("port", "placet.cli.port", "move in programs written for the OpenAI Agents SDK"),
    Command("completion", "placet.cli.completion", "a script with which your shell completes all this"),
)

DESCRIPTION = """\
Placet runs agents whose tool calls wait for a person's yes where they matter,
and whose runs survive the wait.
"""
EXIT_CODES = """\
exit codes:
  0    done; for a run that means: it has ended, or it waits for a decision
  1    failed; the message says what to do next, and what was stored is kept
  2    wrong usage; nothing was done
  130  interrupted (Ctrl-C); what was decided so far is kept
"""


_OTHER_NAMES = {
    "accept": "approve",
    "yes": "approve",
    "deny": "reject",
    "no": "reject",
    "answer": "respond",
    "inbox": "pending",
    "list": "pending",
    "ls": "pending",
    "ps": "runs",
    "log": "show",
    "logs": "audit",
    "start": "run",
    "server": "serve",
    "undo": "revoke",
    "monitor": "top",
    "user": "users",
}
"""What other programs call the same."""


class CommandModule(Protocol):
    """What a command's module offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


class _HelpFormat(argparse.RawDescriptionHelpFormatter):
    """Help in lines of one length, whatever the terminal: it reads the same in the docs."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as all commands say it."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        complain(f"{message}.")
        sys.exit(USAGE)


def _root_parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS)
    parser = _Parser(
        prog="placet",
        usage="placet [--version] [--help] COMMAND …",
        description=f"{DESCRIPTION}\ncommands:\n{listed}\n\n«placet COMMAND --help» says more about a command.",
        epilog=EXIT_CODES,
        formatter_class=_HelpFormat,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"placet {__version__}", help="print the version")
    return parser


def command_parser(command: Command, module: CommandModule) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"placet {command.name}",
        formatter_class=_HelpFormat,
        allow_abbrev=False,
    )
    module.configure(parser)
    parser.usage = _usage(parser)
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}" if parser.epilog else EXIT_CODES
    return parser


def _usage(parser: argparse.ArgumentParser) -> str:
    """What the command takes, by name; its options are listed below."""
    form = parser._get_formatter()
    words = [
        form._format_args(each, form._get_default_metavar_for_positional(each)).replace("...", "…")
        for each in parser._get_positional_actions()
        if each.help != argparse.SUPPRESS
    ]
    return " ".join([parser.prog, "[OPTION …]", *words]).replace("%", "%%")


def _refuse_what_is_no_text(arguments: Sequence[str]) -> None:
    """Bytes that are not in this system's encoding come as halves of surrogate pairs, which nothing can store."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{os.fsencode(each)!r} is not text in UTF-8: write it in that encoding.") from None


def _dispatch(arguments: Sequence[str]) -> int:
    _refuse_what_is_no_text(arguments)
    root = _root_parser()
    if not arguments:
        root.print_help(sys.stderr)
        return USAGE
    name, *rest = arguments
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is None:
        if name.startswith("-"):
            root.parse_args([name])  # --help and --version end here, and what is unknown too
        raise UsageError(f"there is no command {name!r}{_meant(name)}: «placet --help» lists them.")
    module: CommandModule = importlib.import_module(command.module)
    return module.run(_parsed(command_parser(command, module), rest))


def _meant(name: str) -> str:
    """The commands that somebody who wrote this may have meant."""
    names = [command.name for command in COMMANDS]
    known = _OTHER_NAMES.get(name.lower())
    close = [known] if known is not None else get_close_matches(name.lower(), names, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(f'«{each}»' for each in close)}?)" if close else ""


def _parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The words as options; those of a command may stand between its other words too, in any order."""
    found, left = parser.parse_known_args(words)
    return parser.parse_intermixed_args(words) if left else found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; errors become one message, never a traceback of ours."""
    never_fail_to_print()
    try:
        code = _dispatch(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        complain("interrupted.")
        return INTERRUPTED
    except UsageError as error:
        complain(str(error))
        return USAGE
    except BrokenPipeError:  # whoever read our output has gone: nothing is left to be said to them
        _let_go_of_output()
        return FAILED
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        complain(f"the system says: {error.strerror or error}{place}.")
        _let_go_of_output()
        return FAILED
    except (CommandFailed, PlacetError) as error:
        complain(str(error))
        return FAILED


def _let_go_of_output() -> None:
    """What could not be written would be tried again when Python ends, and fail again, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

"""The root of the `placet` command: which commands there are, and how one ends.

A command's module is imported when the command is used, so that the others cost nothing.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from placet import PlacetError, __version__
from placet.cli.exit_codes import FAILED, INTERRUPTED, OK, USAGE
from placet.cli.options import SETTINGS, ExitCodes

COMMANDS = {
    "demo": ("demo.command:demo", "agents work and pause; you decide, and the runs go on"),
    "serve": ("commands.serve:serve", "the desk on the web: API, inbox, and the engine"),
    "run": ("commands.run:run", "start a run and drive it here, until it ends or waits"),
    "runs": ("commands.runs:runs", "list runs; start, cancel and resume them"),
    "inbox": ("commands.inbox:inbox", "decide about what waits, in a full screen"),
    "pending": ("commands.pending:pending", "what waits for a person"),
    "show": ("commands.show:show", "all of a request, or the picture of a run"),
    "approve": ("commands.decide:approve", "say yes"),
    "reject": ("commands.decide:reject", "say no, with a message for the model"),
    "edit": ("commands.decide:edit", "say yes, with other arguments"),
    "respond": ("commands.decide:respond", "answer in the tool's place"),
    "revoke": ("commands.decide:revoke", "take an approval back, until its call begins"),
    "watch": ("commands.watch:watch", "what happens, while it happens"),
    "grants": ("commands.grants:grants", "standing decisions, and what is held back"),
    "policy": ("commands.policy:policy", "rules about calls: check, explain, back-test, suggest"),
    "users": ("commands.people:users", "who may use a desk, and what they may decide"),
    "four-eyes": ("commands.people:four_eyes", "where the person who started a run may not approve its calls"),
    "approvers": ("commands.approvers:approvers", "who has to approve at which tools, and who is told"),
    "delegate": ("commands.approvers:delegate", "let somebody vote for you, for a time"),
    "oncall": ("commands.approvers:oncall", "who is on call, and when"),
    "reviews": ("commands.approvers:reviews", "look at what somebody did alone"),
    "tokens": ("commands.people:tokens", "keys for programs that use a desk"),
    "channels": ("commands.channels:channels", "who is told of what happens: webhooks, mail"),
    "doctor": ("commands.doctor:doctor", "which waiting runs cannot go on with today's code"),
    "audit": ("commands.audit:audit", "who did what, and whether the logs are whole"),
    "samples": ("commands.samples:samples", "what is remembered of decisions, for what is usual"),
    "worker": ("commands.worker:worker", "drive runs out of a PostgreSQL that many share"),
    "top": ("commands.top:top", "a fleet at a glance: workers, runs, what has waited longest"),
    "migrate": ("commands.migrate:migrate", "create a store's schema, or bring it up to date"),
    "port": ("commands.port:port", "move in programs written for the OpenAI Agents SDK"),
    "receipts": ("commands.receipts:receipts", "keys that sign receipts of approved calls"),
    "hook": ("commands.hook:hook", "put the calls of coding assistants before a person"),
    "mcp": ("commands.mcp:mcp", "a gateway in front of MCP servers, which asks people"),
    "completion": ("commands.completion:completion", "a script with which your shell completes all this"),
}
"""Each command with the place of its code in this package, and what it is for."""

_SAME = {"webhooks": "channels"}
"""Second names of commands."""
_OTHER_NAMES = {
    "accept": "approve",
    "yes": "approve",
    "deny": "reject",
    "no": "reject",
    "answer": "respond",
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


class Root(ExitCodes, click.Group):
    """Loads a command when it is used; lists them all without."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        name = _SAME.get(name, name)
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        found: click.Command = getattr(importlib.import_module(f"placet.cli.{module}"), attribute)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # Any: click's tuple of three
        if args[0] not in (*COMMANDS, *_SAME) and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {args[0]!r}{_meant(args[0])}: «placet --help» lists them.")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        found = [(name, summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)]
        return [CompletionItem(name, help=summary) for name, summary in found]


@click.group(
    "placet", cls=Root, context_settings=SETTINGS, epilog="«placet COMMAND --help» says more about a command.",
    subcommand_metavar="COMMAND …", options_metavar="[--version] [--help]", no_args_is_help=False,
)  # fmt: skip
@click.version_option(__version__, prog_name="placet", message="%(prog)s %(version)s", help="print the version")
def root() -> None:
    """Placet runs agents whose tool calls wait for a person's yes where they
    matter, and whose runs survive the wait."""


def complain(text: str) -> None:
    """Say on standard error why the command ends. What draws is imported when there is something to draw."""
    from placet.cli.output import complain as write

    write(text)


def _meant(name: str) -> str:
    """The commands that somebody who wrote this may have meant."""
    known = _OTHER_NAMES.get(name.lower())
    close = [known] if known is not None else get_close_matches(name.lower(), COMMANDS, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(f'«{each}»' for each in close)}?)" if close else ""


def _refuse_what_is_no_text(arguments: Sequence[str]) -> None:
    """Bytes that are not in this system's encoding come as halves of surrogate pairs, which nothing can store."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"{os.fsencode(each)!r} is not text in UTF-8: write it in that encoding.") from None


def _never_fail_to_print() -> None:
    """A character that the output's encoding lacks is written as an escape, and is no error. Neither is an output that
    was closed by the program that started us."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _let_ctrl_c_interrupt() -> None:
    """A process that inherited SIGINT as ignored would ignore the person in front of it, too."""
    if sys.stdin is not None and sys.stdin.isatty() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _dispatch(arguments: Sequence[str]) -> int:
    _refuse_what_is_no_text(arguments)
    if not arguments and "_PLACET_COMPLETE" not in os.environ:
        click.echo(root.make_context("placet", [], resilient_parsing=True).get_help(), err=True)
        return USAGE
    code: int | None = root.main(list(arguments), prog_name="placet", standalone_mode=False)
    return code or OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; errors become one message, never a traceback of ours."""
    _never_fail_to_print()
    _let_ctrl_c_interrupt()
    try:
        code = _dispatch(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted.")
        return INTERRUPTED
    except click.UsageError as error:
        if error.ctx is not None and error.cmd is not None:  # the parser says so, and not the command itself
            click.echo(error.ctx.get_usage(), err=True)
        complain(error.format_message())
        return USAGE
    except BrokenPipeError:  # the program that read our output has ended: there is nobody to be told
        _let_go_of_output()
        return FAILED
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        complain(f"the system says: {error.strerror or error}{place}.")
        _let_go_of_output()
        return FAILED
    except (click.ClickException, PlacetError) as error:
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

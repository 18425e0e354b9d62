"""Options and arguments that several commands take, and how a command with actions finds the one that is meant."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import click
from click import UsageError

from placet.facts.errors import UserError

DEFAULT_STORE = "sqlite:///placet.db"
IN_A_TERMINAL = 50
"""Rows that somebody looks at. A program gets all: it would not notice that some are missing."""
EXIT_CODES = """\
0    done; for a run that means: it has ended, or it waits for a decision
1    failed; the message says what to do next, and what was stored is kept
2    wrong usage; nothing was done
130  interrupted (Ctrl-C); what was decided so far is kept"""
SETTINGS = {"help_option_names": ["-h", "--help"], "terminal_width": 80, "max_content_width": 80}
"""Help in lines of one length, whatever the terminal: it reads the same in the docs."""

Decorated: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Decorated], Decorated]


class ExitCodes(click.Command):
    """A command whose help ends with what its exit codes mean."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(f"\b\n{EXIT_CODES}")


class Actions(ExitCodes, click.Group):
    """A command with actions, of which «list» or «show» is meant where none is written.

    Options may stand before the action too: `placet grants --reason audit hold tool refund`.
    """

    command_class = click.Command
    default = "list"

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are written

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = self._place_of_action(args)
        if place is not None:
            args = [args[place], *args[:place], *args[place + 1 :]]
        elif not (ctx.resilient_parsing or set(args) & set(ctx.help_option_names)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _place_of_action(self, args: Sequence[str]) -> int | None:
        """Where the first word stands that is neither an option nor the value of one."""
        every = [each for command in self.commands.values() for each in command.params]
        with_value = {
            name for each in every if isinstance(each, click.Option) and not each.is_flag for name in each.opts
        }
        is_value = False
        for place, word in enumerate(args):
            if not is_value and not word.startswith("-"):
                return place
            is_value = not is_value and word in with_value
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:  # Any: click's own annotation
        """The actions; and the options of the one that is meant where none is written."""
        return [*super().shell_complete(ctx, incomplete), *self.commands[self.default].shell_complete(ctx, incomplete)]


def command(name: str, **more: Any) -> Callable[[Decorated], click.Command]:  # Any: what click.command takes
    """A command of ours: click.command with our help."""
    return click.command(name, cls=ExitCodes, context_settings=SETTINGS, **more)


def actions(name: str, **more: Any) -> Callable[[Decorated], Actions]:  # Any: what click.group takes
    return click.group(name, cls=Actions, context_settings=SETTINGS, **more)


# -- kinds of values --------------------------------------------------------------------------------------------------


class StoreUrl(click.ParamType[str]):
    """The address of a store; what can be none is wrong usage."""

    name = "url"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        from placet.stores.opening import open_store

        try:
            open_store(str(value))  # it connects at its first use, which this is not
        except UserError as error:
            raise UsageError(str(error)) from error
        return str(value)


class Above(click.FloatRange):
    """A number above another; «nan» and «inf» are none."""

    def __init__(self, least: float) -> None:
        super().__init__(min=least, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


# -- options ----------------------------------------------------------------------------------------------------------


def store_option(function: Decorated) -> Decorated:
    return click.option(
        "--store",
        type=StoreUrl(),
        envvar="PLACET_STORE",
        default=DEFAULT_STORE,
        metavar="URL",
        help="sqlite:///file.db or postgresql://… (default: $PLACET_STORE, or sqlite:///placet.db)",
    )(function)


def json_option(function: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="print one JSON object a line, for programs")(function)


def reason_option(function: Decorated) -> Decorated:
    return click.option("--reason", metavar="TEXT", help="why, for the record")(function)


def agents_argument(*, required: bool = True) -> Decorator:
    return click.argument(
        "agents", metavar="MODULE:NAME" if required else "[MODULE:NAME]", required=required,
        help="where the agents are: an Agent or a list",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command asks: a desk on the web, or straight on a store."""

    desk: str | None = None
    store: str = ""
    token_file: str | None = None
    agents: str | None = None
    """On a store: where the agents' code is."""

    @classmethod
    def chosen(cls, desk: str | None, store: str | None, token_file: str | None, agents: str | None = None) -> Place:
        """What is written beats what the environment says."""
        if desk and store:
            raise UsageError("--desk asks a desk and --store goes straight to a store: write one of them.")
        if not store:
            desk = desk or os.environ.get("PLACET_DESK")
        if desk:
            return cls(desk=desk, token_file=token_file, agents=agents)
        return cls(store=store or StoreUrl().convert(os.environ.get("PLACET_STORE") or DEFAULT_STORE, None, None),
                   token_file=token_file, agents=agents)  # fmt: skip


_DESK_OPTIONS = (
    click.option(
        "--desk",
        metavar="URL",
        help="ask the desk that is served there, with the token in $PLACET_TOKEN (default: $PLACET_DESK, or straight "
        "on the store)",
    ),
    click.option("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN"),
    click.option(
        "--store",
        type=StoreUrl(),
        metavar="URL",
        help="sqlite:///file.db or postgresql://… (default: $PLACET_STORE, or sqlite:///placet.db)",
    ),
    json_option,
)


def desk_options(function: Decorated) -> Decorated:
    """--desk, --token-file and --store, from which the command gets a `place`; and --json."""

    @functools.wraps(function)
    def with_place(
        *, desk: str | None, token_file: str | None, store: str | None, agents: str | None = None, **given: Any
    ) -> Any:
        return function(place=Place.chosen(desk, store, token_file, agents), **given)

    decorated: Decorated = with_place
    for option in reversed(_DESK_OPTIONS):
        decorated = option(decorated)
    return decorated


def agents_option(function: Decorated) -> Decorated:
    return click.option("--agents", metavar="MODULE:NAME", help="on a store: where the agents' code is")(function)


@dataclass(frozen=True, slots=True)
class Paging:
    """How much of a list, and from where on."""

    limit: int | None
    is_whole: bool
    cursor: str | None


def paging_options(function: Decorated) -> Decorated:
    """--limit, --all and --cursor: the command gets a `paging`."""

    @functools.wraps(function)
    def with_paging(*, limit: int | None, is_whole: bool, cursor: str | None, **given: Any) -> Any:
        return function(paging=Paging(limit, is_whole, cursor), **given)

    decorated: Decorated = with_paging
    for option in (
        click.option("--cursor", metavar="CURSOR", help="begin where an earlier list ended"),
        click.option("--all", "is_whole", is_flag=True, help="all of them"),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"how many at most (default: {IN_A_TERMINAL} in a terminal, otherwise all)",
        ),
    ):
        decorated = option(decorated)
    return decorated


def decides_option(function: Decorated) -> Decorated:
    return click.option(
        "--decides",
        multiple=True,
        metavar="AGENT[:TOOL]",
        help="which calls they may decide, by patterns (repeatable; default: all)",
    )(function)

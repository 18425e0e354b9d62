"""`placet hook ASSISTANT`: one process per hook call of a coding assistant. Every error stops the call."""

from __future__ import annotations

import asyncio
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
from click import UsageError

from placet.cli.client import token_of
from placet.cli.commands.hook_settings import PATIENCE_VARIABLE, doctor, install, uninstall
from placet.cli.options import SETTINGS, Above, Actions, Decorated, Place, StoreUrl
from placet.cli.output import shown, this_user
from placet.core.guest import Permit
from placet.facts.addresses import without_credentials
from placet.facts.errors import UserError
from placet.gate.assistants import (
    ASSISTANTS,
    Allowed,
    Answer,
    Assistant,
    Denied,
    HookCall,
    answer_for,
    failure,
    read_call,
)
from placet.gate.hosting import Host
from placet.gate.own_traces import touches_placet
from placet.gate.port import Gate

LONGEST_INPUT = 4_000_000


class Hooks(Actions):
    """None of the actions is meant where none is written: a hook that is called wrongly must stop the call."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            raise UsageError("say which assistant's call this is, or what to do: see «placet hook --help».")
        return click.Group.parse_args(self, ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:  # Any: click's own annotation
        return click.Group.shell_complete(self, ctx, incomplete)


@click.group("hook", cls=Hooks, context_settings=SETTINGS)
def hook() -> None:
    """Put the calls of coding assistants before a person: install the hook, take it out, see whether it works.

    `placet hook claude-code`, `codex` and `cursor` are what an assistant starts before each call.
    """


_OPTIONS = (
    click.option(
        "--desk", metavar="URL", help="the desk that is asked, with the token in $PLACET_TOKEN (default: $PLACET_DESK)"
    ),
    click.option("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN"),
    click.option("--store", type=StoreUrl(), metavar="URL", help="a store instead of a desk (default: $PLACET_STORE)"),
    click.option("--guest", metavar="NAME", help="on a store: who executes the calls (default: the user's name)"),
    click.option(
        "--pass", "passes", multiple=True, metavar="TOOL",
        help="tools about which nobody is asked, by patterns (repeatable); calls that touch Placet are asked about",
    ),
    click.option(
        "--timeout", type=Above(0), default=540.0, metavar="SECONDS",
        help="how long a decision is waited for; then the call does not run (default: 540)",
    ),
)  # fmt: skip


def asking_options(function: Decorated) -> Decorated:
    """Where is asked, and about what."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _for(assistant: Assistant) -> None:
    @hook.command(assistant, help=_HELP.format(assistant), short_help=f"answer a call of {assistant}")
    @asking_options
    def answer(
        *,
        desk: str | None,
        token_file: str | None,
        store: str | None,
        guest: str | None,
        passes: tuple[str, ...],
        timeout: float,
    ) -> int:
        return _answered(assistant, desk, token_file, store, guest, passes, timeout)


_HELP = """Ask about a call that {} is about to execute.

The assistant starts this before each call, writes the call to standard input, and reads the answer. The call runs only
if somebody approved it; whatever goes wrong here stops it."""

for _each in ASSISTANTS:
    _for(_each)
hook.add_command(install)
hook.add_command(uninstall)
hook.add_command(doctor)


def _answered(
    assistant: Assistant,
    desk: str | None,
    token_file: str | None,
    store: str | None,
    guest: str | None,
    passes: tuple[str, ...],
    timeout: float,
) -> int:
    try:
        call = read_call(assistant, _input())
        place = _place(desk, store, token_file)
        answer = asyncio.run(_asked(assistant, call, place, guest, passes, _shorter(timeout)))
    except KeyboardInterrupt:
        answer = failure("The hook was interrupted: the call does not run.")
    except Exception as error:  # noqa: BLE001  # an error that got out would let the call run in some assistants
        answer = failure(f"The call does not run: {without_credentials(str(error) or type(error).__name__)}")
    return _leave(answer)


def _shorter(timeout: float) -> float:
    """What the environment says can only make the wait shorter: `placet hook doctor` does."""
    try:
        return min(timeout, max(0.0, float(os.environ[PATIENCE_VARIABLE])))
    except (KeyError, ValueError):
        return timeout


async def _asked(
    assistant: Assistant, call: HookCall, place: Place, guest: str | None, passes: tuple[str, ...], patience: float
) -> Answer:
    ours = [_file_of(place.store)]
    asks = touches_placet(call.tool, call.arguments, call.folder, ours) or not any(
        fnmatchcase(call.tool, each) for each in passes
    )
    async with _gate(assistant, place, guest, patience) as gate:
        host = Host(gate=gate, needs_approval=asks, timeout=patience)
        # the desk's back-off and a slow store count too: all of it ends before the assistant loses patience
        async with asyncio.timeout(patience + 10):
            found = await host.ask(call.tool, call.arguments, session=call.session, call_id=call.call_id)
    if not isinstance(found, Permit):
        return answer_for(assistant, Denied(found.text))
    edited = None if found.arguments == call.arguments else dict(found.arguments)
    return answer_for(assistant, Allowed(edited, was_asked=asks))


def _gate(assistant: Assistant, place: Place, guest: str | None, patience: float) -> Gate:
    """A hook ends before its call begins, so it cannot report; a reviewer's answer has no place in a hook's words."""
    if place.desk:
        return Gate(
            place.desk, token=token_of(place), source=assistant, reports=False, answers=False,
            patience=min(60.0, patience),
        )  # fmt: skip
    return Gate(place.store, guest=guest or this_user(), source=assistant, reports=False, answers=False)


def _place(desk: str | None, store: str | None, token_file: str | None) -> Place:
    """Said by somebody: the folder in which an assistant works is no place to look for a store."""
    if not (desk or store or os.environ.get("PLACET_DESK") or os.environ.get("PLACET_STORE")):
        raise UserError("No desk and no store is named: set PLACET_DESK and PLACET_TOKEN, or PLACET_STORE.")
    return Place.chosen(desk, store, token_file)


def _file_of(store: str) -> str:
    return Path(store.partition(":///")[2]).name if store.startswith("sqlite:///") else ""


def _input() -> bytes:
    given = sys.stdin.buffer.read(LONGEST_INPUT + 1)
    if len(given) > LONGEST_INPUT:
        raise UserError(f"The call has more than {LONGEST_INPUT:,} bytes: nobody could decide about it.")
    return given


def _leave(answer: Answer) -> int:
    if answer.err:
        print(shown(answer.err, keep_lines=True), file=sys.stderr)
    if answer.out:
        print(answer.out)
    return answer.code

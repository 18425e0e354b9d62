"""`placet demo`: which demo is meant, where it keeps things, and what its options say."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click
from click import ClickException, UsageError

from placet.cli.options import StoreUrl, command
from placet.cli.output import this_user

WHAT_SURVIVES = """\
Everything is in the store, DIR/placet.db, before it counts: a decision before anything follows from it, the beginning
of a call before its effect. The process may be killed at any moment, kill -9 included; run the command again, and it
goes on. What the agents do to the world is a line in DIR/effects.txt, with an idempotency key: a call that is repeated
has its effect once. All other commands work on the same store:

\b
  placet approve ID --store sqlite:///.placet-demo/placet.db
"""


@command("demo", epilog=WHAT_SURVIVES)
@click.option("--port", type=click.IntRange(0, 65535), help="the desk's port (default: 8700, or a free one)")
@click.option("--no-open", is_flag=True, help="do not open the browser")
@click.option("--store", type=StoreUrl(), metavar="URL", help="the store (default: an SQLite file in DIR)")
@click.option("--dir", "folder", type=click.Path(path_type=Path), default=Path(".placet-demo"), metavar="DIR",
              help="the folder of what the demo keeps (default: .placet-demo)")  # fmt: skip
@click.option("--reset", is_flag=True, help="forget what the demo kept, and start afresh")
@click.option("--terminal", is_flag=True, help="decide here, without a desk")
@click.option("--yes", "is_yes", is_flag=True, help="in the terminal: approve all that waits")
@click.option("--no", "no_message", is_flag=False, flag_value="", metavar="[MESSAGE]",
              help="in the terminal: reject all that waits; the model reads MESSAGE")  # fmt: skip
@click.option("--by", metavar="NAME", help="in the terminal: who decides (default: the user of this system)")
@click.option("--json", "as_json", is_flag=True, help="in the terminal: ask nothing, and print a report for programs")
def demo(
    folder: Path,
    store: str | None,
    port: int | None,
    no_message: str | None,
    by: str | None,
    *,
    no_open: bool,
    reset: bool,
    terminal: bool,
    is_yes: bool,
    as_json: bool,
) -> int:
    """Agents work and pause where it matters; you decide, and they go on.

    A desk is started on this machine with a few agents (scripted models, no key needed) and some runs that wait
    already. The inbox opens in the browser, and the terminal shows what waits and draws each run that ends. Approve,
    reject, edit or answer, and the runs go on. Nobody is asked who they are: this is for you alone, and listens on this
    machine alone.

    With --terminal, or with an option that decides, there is no desk: one support agent looks two orders up and asks
    for two refunds. In a terminal the command asks you; elsewhere it decides by --yes or --no, and without them it
    prints what waits, and leaves it waiting.
    """
    in_the_terminal = any([terminal, is_yes, no_message is not None, by, as_json])
    if in_the_terminal and (port is not None or no_open):
        raise UsageError("--port and --no-open are for the desk, the other options for the terminal: choose.")
    if is_yes and no_message is not None:
        raise UsageError("--yes and --no contradict each other: write one of them.")
    if reset:
        shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    url = store or f"sqlite:///{folder.absolute() / 'placet.db'}"
    if not in_the_terminal:
        from placet.cli.demo.at_desk import serve_demo  # the desk on the web is an extra

        return serve_demo(folder, url, port, opens=not no_open)
    from placet.cli.demo.in_terminal import Answer, decide_here

    return decide_here(folder, url, by or this_user(), Answer.by_options(is_yes, no_message), as_json=as_json)


def make_folder(folder: Path) -> None:
    """The folder, for its owner alone and not for git; a sentence where it cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = "" if os.access(folder, os.W_OK | os.X_OK) else "nothing can be written there"
    except OSError as error:
        why = "a file stands in its way" if isinstance(error, FileExistsError) else str(error.strerror)
    if why:
        raise ClickException(f"the demo cannot keep anything in {folder}: {why}. Name another folder with --dir.")
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")

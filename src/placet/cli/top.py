"""`placet top`: a fleet at a glance, looked at again and again."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

import msgspec

from placet.cli.asking import OverHttp, add_desk, settle_place, token_of
from placet.cli.exit_codes import INTERRUPTED, OK, CommandFailed, UsageError
from placet.cli.loading import add_json, store_of
from placet.cli.terminal import Terminal, clipped, has_colours, shown, this_terminal
from placet.cli.top_view import picture
from placet.facts.errors import StoreError
from placet.fleet.figures import FleetNumbers, fleet_numbers

DESCRIPTION = """\
Shows a fleet at a glance, and goes on showing it: who works, what runs and what
waits, how much gets done, what has waited longest. q or Ctrl-C ends it. Where
nobody watches (the output is no terminal) it looks once.
"""
CTRL_C = "\x03"
ENDING = ("q", "Q", CTRL_C, "")
PATIENCE = 2.0
"""Seconds that the last look gets to end."""
Look: TypeAlias = Callable[[], Awaitable[FleetNumbers]]
KEPT = 60
"""Looks that the little chart remembers."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    add_desk(parser)
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="look so often (default: 2)")
    parser.add_argument("--once", action="store_true", help="look once")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if not options.every > 0:
        raise UsageError("between two looks there is some time: --every SECONDS, above 0.")
    settle_place(options)
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    async with _numbers(options) as look:
        if options.json or options.once or not sys.stdout.isatty():
            await _look(look, options)
            return OK
        return await _watch(look, options.every)


@contextlib.asynccontextmanager
async def _numbers(options: argparse.Namespace) -> AsyncIterator[Look]:
    """How to look: by asking a desk, or straight at a store (which is never made by that)."""
    if options.desk:
        desk = OverHttp(str(options.desk), token_of(options))

        async def ask() -> FleetNumbers:
            return msgspec.convert(await asyncio.to_thread(desk.ask, "GET", "/v1/numbers"), FleetNumbers)

        yield ask
        return
    store = store_of(options)
    try:
        yield lambda: fleet_numbers(store)
    finally:
        await store.close()


async def _look(look: Look, options: argparse.Namespace) -> None:
    """Once, or, for programs that want it again and again, a line each time."""
    while True:
        numbers = await look()
        if options.json:
            print(msgspec.json.encode(numbers).decode(), flush=True)
        else:
            this_terminal().print_lines(picture(this_terminal(), numbers, []))
        if options.once or not options.json:
            return
        await asyncio.sleep(options.every)


async def _watch(look: Look, every: float) -> int:
    async with _keys() as keys:
        showing = asyncio.create_task(_keep_showing(look, every))
        try:
            with _whole_screen():
                return await _until_quit(keys, showing)
        finally:
            showing.cancel()
            await asyncio.wait([showing], timeout=PATIENCE)


async def _until_quit(keys: asyncio.Queue[str], showing: asyncio.Task[None]) -> int:
    while True:
        pressed = asyncio.create_task(keys.get())
        await asyncio.wait([pressed, showing], return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            pressed.cancel()
            showing.result()  # it never ends by itself: this raises what ended it
        elif pressed.result() in ENDING:
            return INTERRUPTED if pressed.result() == CTRL_C else OK


async def _keep_showing(look: Look, every: float) -> None:
    history: deque[float] = deque(maxlen=KEPT)
    before: FleetNumbers | None = None
    while True:
        try:
            numbers = await look()
        except (StoreError, CommandFailed) as error:
            _paint(["", f"  {shown(str(error))}"])
        else:
            if before is not None:
                history.append(_rate(before, numbers))
            before = numbers
            _paint(picture(_window(), numbers, list(history)))
        await asyncio.sleep(every)


def _rate(before: FleetNumbers, now: FleetNumbers) -> float:
    """Drives that ended in a second, since the last look."""
    known = {each.id: each.driven for each in before.workers}
    ended = sum(each.driven - known.get(each.id, 0) for each in now.workers if each.driven >= known.get(each.id, 0))
    return ended / max(0.001, now.store.at - before.store.at)


def _window() -> Terminal:
    size = os.get_terminal_size()
    base = this_terminal()
    return Terminal(base.out, max(40, size.columns), has_colours(sys.stdout), base.glyphs)


def _paint(lines: list[str]) -> None:
    """From the top left, each line to its end, and nothing below: without a flicker."""
    size = os.get_terminal_size()
    text = "\033[K\r\n".join(clipped(line, size.columns) for line in lines[: size.lines - 1])
    sys.stdout.write(f"\033[H{text}\033[K\033[J")
    sys.stdout.flush()


@contextlib.contextmanager
def _whole_screen() -> Iterator[None]:
    sys.stdout.write("\033[?1049h\033[?25l")
    sys.stdout.flush()
    try:
        yield
    finally:
        sys.stdout.write("\033[?25h\033[?1049l")
        sys.stdout.flush()


@contextlib.asynccontextmanager
async def _keys() -> AsyncIterator[asyncio.Queue[str]]:
    """Single keys, as they are pressed; an empty text when the terminal is gone. Ctrl-C is a key too: as an exception
    it would break off a statement on its way, and could be lost there."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file) if sys.stdin.isatty() else None
    pressed: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, pressed.put_nowait, CTRL_C)
    if before is not None:
        tty.setcbreak(file)
        loop.add_reader(file, lambda: pressed.put_nowait(os.read(file, 1).decode("latin-1")))
    try:
        yield pressed
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if before is not None:
            loop.remove_reader(file)
            termios.tcsetattr(file, termios.TCSADRAIN, before)

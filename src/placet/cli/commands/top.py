"""`placet top`: a fleet at a glance, looked at again and again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

import click
import msgspec
from click import ClickException
from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placet.cli.client import desk_at
from placet.cli.exit_codes import INTERRUPTED, OK
from placet.cli.loading import store_of
from placet.cli.options import Above, Place, command, desk_options
from placet.cli.output import NARROWEST, Screen, shown
from placet.facts.errors import StoreError
from placet.fleet.figures import FleetNumbers, WorkerNumbers, fleet_numbers

CTRL_C = "\x03"
ENDING = ("q", "Q", CTRL_C, "")
PATIENCE = 2.0
"""Seconds that the last look gets to end."""
Look: TypeAlias = Callable[[], Awaitable[FleetNumbers]]
KEPT = 60
"""Looks that the little chart remembers."""
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=oO#@"
LATE = 3600.0
"""Seconds after which somebody should look at a question that nobody answers."""


@command("top")
@desk_options
@click.option("--every", type=Above(0), default=2.0, metavar="SECONDS", help="look so often (default: 2)")
@click.option("--once", is_flag=True, help="look once")
def top(place: Place, every: float, *, once: bool, as_json: bool) -> int:
    """Show a fleet at a glance, and go on showing it: who works, what runs and what waits, how much gets done, what has
    waited longest.

    q or Ctrl-C ends it. Where nobody watches (the output is no terminal) it looks once.
    """
    return asyncio.run(_top(place, every, once=once, as_json=as_json))


async def _top(place: Place, every: float, *, once: bool, as_json: bool) -> int:
    async with _numbers(place) as look:
        if as_json or once or not sys.stdout.isatty():
            await _look(look, every, once=once, as_json=as_json)
            return OK
        return await _watch(look, every)


@contextlib.asynccontextmanager
async def _numbers(place: Place) -> AsyncIterator[Look]:
    """How to look: by asking a desk, or straight at a store (which is never made by that)."""
    if place.desk:
        async with desk_at(place) as desk:

            async def ask() -> FleetNumbers:
                return msgspec.convert(await desk.ask("GET", "/v1/numbers"), FleetNumbers)

            yield ask
        return
    store = store_of(place.store)
    try:
        yield lambda: fleet_numbers(store)
    finally:
        await store.close()


async def _look(look: Look, every: float, *, once: bool, as_json: bool) -> None:
    """Once, or, for programs that want it again and again, a line each time."""
    while True:
        numbers = await look()
        if as_json:
            print(msgspec.json.encode(numbers).decode(), flush=True)
        else:
            screen = Screen()
            screen.show(picture(screen, numbers, []))
        if once or not as_json:
            return
        await asyncio.sleep(every)


async def _watch(look: Look, every: float) -> int:
    screen = Screen(width=max(NARROWEST, shutil.get_terminal_size((80, 24)).columns))
    async with _keys() as keys:
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            showing = asyncio.create_task(_keep_showing(look, every, live, screen))
            try:
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


async def _keep_showing(look: Look, every: float, live: Live, screen: Screen) -> None:
    history: deque[float] = deque(maxlen=KEPT)
    before: FleetNumbers | None = None
    while True:
        screen.width = max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)  # it may have changed
        try:
            numbers = await look()
        except (StoreError, ClickException) as error:
            live.update(Text(f"\n  {shown(str(error))}"), refresh=True)
        else:
            if before is not None:
                history.append(_rate(before, numbers))
            before = numbers
            live.update(picture(screen, numbers, list(history)), refresh=True)
        await asyncio.sleep(every)


def _rate(before: FleetNumbers, now: FleetNumbers) -> float:
    """Drives that ended in a second, since the last look."""
    known = {each.id: each.driven for each in before.workers}
    ended = sum(each.driven - known.get(each.id, 0) for each in now.workers if each.driven >= known.get(each.id, 0))
    return ended / max(0.001, now.store.at - before.store.at)


@contextlib.asynccontextmanager
async def _keys() -> AsyncIterator[asyncio.Queue[str]]:
    """Single keys, as they are pressed; an empty text when the terminal is gone. Ctrl-C is a key too: as an exception
    it would break off a statement on its way, and could be lost there."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file) if sys.stdin.isatty() else None
    heard: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, heard.put_nowait, CTRL_C)
    if before is not None:
        tty.setcbreak(file)
        loop.add_reader(file, lambda: heard.put_nowait(os.read(file, 1).decode("latin-1")))
    try:
        yield heard
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if before is not None:
            loop.remove_reader(file)
            termios.tcsetattr(file, termios.TCSADRAIN, before)


# -- the picture ------------------------------------------------------------------------------------------------------

_STATE_STYLE = {"working": "green", "stopping": "yellow", "lost": "red"}


def picture(screen: Screen, numbers: FleetNumbers, rates: Sequence[float]) -> Group:
    """`rates`: drives in a second, look after look."""
    working = sum(each.state == "working" for each in numbers.workers)
    return Group(
        _heading("runs"),
        _runs(numbers),
        "",
        _heading("throughput"),
        *_flow(screen, numbers, rates),
        "",
        _heading("questions"),
        _oldest(screen, numbers),
        "",
        _heading(f"workers: {working}"),
        _workers(screen, numbers),
    )


def _heading(text: str) -> Text:
    return Text(text, "bold cyan")


def _runs(numbers: FleetNumbers) -> Text:
    store = numbers.store
    cells = [
        ("driven", store.driven, "green"),
        ("due", store.due, "yellow" if store.due_seconds > 5 else ""),
        ("waiting for people", store.waiting, ""),
        ("stopped", store.stopped, "red" if store.stopped else ""),
        ("parked", store.parked, "red" if store.parked else ""),
    ]
    parts = [Text.assemble((f"{count:,}", f"bold {style}".rstrip()), f" {name}") for name, count, style in cells]
    return Text("  ").append_text(Text("   ").join(parts))


def _flow(screen: Screen, numbers: FleetNumbers, rates: Sequence[float]) -> list[Text]:
    line = Text.assemble("  ", (f"{numbers.store.ended_last_minute:,}", "bold"), " runs ended in the last minute")
    if rates:
        line.append("   ").append(f"{rates[-1]:.1f}", "bold").append(" drives/s  ").append(
            _chart(screen, rates), "cyan"
        )
    behind = f"  {numbers.rings:,} rings not heard yet"
    if numbers.store.due:
        behind += f"; the first run that is due has waited {duration(numbers.store.due_seconds)}"
    return [line, Text(behind)]


def _chart(screen: Screen, rates: Sequence[float]) -> str:
    most = max(rates) or 1.0
    bars = BARS if screen.encoding.startswith("utf") else PLAIN_BARS
    return "".join(bars[round((len(bars) - 1) * rate / most)] for rate in rates[-30:])


def _oldest(screen: Screen, numbers: FleetNumbers) -> Text:
    oldest = numbers.store.oldest_request
    if oldest is None:
        return Text("  nobody is asked anything")
    age = duration(oldest.seconds)
    room = max(10, screen.width - 40 - cell_len(age))
    what = screen.shorten(f"{oldest.tool} ({oldest.agent}), {oldest.id}", room)
    style = "bold yellow" if oldest.seconds > LATE else "bold"
    return Text.assemble(
        "  ", (f"{numbers.store.pending:,}", "bold"), " wait; the oldest for ", (age, style), f": {what}"
    )


def _workers(screen: Screen, numbers: FleetNumbers) -> Text | Padding:
    if not numbers.workers:
        return Text("  none is listed: placet worker starts one")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("name", "state", "driving", "ended", "up", "seen", "code", "agents"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("driving", "ended", "up", "seen") else "left")
    for each in numbers.workers:
        table.add_row(*_worker(screen, each))
    return Padding(table, (0, 0, 0, 2))


def _worker(screen: Screen, each: WorkerNumbers) -> list[Text]:
    plain = [f"{each.driving}/{each.capacity}", f"{each.driven:,}", duration(each.up), duration(each.seconds)]
    return [
        Text(screen.shorten(each.name, 30)),
        Text(each.state, _STATE_STYLE.get(each.state, "dim")),
        *map(Text, plain),
        Text(each.code[:8]),
        Text(shown(", ".join(each.agents))),
    ]


def duration(seconds: float) -> str:
    """Short and of one size: 3s, 12m, 5h, 9d."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"

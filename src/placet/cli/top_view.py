"""The picture that `placet top` shows: numbers of a fleet as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from placet.cli.terminal import Style, Terminal, width_of
from placet.fleet.figures import FleetNumbers, WorkerNumbers

BARS = "▁▂▃▄▅▆▇█"
LATE = 3600.0
"""Seconds after which somebody should look at a question that nobody answers."""


def picture(terminal: Terminal, numbers: FleetNumbers, rates: Sequence[float]) -> list[str]:
    """`rates`: drives in a second, look after look."""
    return [
        *_runs(terminal, numbers),
        "",
        *_flow(terminal, numbers, rates),
        "",
        *_oldest(terminal, numbers),
        "",
        *_workers(terminal, numbers),
    ]


def _runs(terminal: Terminal, numbers: FleetNumbers) -> list[str]:
    store = numbers.store
    cells: list[tuple[str, int, Style | None]] = [
        ("driven", store.driven, "green"),
        ("due", store.due, "yellow" if numbers.store.due_seconds > 5 else None),
        ("waiting for people", store.waiting, None),
        ("stopped", store.stopped, "red" if store.stopped else None),
        ("parked", store.parked, "red" if store.parked else None),
    ]
    return [_heading(terminal, "runs"), "  " + "   ".join(_cell(terminal, *cell) for cell in cells)]


def _cell(terminal: Terminal, name: str, count: int, style: Style | None) -> str:
    number = f"{count:,}"
    return f"{terminal.paint(number, style, 'bold') if style else terminal.paint(number, 'bold')} {name}"


def _flow(terminal: Terminal, numbers: FleetNumbers, rates: Sequence[float]) -> list[str]:
    line = f"  {terminal.paint(f'{numbers.store.ended_last_minute:,}', 'bold')} runs ended in the last minute"
    if rates:
        line += f"   {terminal.paint(f'{rates[-1]:.1f}', 'bold')} drives/s  {_chart(terminal, rates)}"
    behind = f"  {numbers.rings:,} rings not heard yet"
    if numbers.store.due:
        behind += f"; the first run that is due has waited {duration(numbers.store.due_seconds)}"
    return [_heading(terminal, "throughput"), line, behind]


def _chart(terminal: Terminal, rates: Sequence[float]) -> str:
    most = max(rates) or 1.0
    bars = BARS if terminal.glyphs.rule == "─" else "_.-=oO#@"
    return terminal.paint("".join(bars[round((len(bars) - 1) * rate / most)] for rate in rates[-30:]), "cyan")


def _oldest(terminal: Terminal, numbers: FleetNumbers) -> list[str]:
    heading = _heading(terminal, "questions")
    oldest = numbers.store.oldest_request
    if oldest is None:
        return [heading, "  nobody is asked anything"]
    age = duration(oldest.seconds)
    painted = terminal.paint(age, "yellow", "bold") if oldest.seconds > LATE else terminal.paint(age, "bold")
    what = f"{oldest.tool} ({oldest.agent}), {oldest.id}"
    room = max(10, terminal.width - 40 - width_of(age))
    count = terminal.paint(f"{numbers.store.pending:,}", "bold")
    return [heading, f"  {count} wait; the oldest for {painted}: {terminal.shorten(what, room)}"]


def _workers(terminal: Terminal, numbers: FleetNumbers) -> list[str]:
    working = sum(each.state == "working" for each in numbers.workers)
    heading = _heading(terminal, f"workers: {working}")
    if not numbers.workers:
        return [heading, "  none is listed: «placet worker» starts one"]
    names = max(8, min(30, max(width_of(each.name) for each in numbers.workers)))
    head = f"  {'name':<{names}}  {'state':<8}  {'driving':>9}  {'ended':>9}  {'up':>6}  {'seen':>6}  code      agents"
    return [heading, terminal.paint(head, "dim"), *(_worker(terminal, each, names) for each in numbers.workers)]


def _worker(terminal: Terminal, each: WorkerNumbers, names: int) -> str:
    name = terminal.shorten(each.name, names)
    padded = name + " " * max(0, names - width_of(name))
    states: dict[str, Style] = {"working": "green", "stopping": "yellow", "lost": "red"}
    state = terminal.paint(f"{each.state:<8}", states.get(each.state, "dim"))
    line = (
        f"  {padded}  {state}  {f'{each.driving}/{each.capacity}':>9}  {each.driven:>9,}  {duration(each.up):>6}  "
        f"{duration(each.seconds):>6}  {each.code[:8]:<8}  "
    )
    room = max(8, terminal.width - names - 64)
    return line + terminal.shorten(", ".join(each.agents), room)


def _heading(terminal: Terminal, text: str) -> str:
    return terminal.paint(text, "cyan", "bold")


def duration(seconds: float) -> str:
    """Short and of one size: 3s, 12m, 5h, 9d."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"

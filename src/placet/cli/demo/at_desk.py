"""The demo at a desk: runs that wait, the inbox in a browser, and in the terminal what waits and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

from click import ClickException
from rich.cells import cell_len
from rich.live import Live
from rich.table import Table
from rich.text import Text

from placet.cli.demo.agents import FIRST_RUNS, LATER_RUN, demo_agents
from placet.cli.demo.in_terminal import story_in
from placet.cli.output import Screen, shown, this_user
from placet.cli.picture import argument_text, run_picture
from placet.cli.serving import DEFAULT_PORT, Serving, bind, log_to_stderr, need_the_extra, serve_until_stopped
from placet.desk.desk import Desk
from placet.facts.verdict_words import counted

LATER_SECONDS = 40.0
PAUSE_SECONDS = 30.0
NEWS_SECONDS = 5.0


def serve_demo(folder: Path, store: str, port: int | None, *, opens: bool) -> int:
    """Serve the demo until it is stopped."""
    need_the_extra()
    log_to_stderr(logging.WARNING)
    given = Serving(
        store=store,
        agents=demo_agents(folder),
        port=_port(port),
        is_open=True,
        open_name=this_user(),
        opens_browser=opens,
    )

    def announce(url: str, _key: str | None) -> None:
        print(f"The inbox is at {url}\n")
        print("Six runs of four agents have come in, and wait where it matters. Decide, and watch them go on.")
        print(f"What they do to the world is written to {folder / 'effects.txt'}.")
        print("Ctrl-C ends the desk; what waits goes on waiting, and is there again next time.\n", flush=True)

    return asyncio.run(serve_until_stopped(given, announce, _work_and_show))


def _port(wanted: int | None) -> int:
    """The one that was asked for; otherwise the usual one, or a free one if that is taken."""
    if wanted is not None:
        return wanted
    try:
        bind("127.0.0.1", DEFAULT_PORT).close()
    except ClickException:
        return 0
    return DEFAULT_PORT


async def _work_and_show(desk: Desk) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_bring_work(desk))
        tasks.create_task(_show(desk))


async def _bring_work(desk: Desk) -> None:
    """Runs that wait, once for a store; and one that comes in later, so that there is something to see live."""
    if (await desk.runs(limit=1)).rows:
        return
    for agent, asked, by in FIRST_RUNS:
        run = await desk.start(agent, asked, by=by)
        with contextlib.suppress(TimeoutError):
            await desk.wait(run.id, until="paused", timeout=PAUSE_SECONDS)
    await asyncio.sleep(LATER_SECONDS)
    agent, asked, by = LATER_RUN
    await desk.start(agent, asked, by=by)


# -- the picture ------------------------------------------------------------------------------------------------------


async def _show(desk: Desk) -> None:
    """Draw each run that ends; below that, what waits now. In a pipe, a line for each request that comes in."""
    screen = Screen()
    ended = {run.id for run in (await desk.runs(status="ended")).rows}
    told: set[str] = set()
    with Live(console=screen, auto_refresh=False) if screen.is_terminal else contextlib.nullcontext() as live:
        while True:
            latest = await desk.store.latest_sequence()
            for run in reversed((await desk.runs(status="ended")).rows):
                if run.id not in ended:
                    ended.add(run.id)
                    screen.print(run_picture(await story_in(desk, run.id), run.id, screen), "")
            table, new = await _waiting(desk, screen, told)
            if live is not None:
                live.update(table, refresh=True)
            else:
                screen.show(*new)
            await desk.store.wait_for_news(latest, NEWS_SECONDS)


async def _waiting(desk: Desk, screen: Screen, told: set[str]) -> tuple[Table, list[Text]]:
    """What waits, as a table; and a line for each request that was not told yet."""
    found = await desk.pending()
    title = Text(f"{counted(len(found), 'call')} {'waits' if len(found) == 1 else 'wait'} for you", "bold yellow")
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in ("agent", "tool", "arguments"):
        table.add_column(name, no_wrap=True)
    new: list[Text] = []
    names = max((cell_len(f"{shown(each.agent)}  {shown(each.tool)}") for each in found), default=0)
    room = max(10, screen.width - names - 14)  # the longest agent and the longest tool need not be those of one call
    for request in found:
        agent, tool = shown(request.agent), shown(request.tool)
        arguments = argument_text(request.arguments)
        table.add_row(Text(agent, "cyan"), Text(tool, "bold"), Text(screen.shorten(arguments, room)))
        if request.id not in told:
            told.add(request.id)
            new.append(Text(f"{screen.signs.waits} {agent} waits with {tool} {arguments}", no_wrap=True))
    return table, new

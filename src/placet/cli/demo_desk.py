"""The demo at a desk: the agents of `demo_agents`, runs that wait, and the inbox in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from pathlib import Path

from placet.cli.demo_agents import FIRST_RUNS, LATER_RUN, demo_agents
from placet.cli.demo_folder import make_folder
from placet.cli.exit_codes import CommandFailed
from placet.cli.loading import this_user
from placet.cli.serving import DEFAULT_PORT, Serving, bind, log_to_stderr, need_the_extra, serve_until_stopped
from placet.desk.desk import Desk

LATER_SECONDS = 40.0
PAUSE_SECONDS = 30.0


def serve_demo(folder: Path, *, store: str | None, port: int | None, opens: bool, starts_afresh: bool) -> int:
    """Serve the demo until it is stopped."""
    need_the_extra()
    log_to_stderr(logging.WARNING)
    place = folder.absolute() / "desk"
    if starts_afresh:
        shutil.rmtree(place, ignore_errors=True)
    make_folder(place)
    given = Serving(
        store=store or f"sqlite:///{place / 'placet.db'}",
        agents=demo_agents(place),
        port=_port(port),
        is_open=True,
        open_name=this_user(),
        opens_browser=opens,
    )

    def announce(url: str, _key: str | None) -> None:
        print(f"The inbox is at {url}\n")
        print("Six runs of four agents have come in, and wait where it matters. Decide, and watch them go on.")
        print(f"What they do to the world is written to {place / 'effects.txt'}.")
        print("Ctrl-C ends the desk; what waits goes on waiting, and is there again next time.", flush=True)

    return asyncio.run(serve_until_stopped(given, announce, _bring_work))


def _port(wanted: int | None) -> int:
    """The one that was asked for; otherwise the usual one, or a free one if that is taken."""
    if wanted is not None:
        return wanted
    try:
        bind("127.0.0.1", DEFAULT_PORT).close()
    except CommandFailed:
        return 0
    return DEFAULT_PORT


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

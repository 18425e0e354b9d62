"""A worker on a durable store, to be killed: `python -m tests.mcp.worker begin | look STORE EFFECTS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from placet.desk import Desk
from placet.stores.opening import open_store
from tests.mcp.scenes import DONE, Effects, agent_with, call, stdio_shop


async def main(what: str, store: str, effects: str) -> None:
    agent = agent_with(
        stdio_shop(Effects(Path(effects))), steps=[[call("slow", "c1", name="a", seconds=60)], DONE], name="ops"
    )
    async with Desk(open_store(store, lease_ttl=3.0), agents=[agent]) as desk:
        if what == "begin":
            run = await desk.start("ops", "go")
            await desk.wait(run.id, until="ended", timeout=120)
            return
        (run,) = (await desk.runs()).rows
        await desk.wait(run.id, until="paused", timeout=120)
        (request,) = await desk.pending()
        sys.stdout.write(f"{request.kind} {request.tool}: {request.why}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

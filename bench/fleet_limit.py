"""The limit of the fleet's benchmark: a worker of Procrastinate whose jobs do nothing. Run as a program, it works."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.fleet_agents import note_time

CONCURRENCY = 16


def make_app(url: str) -> App:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=4))

    @app.task(name="bench:nothing")
    async def nothing(**_: Any) -> None:
        return

    @app.task(name="bench:note")
    async def note(key: str) -> None:
        note_time(key)

    return app


async def main(url: str) -> None:
    app = make_app(url)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="never")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

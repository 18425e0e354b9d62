"""The desk that `dev.py bench gate` asks: a process of its own, `python -m bench.systems.gate_desk STORE WAITING`.

It says where it listens and with which tokens, as one line of JSON. Then it answers each line of its input with the
seconds of processor time that it has used, and the number of waits that are open.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time

from placet.desk import Desk
from placet.desk.app import create_app
from placet.desk.server import new_server
from placet.desk.web.settings import WebSettings
from placet.desk.web.sockets import listen
from placet.service.guest_limits import GuestLimits
from placet.stores.sqlite import SQLiteStore


async def main(path: str, waiting: int) -> None:
    limits = GuestLimits(max_waiting=waiting + 100, asks_per_second=1e6, burst=10**6)
    async with SQLiteStore(path) as store, Desk(store, run=False, guest_limits=limits) as desk:
        app = create_app(desk, WebSettings(requests_per_second=1e9, burst=10**9))
        tokens = {}
        for name, role in (("guest", "guest"), ("ana", "reviewer")):
            await app.state.web.accounts.add_user(name, role)
            tokens[name], _ = await app.state.web.accounts.add_token(name, "bench")
        listening = listen("127.0.0.1", 0)
        server = new_server(app)
        serving = asyncio.create_task(server._serve([listening]))
        await server.is_ready.wait()
        print(json.dumps({"at": f"http://127.0.0.1:{listening.getsockname()[1]}", **tokens}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(time.process_time(), desk.guests.watcher.waits, flush=True)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""Placet's desk for the works over HTTP: a real server, a store in a file, requests that wait."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from bench.work import ServedDesk
from placet.desk import Desk
from placet.desk.app import create_app
from placet.desk.server import new_server
from placet.desk.web.settings import WebSettings
from placet.desk.web.sockets import listen
from placet.stores.sqlite import SQLiteStore
from placet.testing.desk_contracts import RunWriter

CALLS_OF_A_RUN = 10
AT_ONCE = 500


async def _requests(store: SQLiteStore, pending: int) -> list[str]:
    found: list[str] = []
    sizes = [CALLS_OF_A_RUN] * (pending // CALLS_OF_A_RUN) + [pending % CALLS_OF_A_RUN] * (pending % CALLS_OF_A_RUN > 0)
    for start in range(0, len(sizes), AT_ONCE):
        asked = (RunWriter().ask(store, *["refund"] * size) for size in sizes[start : start + AT_ONCE])
        found += [each for ids in await asyncio.gather(*asked) for each in ids]
    return found


@asynccontextmanager
async def serve_desk(pending: int) -> AsyncIterator[ServedDesk]:
    settings = WebSettings(requests_per_second=1e9, burst=10**9)
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(f"{folder}/placet.db") as store, Desk(store, run=False) as desk:
            ids = await _requests(store, pending)
            app = create_app(desk, settings)
            await app.state.web.accounts.add_user("bench", "reviewer")
            token, _ = await app.state.web.accounts.add_token("bench", "bench")
            listening = listen("127.0.0.1", 0)
            server = new_server(app)
            serving = asyncio.create_task(server._serve([listening]))
            await server.is_ready.wait()
            body = json.dumps({"decision": "approve", "reason": "checked"}).encode()

            async def count() -> int:
                return (await store.numbers()).pending

            # one of each run, so that no two clients append to one log
            order = [each for first in range(CALLS_OF_A_RUN) for each in ids[first::CALLS_OF_A_RUN]]
            try:
                yield ServedDesk(
                    port=listening.getsockname()[1],
                    headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/html"},
                    decisions=[(f"/v1/approvals/{quote(each, safe='')}/decisions", body) for each in order],
                    pages={"list": "/v1/approvals?limit=50", "inbox": "/inbox"},
                    events="/v1/events",
                    count_pending=count,
                )
            finally:
                server.should_exit = True
                await serving

"""Run as a program: drives a run whose log is in a file until somebody kills it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from placet import RunState
from placet.stores.opening import open_store
from tests.models.runs.scenes import drive, model_at, shop


async def go_on(order: dict[str, Any]) -> None:
    model, client = model_at("responses", order["url"])
    async with client, open_store(order["store"], lease_ttl=2) as store:
        agent = shop(model).agent
        state: Any = await RunState.from_string(agent, order["text"])
        await drive(agent, state, streamed=order["streamed"], store=store)


if __name__ == "__main__":
    asyncio.run(go_on(json.loads(sys.stdin.read())))

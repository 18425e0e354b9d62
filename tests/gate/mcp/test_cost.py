"""What the gateway costs, counted and not timed: round trips, tasks and timers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from mcp.server import MCPServer

from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.upstream import Upstream
from tests.gate.mcp.scenes import PATIENCE, Scene, client_of, handle_of, text_of, until
from tests.gate.mcp.test_tasks import as_task

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
DONE: list[str] = []


def _server(number: int) -> MCPServer:
    server = MCPServer(f"server-{number}")

    def act(what: str) -> str:
        DONE.append(what)
        return f"acted {what}"

    for each in range(20):
        server.add_tool(act, name=f"act_{number}_{each}", description="Act.")
    return server


servers = {f"s{number}": _server(number) for number in range(10)}
s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = servers.values()
TEN = {name: ServerConfig(python=f"tests.gate.mcp.test_cost:{name}") for name in servers}


@ERAS
async def test_two_hundred_tools_of_ten_servers_are_one_round_trip_to_each(
    at: Scene, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    request = Upstream.request

    async def counting(self: Upstream, method: str, params: Any, **more: Any) -> Any:
        asked[self.name, method] += 1
        return await request(self, method, params, **more)

    async with at.gateway(TEN, wait=["handle"]) as gateway, client_of(gateway, mode) as client:
        monkeypatch.setattr(Upstream, "request", counting)
        tools = (await client.list_tools()).tools
        lists = {name: asked[name, "tools/list"] for name in TEN}
        for number in range(3):
            await client.call_tool(f"act_{number}_7", {"what": "x"})
        after = {name: asked[name, "tools/list"] for name in TEN}

    assert len(tools) == 201
    assert lists == dict.fromkeys(TEN, 1)
    assert after == lists  # a call asks for no list


async def test_five_hundred_waiting_calls_hold_no_task_each(at: Scene) -> None:
    DONE.clear()
    one = {"s0": TEN["s0"]}
    async with (
        at.gateway(one, wait=["task", "handle"], max_waiting=1000) as gateway,
        client_of(gateway) as client,
        asyncio.timeout(PATIENCE * 4),
    ):
        await client.call_tool("act_0_0", {"what": "first"})
        before = len(asyncio.all_tasks())
        tasks = [(await as_task(client, "act_0_0", {"what": f"t{number}"}))["taskId"] for number in range(250)]
        told = [await client.call_tool("act_0_0", {"what": f"h{number}"}) for number in range(249)]
        [calls] = [each for name, each in gateway._guests.items() if name == "mcp"]
        await until(lambda: calls.waiting == 500)
        during = len(asyncio.all_tasks())
        handles = {handle_of(each) for each in told}

    assert len(set(tasks) | handles) == 499
    assert during - before <= 10  # one question to the store for each 64 of them
    assert DONE == []


async def test_calls_that_are_held_open_share_one_timer(at: Scene) -> None:
    heard: Counter[int] = Counter()

    def hearing(number: int) -> Any:
        async def hear(*_: object) -> None:
            heard[number] += 1

        return hear

    async with (
        at.gateway({"s0": TEN["s0"]}, wait=["open"], progress_every=0.2) as gateway,
        client_of(gateway) as client,
    ):
        calls = [
            asyncio.create_task(client.call_tool("act_0_0", {"what": str(n)}, progress_callback=hearing(n)))
            for n in range(20)
        ]
        await at.waiting(20)
        await until(lambda: len(heard) == 20 and min(heard.values()) >= 2)
        beats = [task for task in asyncio.all_tasks() if "Pulse._beat" in str(task.get_coro())]
        for _ in calls:
            await at.decide()
        done = {text_of(each) for each in await asyncio.gather(*calls)}

    assert len(beats) == 1
    assert done == {f"acted {number}" for number in range(20)}

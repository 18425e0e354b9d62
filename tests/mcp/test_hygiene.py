"""Connections and tasks: whoever connects, asks, is cancelled or leaves, nothing is torn and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from placet import Runner
from tests.mcp.scenes import DONE, Effects, agent_with, call, children, outputs, own_shop, stdio_shop


async def test_a_run_connects_by_itself_and_lets_the_server_go_when_it_ends(effects: Effects) -> None:
    agent = agent_with(stdio_shop(effects), steps=[[call("add", "c1", a=1, b=2)], DONE])

    result = await Runner.run(agent, "go")

    assert result.final_output == "done"
    assert children() == set()


async def test_a_server_that_was_entered_stays_connected_from_one_run_to_the_next(effects: Effects) -> None:
    server = stdio_shop(effects)
    async with server:
        (first,) = children()
        for _ in range(2):
            await Runner.run(agent_with(server, steps=[[call("add", "c1", a=1, b=2)], DONE]), "go")
        (last,) = children()

    assert first == last
    assert children() == set()


async def test_it_may_be_left_by_another_task_than_the_one_that_entered_it(effects: Effects) -> None:
    server = stdio_shop(effects)

    await asyncio.create_task(server.connect())
    found = await asyncio.create_task(server.call_tool("add", {"a": 1, "b": 2}))
    await asyncio.create_task(server.cleanup())

    assert found.structured_content == {"result": 3}
    assert children() == set()


async def test_a_task_that_is_cancelled_in_the_middle_of_a_call_does_not_tear_the_connection(effects: Effects) -> None:
    server = stdio_shop(effects)
    async with server:
        slow = asyncio.create_task(server.call_tool("slow", {"name": "a", "seconds": 60}))
        await effects.wait_for("begin a")
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        found = await server.call_tool("add", {"a": 1, "b": 2})

    assert found.structured_content == {"result": 3}


async def test_a_task_that_is_cancelled_while_it_connects_leaves_nothing_behind(effects: Effects) -> None:
    server = stdio_shop(effects)
    for pause in (0, 0.01, 0.2):
        connecting = asyncio.create_task(server.connect())
        await asyncio.sleep(pause)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")]

    assert left == []
    assert children() == set()


async def test_many_tasks_that_come_at_once_share_one_connection(effects: Effects) -> None:
    server = stdio_shop(effects)
    async with server:
        found = await asyncio.gather(*(server.call_tool("add", {"a": n, "b": n}) for n in range(20)))
        processes = len(children())

    assert [each.structured_content["result"] for each in found] == [2 * n for n in range(20)]
    assert processes == 1


def test_a_server_serves_one_event_loop_after_the_other() -> None:
    server = own_shop()
    agent = agent_with(server, steps=[[call("add", "c1", a=1, b=2)], DONE] * 2)

    results = [Runner.run_sync(agent, "go") for _ in range(2)]

    assert [outputs(result)["c1"] for result in results] == ["3", "3"]
    gc.collect()
    assert len(server._lines) == 0


async def test_two_event_loops_use_a_server_at_the_same_time() -> None:
    server = own_shop()

    def elsewhere() -> Any:
        return Runner.run_sync(agent_with(server, steps=[[call("add", "c1", a=3, b=3)], DONE]), "go")

    async with server:
        there, here = await asyncio.gather(
            asyncio.to_thread(elsewhere),
            Runner.run(agent_with(server, steps=[[call("add", "c1", a=1, b=2)], DONE]), "go"),
        )

    assert (outputs(there)["c1"], outputs(here)["c1"]) == ("6", "3")


async def test_closing_more_often_than_opening_is_harmless() -> None:
    server = own_shop()
    await server.cleanup()
    await server.connect()
    await server.cleanup()
    await server.cleanup()

    async with server:
        assert (await server.call_tool("add", {"a": 1, "b": 1})).structured_content == {"result": 2}

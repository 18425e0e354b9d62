"""Servers and workers that die in the middle of a call: it is in doubt or reported, never silently repeated."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from placet import Happened, Runner, RunState, ToolsetUnavailable
from placet.testing import ModelStep
from tests.mcp.scenes import (
    DONE,
    ROOT,
    Effects,
    ShopProcess,
    agent_with,
    call,
    children,
    outputs,
    run_program,
    running,
    stdio_shop,
    until,
)

SLOW = call("slow", "c1", name="a", seconds=60)
DIE = call("die", "c1", how="now")


@pytest.mark.promise("P4")
async def test_a_call_whose_server_process_died_is_in_doubt_and_its_siblings_are_not_lost(effects: Effects) -> None:
    steps = [[DIE], DONE]
    agent = agent_with(stdio_shop(effects), steps=steps)

    result = await Runner.run(agent, "go")

    (item,) = result.interruptions
    assert item.kind == "in_doubt"
    assert "the connection to MCP server 'shop' broke while it ran" in (item.why or "")
    assert outputs(result) == {}
    assert effects.lines == ["dying"]


@pytest.mark.parametrize("verdict", ["approve", "respond", "reject"])
async def test_a_person_settles_a_call_in_doubt_and_the_server_is_started_again(effects: Effects, verdict: str) -> None:
    agent = agent_with(stdio_shop(effects), steps=[[DIE], DONE])
    paused = await Runner.run(agent, "go")
    state = await RunState.from_string(agent, paused.to_state().to_string())
    if verdict == "respond":
        state.respond("c1", "it happened")
    else:
        getattr(state, verdict)("c1")

    result = await Runner.run(agent, state)

    assert result.final_output == "done"
    assert effects.lines == (["dying", "survived"] if verdict == "approve" else ["dying"])
    assert {"approve": "survived", "respond": "it happened"}.get(verdict, "It is unknown") in outputs(result)["c1"]


@pytest.mark.parametrize("kind", ["http", "json", "sse"])
async def test_a_server_behind_a_url_that_is_killed_in_the_middle_of_a_call_leaves_it_in_doubt(
    effects: Effects, kind: str
) -> None:
    with running(effects, kind) as process:
        agent = agent_with(process.server(), steps=[[SLOW, call("add", "c2", a=1, b=2)], DONE])
        result = Runner.run_streamed(agent, "go")
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_output":  # of the sibling, which is done and recorded
                await effects.wait_for("begin a")
                process.kill()

    assert [(item.name, item.kind) for item in result.interruptions] == [("slow", "in_doubt")]
    assert outputs(result) == {"c2": "3"}
    assert effects.lines == ["begin a"]


async def test_calls_of_a_server_that_was_restarted_go_to_the_new_process(effects: Effects) -> None:
    with running(effects, "http") as process:
        server = process.server(cache_tools_list=True)
        async with server:
            first = await server.call_tool("add", {"a": 1, "b": 2})
            process.kill()
            again = ShopProcess(effects, "http", port=process.port)
            try:
                second = await server.call_tool("add", {"a": 3, "b": 4})
            finally:
                again.close()

    assert [first.structured_content, second.structured_content] == [{"result": 3}, {"result": 7}]


async def test_a_session_that_a_restarted_server_does_not_know_is_opened_anew(effects: Effects) -> None:
    with running(effects, "http") as process:
        server = process.server(protocol="legacy")
        async with server:
            await server.call_tool("refund", {"order_id": "1", "cents": 1})
            process.kill()
            again = ShopProcess(effects, "http", port=process.port)
            try:
                listed = await server.list_tools()
                await server.call_tool("refund", {"order_id": "2", "cents": 2})
            finally:
                again.close()

    assert "refund" in {tool.name for tool in listed}
    assert effects.lines == ["refund 1 1", "refund 2 2"]


async def test_a_call_that_certainly_did_not_reach_a_server_is_reported_as_not_run(effects: Effects) -> None:
    with running(effects, "http") as process:
        server = process.server(cache_tools_list=True)

        def die_first(_request: Any) -> ModelStep:
            process.kill()
            return ModelStep(output=[call("refund", "c1", order_id="1", cents=1)])

        steps = [die_first, DONE]
        agent = agent_with(server, steps=steps)
        async with server:
            with pytest.raises(ToolsetUnavailable) as caught:
                await Runner.run(agent, "go")
            again = ShopProcess(effects, "http", port=process.port)
            try:
                result = await Runner.run(agent, caught.value.state)
            finally:
                again.close()

    assert result.final_output == "done"
    assert "cannot be reached" in outputs(result)["c1"]
    assert "Nothing was run" in outputs(result)["c1"]
    assert effects.lines == []


async def test_a_worker_that_is_killed_in_the_middle_of_a_call_leaves_it_in_doubt_for_the_next(
    effects: Effects, tmp_path: Any
) -> None:
    store = f"sqlite:///{tmp_path}/desk.db"
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.mcp.worker", "begin", store, str(effects.path), cwd=ROOT
    )
    await effects.wait_for("begin a")
    worker.send_signal(signal.SIGKILL)
    await worker.wait()

    said = await run_program("tests.mcp.worker", "look", store, str(effects.path))

    assert said == "in_doubt slow: its worker is gone, and it is unknown whether it happened\n"
    assert effects.lines.count("begin a") == 1


@pytest.mark.parametrize("recovery", ["by_hints", "retry"])
async def test_only_who_says_so_gets_a_broken_call_repeated(effects: Effects, recovery: Any) -> None:
    agent = agent_with(stdio_shop(effects, recovery=recovery), steps=[[DIE], DONE])

    result = await Runner.run(agent, "go")

    assert result.final_output == "done"
    assert effects.lines == ["dying", "survived"]


async def test_hints_do_not_repeat_what_the_server_does_not_call_harmless(effects: Effects) -> None:
    with running(effects, "http") as process:
        agent = agent_with(process.server(recovery="by_hints"), steps=[[SLOW], DONE])
        going = asyncio.create_task(Runner.run(agent, "go"))
        await effects.wait_for("begin a")
        process.kill()
        result = await going

    assert [item.kind for item in result.interruptions] == ["in_doubt"]


async def test_a_call_that_kills_its_server_each_time_is_not_repeated_for_ever(effects: Effects) -> None:
    agent = agent_with(stdio_shop(effects, recovery="by_hints"), steps=[[call("always_die", "c1")], DONE])

    result = await Runner.run(agent, "go")

    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert effects.lines == ["dying"] * 3


async def test_a_function_finds_out_what_became_of_a_broken_call(effects: Effects) -> None:
    def look(ctx: Any, arguments: Any) -> Happened:
        return Happened(f"{ctx.tool_name} {arguments['how']}: {effects.lines[-1]}")

    agent = agent_with(stdio_shop(effects, recovery=look), steps=[[DIE], DONE])

    result = await Runner.run(agent, "go")

    assert outputs(result)["c1"] == "die now: dying"
    assert effects.lines == ["dying"]


async def test_cancelling_a_stream_in_the_middle_of_a_call_leaves_it_in_doubt_and_the_server_hears_of_it(
    effects: Effects,
) -> None:
    server = stdio_shop(effects)
    agent = agent_with(server, steps=[[SLOW], DONE])
    async with server:
        streamed = Runner.run_streamed(agent, "go")
        reading = asyncio.create_task(drain(streamed))
        await effects.wait_for("begin a")
        streamed.cancel()
        await reading
        after = await server.call_tool("add", {"a": 1, "b": 1})

    assert [item.kind for item in streamed.to_state().get_interruptions()] == ["in_doubt"]
    assert after.structured_content == {"result": 2}
    assert effects.lines == ["begin a"]


async def drain(streamed: Any) -> None:
    async for _ in streamed.stream_events():
        pass


async def test_a_server_process_that_is_killed_between_two_calls_is_started_again(effects: Effects) -> None:
    server = stdio_shop(effects, cache_tools_list=True)
    async with server:
        await server.call_tool("add", {"a": 1, "b": 2})
        line = server._line()
        first = line.connection
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        await until(lambda: not first.is_open)
        found = await server.call_tool("add", {"a": 2, "b": 2})

    assert found.structured_content == {"result": 4}


async def test_an_approved_call_whose_server_is_down_is_not_lost_and_runs_when_the_server_is_back(
    effects: Effects,
) -> None:
    with running(effects, "http") as process:
        server = process.server(require_approval="always")
        agent = agent_with(server, steps=[[call("refund", "c1", order_id="1", cents=1)], DONE])
        state = (await Runner.run(agent, "go")).to_state()
        state.approve("c1", by="ana")
        process.kill()
        with pytest.raises(ToolsetUnavailable, match="MCP server 'shop' cannot be reached") as caught:
            await Runner.run(agent, state)
        again = ShopProcess(effects, "http", port=process.port)
        try:
            result = await Runner.run(agent, caught.value.state)
        finally:
            again.close()

    assert result.final_output == "done"
    assert effects.lines == ["refund 1 1"]

"""Servers and clients that break the rules: a clear error on the right side, and nothing for the others."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.raw import RawRequest, RawResult
from placet.gate.mcp.stdio import KEPT, Lines, refused
from tests.gate.mcp.scenes import Scene, client_of, text_of, wire
from tests.gate.mcp.test_survival import ACT, acts, rogue

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


def servers(at: Scene, behaviour: str, **settings: Any) -> dict[str, ServerConfig]:
    """One that misbehaves beside one that does not."""
    good = at.shop_here(require_approval="never")
    return {"rogue": rogue(at.folder, behaviour, require_approval="never", protocol="legacy", **settings), "shop": good}


async def the_other_is_well(client: Client) -> None:
    assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


async def outcome(client: Client, tool: str = "act") -> str:
    """What the client reads of a call, or the error that it gets."""
    try:
        return text_of(await client.session.call_tool(tool, ACT))
    except MCPError as error:
        return error.message


# -- servers ----------------------------------------------------------------------------------------------------------

ANSWERS = {
    "number": "unknown",
    "shape": "'rogue' answered tools/call, and the answer cannot be used",
    "kind": "'rogue' answered tools/call, and the answer cannot be used",
    "huge": "up to 16777216 are passed on (max_answer)",
    "garbage": "acted 1",
    "other-ids": "acted 1",
    "silence": "unknown",
    "no-error": "unknown",
}


SURE = {behaviour for behaviour, read in ANSWERS.items() if read != "unknown"}


@pytest.mark.timeout(120)
@ERAS
@pytest.mark.parametrize("behaviour", ANSWERS)
async def test_an_answer_that_is_none_is_an_error_that_names_its_server(at: Scene, mode: str, behaviour: str) -> None:
    patience = 60.0 if behaviour in SURE else 3.0
    async with at.gateway(servers(at, behaviour, timeout=patience), wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode) as client:
            read = await outcome(client)
            await the_other_is_well(client)

    assert ANSWERS[behaviour] in read
    assert len(acts(at.folder)) == 1


LISTS = {
    "many": "more than 2000",
    "no-end": "without an end",
    "list-nonsense": "cannot be used",
    "greeting": "cannot be used",
    "odd-tools": "tools.1.name",
    "die-starting": "",
    "die-listing": "",
}


@ERAS
@pytest.mark.parametrize("behaviour", LISTS)
async def test_a_list_that_is_none_hides_its_server_and_no_other(
    at: Scene, mode: str, behaviour: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet.gate")
    async with at.gateway(servers(at, behaviour), wait=["handle"]) as gateway, client_of(gateway, mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        read = await outcome(client)
        await asyncio.wait_for(client.call_tool("add", {"a": 1, "b": 2}), 60)
        told = [record for record in caplog.records if getattr(record, "server", "") == "rogue"]

    assert "add" in names
    assert not any(name.startswith(("act", "tool_")) for name in names)
    assert "Unknown tool" in read
    assert told
    assert any(LISTS[behaviour] in str(getattr(record, "error", "")) for record in told)


async def test_a_lone_server_that_cannot_list_says_why(at: Scene) -> None:
    only = {"rogue": rogue(at.folder, "many")}
    async with at.gateway(only, wait=["handle"]) as gateway, client_of(gateway) as client:
        [error] = await asyncio.gather(client.list_tools(), return_exceptions=True)

    assert "'rogue' lists more than 2000 tools: none of them is shown (max_tools)" in str(error)


async def test_ten_thousand_tools_are_shown_where_that_is_allowed(at: Scene) -> None:
    only = {"rogue": rogue(at.folder, "many", max_tools=10_000)}
    async with at.gateway(only, wait=["handle"]) as gateway, client_of(gateway) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert len(names) == 10_001


async def test_of_two_tools_of_one_name_the_first_counts(at: Scene) -> None:
    async with at.gateway({"rogue": rogue(at.folder, "twins")}, wait=["handle"]) as gateway:
        async with client_of(gateway) as client:
            found = await client.session.send_request(RawRequest(method="tools/list", params={}), RawResult)
            told = await client.call_tool("act", ACT)
        [request] = await at.waiting()

    tools = [tool for tool in found.root["tools"] if tool["name"] == "act"]
    assert [tool["description"] for tool in tools] == ["Act."]
    assert request.tool == "rogue/act"
    assert "A person is asked" in text_of(told)


async def test_a_list_that_changes_in_the_middle_of_a_call_changes_nothing_about_this_one(at: Scene) -> None:
    async with at.gateway(servers(at, "changing"), wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            first = await client.call_tool("act", ACT)
            await client.list_tools()
            second = await client.call_tool("act", ACT)
        led = await at.led_to((await at.waiting())[0])

    assert text_of(first) == "acted 1"
    assert "A person is asked" in text_of(second)
    assert '+  "description": "Act otherwise."' in led
    assert len(acts(at.folder)) == 1


async def test_a_server_that_takes_long_to_greet_keeps_no_client_waiting_for_the_others(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.gate.mcp.gateway.GREETING_PATIENCE", 0.5)
    sleeper = ServerConfig(command="sleep", args=["600"], connect_timeout=2.0)
    both = {"sleeper": sleeper, "shop": at.shop_here(require_approval="never")}
    async with at.gateway(both, wait=["handle"]) as gateway:
        await at.pin(gateway, "shop")
        async with client_of(gateway) as client:
            await the_other_is_well(client)


LIMIT = 2000
LONG = "y" * 5000
TOO_LARGE = {
    "its id first": ('{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":"' + LONG + '"}}', 7),
    "nothing before it": ('{"id": "a-1", "result": "' + LONG + '"}', "a-1"),
    "its id last": ('{"jsonrpc": "2.0", "result": {"id": 8, "text": "' + LONG + '"}, "id": 7}', 7),
    "an id of somebody else": ('{"result": {"id": 8, "text": "' + LONG + '", "more": {"id": 9}}}', None),
    "no message": (LONG, None),
}


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_line_that_is_too_large_is_an_error_for_its_own_request_however_it_comes(what: str, size: int) -> None:
    line, number = TOO_LARGE[what]
    data = b'{"before": 1}\n' + line.encode() + b'\n{"after": 1}\n'
    lines = Lines(LIMIT)
    found = [each for at in range(0, len(data), size) for each in lines.feed(data[at : at + size])]
    error = refused(*found[1], LIMIT)

    assert [found[0], found[2]] == [(b'{"before": 1}', 13), (b'{"after": 1}', 12)]
    assert found[1][1] == len(line)
    assert len(found[1][0]) <= 2 * KEPT
    assert (error and error.message.id) == number  # type: ignore[union-attr]  # an error has one


# -- clients ----------------------------------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[str, Any, int]] = {
    "a method that nobody knows": ("files/format", {}, -32601),
    "a tool without a name": ("tools/call", {"arguments": {}}, -32602),
    "a tool that is a number": ("tools/call", {"name": 7}, -32602),
    "arguments that are a list": ("tools/call", {"name": "add", "arguments": [1]}, -32602),
    "a tool that nobody has": ("tools/call", {"name": "nothing"}, -32602),
    "a cursor of somebody else": ("tools/list", {"cursor": "x"}, -32602),
    "a prompt without a name": ("prompts/get", {}, -32602),
    "a resource without an address": ("resources/read", {}, -32602),
    "a completion of nothing": ("completion/complete", {}, -32602),
    "a task without a name": ("tasks/get", {}, -32602),
    "a task of nobody": ("tasks/get", {"taskId": "run_1_t0c0"}, -32602),
    "a second initialise": ("initialize", {"protocolVersion": "2025-11-25"}, -32600),
}


@pytest.mark.parametrize("what", REQUESTS)
async def test_a_request_that_is_none_is_refused_and_the_connection_goes_on(at: Scene, what: str) -> None:
    method, params, code = REQUESTS[what]
    both = {"rogue": rogue(at.folder, "good"), "shop": at.shop_here(require_approval="never")}
    async with at.gateway(both, wait=["task", "handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            with pytest.raises(MCPError) as error:
                await client.session._dispatcher.send_raw_request(method, params, {})
            await the_other_is_well(client)

    assert error.value.code == code
    assert await at.desk.pending() == []


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "ping"])
async def test_a_client_that_did_not_greet_gets_nothing(at: Scene, method: str) -> None:
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    async with at.gateway({"shop": at.shop_here()}) as gateway, wire(gateway) as (read, write):
        import anyio

        async def nothing(*_: Any) -> Any: ...

        dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, write)
        async with anyio.create_task_group() as group:
            await group.start(lambda *, task_status: dispatcher.run(nothing, nothing, task_status=task_status))
            answer = dispatcher.send_raw_request(method, {"name": "refund", "arguments": {}}, {})
            [found] = await asyncio.gather(answer, return_exceptions=True)
            group.cancel_scope.cancel()

    assert found == {} if method == "ping" else isinstance(found, MCPError)
    assert await at.desk.pending() == []


async def test_cancellations_and_progress_of_what_nobody_knows_hurt_nobody(at: Scene) -> None:
    both = {"shop": at.shop_here(require_approval="never")}
    async with at.gateway(both, wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            for method, params in (
                ("notifications/cancelled", {"requestId": 10**6}),
                ("notifications/cancelled", {"requestId": [1]}),
                ("notifications/cancelled", None),
                ("notifications/progress", {"progressToken": "nobody", "progress": 1}),
                ("notifications/nothing", {"x": 1}),
                ("notifications/initialized", None),
            ):
                await client.session._dispatcher.notify(method, params)
            await the_other_is_well(client)

"""Servers as processes, over each transport: their tools are listed and called, and their answers reach the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp.server import MCPServer as SdkServer
from mcp.server.lowlevel import Server
from mcp.types import ListToolsResult, Tool

from placet import Runner, ToolsetUnavailable, UserError
from placet.mcp import (
    MCPServerInProcess,
    MCPServerSse,
    MCPServerStdio,
    MCPServerStreamableHttp,
    create_static_tool_filter,
)
from tests.mcp.scenes import DONE, Effects, agent_with, call, outputs, own_shop, running, stdio_shop, until
from tests.support.ports import free_port

KINDS = ["stdio", "http", "json", "sse"]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, effects: Effects) -> Iterator[Callable[..., Any]]:
    """A server over each transport: a function from its options."""
    if request.param == "stdio":
        yield lambda **options: stdio_shop(effects, **options)
        return
    with running(effects, request.param) as process:
        yield process.server


async def test_a_run_calls_the_tools_of_a_server_and_reads_what_they_answer(make: Any, effects: Effects) -> None:
    steps = [
        [
            call("add", "c1", a=1, b=2),
            call("refund", "c2", order_id="7", cents=50),
            call("fail", "c3", why="no such order"),
            call("picture", "c4"),
            call("everything", "c5"),
            call("weather", "c6", city="Bern"),
        ],
        DONE,
    ]
    agent = agent_with(make(), steps=steps)

    result = await Runner.run(agent, "go")

    read = outputs(result)
    assert result.final_output == "done"
    assert read["c1"] == "3"
    assert read["c2"] == "refunded 7"
    assert "no such order" in read["c3"]
    assert [part["type"] for part in read["c4"]] == ["input_text", "input_image"]
    assert read["c4"][1]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert read["c5"].splitlines() == [
        "text",
        "[a sound, audio/wav, 3 bytes, which cannot be shown here]",
        "[note://1]",
        "a note",
        "[order as a PDF: file:///order.pdf]",
    ]
    assert '"degrees": 21.5' in read["c6"]
    assert effects.lines == ["refund 7 50"]


async def test_the_model_is_told_of_the_servers_tools_with_their_schemas() -> None:
    agent = agent_with(own_shop())

    await Runner.run(agent, "go")

    told = {tool.name: tool for tool in agent.model.calls[0].request.tools}
    assert told["refund"].description == "Pay money back."
    assert set(told["refund"].params_json_schema["properties"]) == {"order_id", "cents"}
    assert told["refund"].strict is False
    assert told["picture"].params_json_schema["properties"] == {}


async def test_a_cached_listing_is_asked_for_once_until_the_server_says_that_it_changed(make: Any) -> None:
    server = make(cache_tools_list=True)
    async with server:
        before = await server.list_tools()
        again = await server.list_tools()
        await server.call_tool("learn", {"name": "sing"})
        await until(lambda: server._line().listing is None)
        after = await server.list_tools()

    assert again is before
    assert "sing" not in {tool.name for tool in before}
    assert "sing" in {tool.name for tool in after}


async def test_without_a_cache_each_turn_sees_the_tools_as_they_are(effects: Effects) -> None:
    steps = [[call("learn", "c1", name="sing")], [call("sing", "c2", x=5)], DONE]
    agent = agent_with(stdio_shop(effects), steps=steps)

    result = await Runner.run(agent, "go")

    assert outputs(result)["c2"] == "5"
    assert "sing" in {tool.name for tool in agent.model.calls[1].request.tools}


async def test_invalidate_tools_cache_asks_again(effects: Effects) -> None:
    async with own_shop(cache_tools_list=True) as server:
        before = await server.list_tools()
        server.invalidate_tools_cache()
        after = await server.list_tools()

    assert after is not before
    assert [tool.name for tool in after] == [tool.name for tool in before]


async def test_structured_content_takes_the_place_of_texts_where_that_is_wanted(effects: Effects) -> None:
    agent = agent_with(own_shop(use_structured_content=True), steps=[[call("weather", "c1", city="Bern")], DONE])

    result = await Runner.run(agent, "go")

    assert outputs(result)["c1"] == '{"city":"Bern","degrees":21.5}'


async def test_arguments_that_do_not_fit_are_data_for_the_model_and_do_not_reach_the_server(effects: Effects) -> None:
    agent = agent_with(
        own_shop(),
        steps=[[call("refund", "c1", order_id="7"), call("refund", "c2", order_id=7, cents=1)], DONE],
    )

    result = await Runner.run(agent, "go")

    assert "cents: is required" in outputs(result)["c1"]
    assert "order_id: should be string" in outputs(result)["c2"]
    assert effects.lines == []


async def test_a_call_that_takes_too_long_is_reported_and_neither_repeated_nor_called_a_failure(
    effects: Effects,
) -> None:
    agent = agent_with(
        own_shop(client_session_timeout_seconds=3),
        steps=[[call("slow", "c1", name="a", seconds=30)], DONE],
    )

    result = await Runner.run(agent, "go")

    assert "timed out. It may or may not have taken effect." in outputs(result)["c1"]
    assert "try again" not in outputs(result)["c1"]
    assert effects.lines == ["begin a"]


# -- in this process ---------------------------------------------------------------------------------------------------


async def test_a_server_object_in_this_process_is_used_without_a_transport() -> None:
    own = SdkServer("own")

    @own.tool()
    def greet(name: str) -> str:
        """Say hello."""
        return f"hello {name}"

    agent = agent_with(MCPServerInProcess(own), steps=[[call("greet", "c1", name="Ana")], DONE])

    result = await Runner.run(agent, "go")

    assert outputs(result)["c1"] == "hello Ana"


async def test_all_pages_of_a_listing_are_read() -> None:
    async def listed(_ctx: Any, params: Any) -> ListToolsResult:
        page = int(params.cursor or 0) if params is not None else 0
        tools = [Tool(name=f"tool_{page}_{n}", input_schema={"type": "object"}) for n in range(3)]
        return ListToolsResult(tools=tools, next_cursor=str(page + 1) if page < 4 else None)

    async with MCPServerInProcess(Server("paged", on_list_tools=listed)) as server:
        names = [tool.name for tool in await server.list_tools()]

    assert len(names) == 15
    assert names[-1] == "tool_4_2"


async def test_a_listing_that_never_ends_is_given_up() -> None:
    async def listed(_ctx: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[], next_cursor="more")

    async with MCPServerInProcess(Server("endless", on_list_tools=listed)) as server:
        with pytest.raises(ToolsetUnavailable, match="does not come to an end"):
            await server.list_tools()


# -- filters -----------------------------------------------------------------------------------------------------------


async def names_seen(chosen: Any, **options: Any) -> set[str]:
    agent = agent_with(own_shop(tool_filter=chosen))
    await Runner.run(agent, "go", **options)
    return {tool.name for tool in agent.model.calls[0].request.tools}


async def test_a_static_filter_shows_what_is_allowed_and_not_blocked() -> None:
    both = create_static_tool_filter(["add", "refund"], ["refund"])

    assert await names_seen(both) == {"add"}
    assert "refund" not in await names_seen(create_static_tool_filter(blocked_tool_names=["refund"]))
    assert create_static_tool_filter() is None


async def test_a_function_decides_by_run_agent_and_tool() -> None:
    async def only_for_clerks(context: Any, tool: Any) -> bool:
        assert (context.agent.name, context.server_name) == ("ops", "shop")
        return context.run_context.context == "clerk" and tool.name == "add"

    assert await names_seen(only_for_clerks, context="clerk") == {"add"}
    assert await names_seen(only_for_clerks, context="guest") == set()


async def test_a_filter_that_fails_or_does_not_say_true_shows_nothing() -> None:
    def broken(_context: Any, _tool: Any) -> bool:
        raise KeyError("oops")

    assert await names_seen(broken) == set()
    assert await names_seen(lambda *_: "yes") == set()


async def test_a_tool_that_is_filtered_out_cannot_be_called(effects: Effects) -> None:
    server = own_shop(tool_filter=create_static_tool_filter(["add"]))
    agent = agent_with(server, steps=[[call("refund", "c1", order_id="7", cents=1)], DONE])

    result = await Runner.run(agent, "go")

    assert outputs(result)["c1"] == "Tool 'refund' not found."
    assert effects.lines == []


@pytest.mark.parametrize("chosen", ["add", ["add"], {"allowed": ["add"]}, {"allowed_tool_names": "add"}, {"x": 1}, 5])
def test_what_is_no_filter_is_refused_where_it_is_written(chosen: Any) -> None:
    with pytest.raises(UserError, match="tool_filter"):
        MCPServerStdio({"command": "shop"}, tool_filter=chosen)


# -- declaring ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: MCPServerStdio({}), "'command'"),
        (lambda: MCPServerStdio({"command": ""}), "'command'"),
        (lambda: MCPServerStdio({"command": "x", "arguments": []}), "arguments"),
        (lambda: MCPServerStreamableHttp({"uri": "http://x"}), "'url'"),
        (lambda: MCPServerSse({"url": 5}), "'url'"),
        (lambda: MCPServerInProcess("shop"), "MCPServer"),
        (lambda: MCPServerStdio({"command": "x"}, recovery="repeat"), "recovery"),
        (lambda: agent_with("shop"), "mcp_servers"),
        (lambda: agent_with(MCPServerStdio({"command": "x"}), mcp_config={"strict": True}), "mcp_config"),
        (lambda: agent_with(MCPServerStdio({"command": "x"}), MCPServerStdio({"command": "x"})), "two servers named"),
    ],
)
def test_a_mistake_is_refused_where_it_is_written(make_it: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_it()


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="need_approval"):
        MCPServerStdio({"command": "x"}, need_approval="always")


def test_the_default_name_holds_no_secret_of_the_url() -> None:
    server = MCPServerStreamableHttp({"url": "https://ana:secret@shop.example:8443/mcp?key=secret"})

    assert server.name == "streamable_http: https://shop.example:8443/mcp"


async def test_a_server_that_cannot_be_reached_stops_the_run_with_its_name_and_the_run_goes_on_later(
    effects: Effects,
) -> None:
    port = free_port()
    server = MCPServerStreamableHttp({"url": f"http://127.0.0.1:{port}/mcp"}, name="shop")
    agent = agent_with(server, steps=[[call("add", "c1", a=1, b=2)], DONE])

    with pytest.raises(ToolsetUnavailable, match=r"MCP server 'shop' cannot be reached: .*Nothing was run") as caught:
        await Runner.run(agent, "go")
    with running(effects, "http", port=port):
        result = await Runner.run(agent, caught.value.state)

    assert result.final_output == "done"
    assert outputs(result)["c1"] == "3"


async def test_a_command_that_does_not_exist_is_named() -> None:
    agent = agent_with(MCPServerStdio({"command": "no-such-server-anywhere"}, name="shop"))

    with pytest.raises(ToolsetUnavailable, match="MCP server 'shop' cannot be reached"):
        await Runner.run(agent, "go")


async def test_connecting_is_tried_again_as_often_as_was_said() -> None:
    tries: list[int] = []

    class Flaky(MCPServerInProcess):
        def _target(self) -> Any:
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError("not yet")
            return super()._target()

    server = Flaky(SdkServer("own"), max_retry_attempts=2, retry_backoff_seconds_base=0.01)

    async with server:
        assert await server.list_tools() == []
    assert len(tries) == 3


async def test_strict_schemas_are_made_where_they_can_be() -> None:
    agent = agent_with(own_shop(), mcp_config={"convert_schemas_to_strict": True})

    await Runner.run(agent, "go")

    told = {tool.name: tool for tool in agent.model.calls[0].request.tools}
    assert told["refund"].strict is True
    assert told["refund"].params_json_schema["additionalProperties"] is False

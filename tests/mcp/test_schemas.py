"""A server's schema counts, whole; one that is none, or leads out of itself, costs the server that one tool."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from pydantic import Field

from placet import Runner
from placet.mcp import MCPServerInProcess
from tests.mcp.scenes import DONE, agent_with, call, outputs


def server(done: list[str], schema: dict[str, Any] | None = None) -> MCPServerInProcess:
    bank = MCPServer("bank", log_level="ERROR")

    @bank.tool()
    def pay(iban: Annotated[str, Field(pattern="^[A-Z]{2}[0-9]+$")], cents: Annotated[int, Field(gt=0)]) -> str:
        """Pay."""
        done.append(f"{iban} {cents}")
        return "paid"

    @bank.tool()
    def odd(name: str) -> str:
        """Do something odd."""
        done.append(name)
        return "odd"

    if schema is not None:
        described = bank._tool_manager.get_tool("odd")
        assert described is not None
        described.parameters = schema
    return MCPServerInProcess(bank, name="bank")


async def test_a_call_that_the_servers_schema_forbids_does_not_reach_the_server() -> None:
    done: list[str] = []
    calls = [call("pay", "c1", iban="x", cents=5), call("pay", "c2", iban="CH1", cents=0)]
    agent = agent_with(server(done), steps=[[*calls, call("pay", "c3", iban="CH1", cents=5)], DONE])

    result = await Runner.run(agent, "go")

    assert "/iban: should match the pattern ^[A-Z]{2}[0-9]+$" in outputs(result)["c1"]
    assert "/cents: should be more than 0" in outputs(result)["c2"]
    assert done == ["CH1 5"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {"name": {"$ref": "http://127.0.0.1:9/a"}}}, "nothing is fetched"),
        ({"type": "object", "properties": {"name": {"type": "strin"}}}, "/properties/name/type"),
    ],
)
async def test_a_tool_whose_schema_cannot_be_used_is_left_out_and_the_others_stay(
    schema: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    source = server(done, schema)
    agent = agent_with(source, steps=[[call("pay", "c1", iban="CH1", cents=5)], DONE])

    with caplog.at_level(logging.WARNING, "placet.mcp"):
        result = await Runner.run(agent, "go")

    told = [each.getMessage() for each in caplog.records if getattr(each, "action", "") == "tool_left_out"]
    assert len(told) == 1  # not at every turn
    assert "'odd' is left out" in told[0]
    assert words in told[0]
    assert outputs(result)["c1"].endswith("paid")
    assert [tool.name for tool in source.last_listed()] == ["pay"]

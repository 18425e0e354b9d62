"""Names of the SDK that programs use in passing."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from placet.agents import (
    Agent,
    RunContextWrapper,
    ToolErrorFormatterArgs,
    set_default_openai_client,
    set_default_openai_key,
)
from placet.agents.mcp.util import MCPUtil
from placet.agents.run import CallModelData
from placet.agents.tool import ShellOnApprovalFunctionResult
from placet.models.openai_client import defaults
from tests.mcp.scenes import own_shop


def test_what_a_formatter_and_a_filter_are_told_is_generic() -> None:
    assert ToolErrorFormatterArgs[dict[str, Any]] is not None
    assert CallModelData[None] is not None


def test_what_on_approval_answers_has_a_type() -> None:
    assert ShellOnApprovalFunctionResult(approve=False, reason="not now") == {"approve": False, "reason": "not now"}


def test_a_default_client_and_key_may_be_named_as_the_ones_for_traces(monkeypatch: Any) -> None:
    monkeypatch.setattr(defaults, "client", None)
    monkeypatch.setattr(defaults, "key", None)
    client = AsyncOpenAI(api_key="any")

    set_default_openai_client(client, use_for_tracing=False)
    set_default_openai_key("sk-any", use_for_tracing=False)

    assert (defaults.client, defaults.key) == (client, "sk-any")


async def test_the_tools_of_all_servers_are_given_as_an_agent_gets_them() -> None:
    async with own_shop() as server:
        agent = Agent(name="Clerk", mcp_servers=[server])
        found = await MCPUtil.get_all_function_tools([server], True, RunContextWrapper(context=None), agent)
        same = await server.tools_for(None, agent)

    assert [tool.name for tool in found] == [tool.name for tool in same]
    assert all(hasattr(tool, "on_invoke_tool") for tool in found)

"""What `placet.mcp` offers, and that it costs nothing until a server is connected."""

from __future__ import annotations

from typing import Any

import pytest

import placet.mcp
from placet import UserError
from placet.mcp import MCPServerStdio, server
from tests.mcp.scenes import run_program_text

PINNED = [
    "MCPConfig",
    "MCPServer",
    "MCPServerInProcess",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "MCPTool",
    "RequireApproval",
    "ToolFilter",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]


def test_the_public_names_are_pinned() -> None:
    assert sorted(placet.mcp.__all__) == PINNED
    assert [name for name in PINNED if not hasattr(placet.mcp, name)] == []


async def test_importing_and_declaring_a_server_does_not_import_the_sdk() -> None:
    program = """
import sys
from placet import Agent
from placet.mcp import MCPServerStdio, MCPServerStreamableHttp

Agent(name="ops", mcp_servers=[MCPServerStdio({"command": "x"}), MCPServerStreamableHttp({"url": "http://x"})])
print(sorted({"mcp", "mcp_types", "httpx2", "anyio", "starlette"} & set(sys.modules)))
"""

    assert await run_program_text(program) == "[]\n"


def test_without_the_sdk_a_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> Any:
        return None

    monkeypatch.setattr(server, "find_spec", nothing)

    with pytest.raises(UserError, match=r"pip install \"placet\[mcp\]\""):
        MCPServerStdio({"command": "x"})

"""`require_approval`: every form that it takes, every form that it refuses, and what hints of the server add."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import Tool, ToolAnnotations

from placet import Agent, RunContextWrapper, UserError
from placet.mcp import MCPServerStdio
from placet.mcp.policy import Policy

AGENT = Agent(name="ops")


def tool(name: str, **hints: bool) -> Tool:
    annotations = ToolAnnotations(**hints) if hints else None
    return Tool(name=name, input_schema={"type": "object"}, annotations=annotations)


def asks(given: Any, name: str, *, heed_hints: bool | None = None, **hints: bool) -> Any:
    return Policy("shop", given, heed_hints=heed_hints).rule_for(tool(name, **hints), AGENT)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("always", True),
        ("never", False),
        (True, True),
        (False, False),
        ({"refund": "always", "add": "never"}, {"refund": True, "add": False, "other": True}),
        ({"refund": True, "add": False}, {"refund": True, "add": False, "other": True}),
        ({"refund": "always", "*": "never"}, {"refund": True, "other": False}),
        ({"add": "never", "*": "always"}, {"add": False, "other": True}),
        ({}, True),
        ({"always": {"tool_names": ["refund"]}, "never": {"tool_names": ["add"]}}, {"refund": True, "add": False}),
        ({"never": {"tool_names": ["add"]}}, {"add": False, "other": True}),
        ({"always": {"tool_names": []}}, {"other": True}),
        ({"always": "never"}, {"always": False, "other": True}),
        (None, False),
    ],
    ids=str,
)
@pytest.mark.promise("P8")
def test_each_form_says_which_tools_wait_and_tools_that_a_mapping_does_not_name_do(given: Any, expected: Any) -> None:
    wanted = expected if isinstance(expected, dict) else {"anything": expected}

    assert {name: asks(given, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "given",
    [
        "allways",
        "ALWAYS",
        "",
        1,
        0,
        ["refund"],
        {"refund": "maybe"},
        {"refund": None},
        {"refund": 1},
        {1: "always"},
        {"": "always"},
        {"refund": ["always"]},
        {"always": {"tools": ["refund"]}},
        {"always": {"tool_names": "refund"}},
        {"always": {"tool_names": [1]}},
        {"always": {"tool_names": ["refund"], "read_only": True}},
        {"always": {"tool_names": ["refund"]}, "never": {"tool_names": ["refund"]}},
        {"always": {"tool_names": ["a"]}, "sometimes": {"tool_names": ["b"]}},
        {"always": {"tool_names": ["a"]}, "never": "b"},
    ],
    ids=str,
)
@pytest.mark.promise("P8")
def test_a_wrong_word_or_shape_is_refused_where_it_is_written(given: Any) -> None:
    with pytest.raises(UserError, match=r"MCP server 'shop': .*it is \"always\", \"never\""):
        MCPServerStdio({"command": "shop"}, name="shop", require_approval=given)


@pytest.mark.parametrize("heed_hints", [None, True])
def test_a_tool_that_its_server_calls_destructive_asks_where_nothing_was_said(heed_hints: bool | None) -> None:
    assert asks(None, "x", heed_hints=heed_hints, destructive_hint=True) is True
    assert asks(None, "x", heed_hints=heed_hints, read_only_hint=False) is True
    assert asks(None, "x", heed_hints=heed_hints, read_only_hint=False, destructive_hint=False) is False
    assert asks(None, "x", heed_hints=heed_hints, read_only_hint=True) is False


@pytest.mark.parametrize("given", ["never", False, {"x": "never"}, {"*": "never"}, lambda *_: False])
def test_hints_tighten_a_never_only_if_that_is_wanted(given: Any) -> None:
    assert asks(given, "x", heed_hints=True, destructive_hint=True) is True
    assert asks(given, "x", heed_hints=None, destructive_hint=True) is not True
    assert asks(given, "x", heed_hints=False, destructive_hint=True) is not True


@pytest.mark.parametrize("given", ["always", True, {"y": "never"}, {"always": {"tool_names": ["x"]}}])
@pytest.mark.parametrize("heed_hints", [None, True, False])
def test_no_hint_ever_loosens(given: Any, heed_hints: bool | None) -> None:
    harmless = {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True, "open_world_hint": False}

    assert asks(given, "x", heed_hints=heed_hints, **harmless) is True


def test_a_function_is_given_the_context_the_agent_and_the_servers_tool() -> None:
    seen: list[Any] = []

    def rule(*given: Any) -> bool:
        seen.append(given)
        return False

    context = RunContextWrapper({"user": "ana"})

    answer = asks(rule, "refund")(context, {"cents": 5}, "c1")

    assert answer is False
    assert [(ctx, agent, found.name) for ctx, agent, found in seen] == [(context, AGENT, "refund")]

"""Groups of tools: a model of OpenAI's Responses API is shown a group by its name and description first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placet.declare.agent import AgentTool
from placet.declare.tool import FunctionTool
from placet.facts.checks import NAME, TEXT, check, optional
from placet.facts.errors import UserError


def tool_namespace(*, name: str, description: str | None, tools: Sequence[FunctionTool]) -> list[FunctionTool]:
    """The tools as members of a group. Each is known by `group.tool` from then on, in rules, grants and cards alike: a
    grant for one does not reach the tool of the same name in another group."""
    check("tool_namespace: ", name=(name, NAME), description=(description, optional(TEXT)))
    for tool in tools:
        if type(tool) not in (FunctionTool, AgentTool):
            raise UserError(f"Only functions and agents can be in a group of tools, not {tool!r}.")
        if tool.namespace is not None:
            raise UserError(f"Tool '{tool.name}' is in the group '{tool.namespace}' already.")
    return [
        dataclasses.replace(tool, name=f"{name}.{tool.name}", namespace=name, namespace_description=description or None)
        for tool in tools
    ]

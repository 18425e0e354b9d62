"""Where a desk, a worker or a gate finds its policy: what it is given may be a file, a text's rules or a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.tool import FunctionTool
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.ports import PolicySource

PolicyGiven: TypeAlias = PolicySource | str | Path
"""A policy, something that knows the one in force (`PolicyFile`), or the path of a file, which is followed. `"managed"`
is the one that people voted on; a file of that name is `./managed`."""
MANAGED = "managed"


def opened(given: PolicyGiven | None, agents: Sequence[Agent[Any]]) -> PolicySource | None:
    """The source that is meant; PolicyRefused where a file does not load."""
    if given is None:
        return None
    if given == MANAGED:
        from placet.service.managed_policy import ManagedPolicy

        return ManagedPolicy()
    if isinstance(given, str | Path):
        from placet.policy import PolicyFile  # programs without a policy do without its modules

        return PolicyFile(given, tools=known_tools(agents))
    if not hasattr(given, "current"):
        raise UserError(
            f"A policy is the path of a file, or comes of placet.policy (load_policy, PolicyFile), and is no {given!r}."
        )
    return given


def known_tools(agents: Sequence[Agent[Any]]) -> Mapping[str, Sequence[JsonObject]] | None:
    """The schemas of the tools that these agents declare, by name; None: there may be any others, so that nothing can
    be said about a name."""
    found: dict[str, list[JsonObject]] = {}
    for root in agents:
        for agent in AgentGraph(root).agents():
            for tool in agent.tools:
                if not isinstance(tool, FunctionTool):
                    continue  # a provider executes it: no call of it comes here
                schema = dict(tool.params_json_schema)
                if schema not in found.setdefault(tool.name, []):
                    found[tool.name].append(schema)
    return found or None

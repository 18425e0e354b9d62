"""What a worker's code knows, as one digest: workers with equal digests can drive the same runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from placet.declare.agent import Agent, AgentTool
from placet.facts.events import PlainFact


def code_digest(agents: Sequence[Agent[Any]]) -> str:
    """Agents, their tools as they would be approved, where they lead, and the facts that can be read."""
    known = sorted(f"{fact.__name__}({','.join(fact.__struct_fields__)})" for fact in get_args(PlainFact))
    signatures = [*known, *sorted(set(_signatures(agents)))]
    return hashlib.sha256("\n".join(signatures).encode()).hexdigest()[:16]


def _signatures(agents: Sequence[Agent[Any]]) -> Iterator[str]:
    seen: set[int] = set()
    left = list(agents)
    while left:
        agent = left.pop()
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        yield agent.address
        for tool in agent.function_tools:
            yield f"{agent.address}.{tool.identity} {tool.fingerprint}"
            if isinstance(tool, AgentTool):
                left.append(tool.agent)
        for handoff in agent.all_handoffs:
            yield f"{agent.address}>{handoff.tool_name}"
            left.append(handoff.agent)

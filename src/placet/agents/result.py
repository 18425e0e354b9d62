"""Results of runs."""

from __future__ import annotations

from dataclasses import dataclass

from placet import RunResult, RunResultStreaming

RunResultBase = RunResult


@dataclass(frozen=True)
class AgentToolInvocation:
    """The call in which a run is nested."""

    tool_name: str
    tool_call_id: str
    tool_arguments: str


__all__ = ["AgentToolInvocation", "RunResult", "RunResultBase", "RunResultStreaming"]

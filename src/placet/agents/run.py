"""Running agents."""

from __future__ import annotations

from placet import CallModelData, ModelInputData, RunConfig, RunContextWrapper, Runner, RunState, ToolErrorFormatterArgs
from placet.agents.run_config import (
    DEFAULT_MAX_TURNS,
    CallModelInputFilter,
    ReasoningItemIdPolicy,
    RunOptions,
    ToolErrorFormatter,
    ToolExecutionConfig,
    ToolNameCollisionPolicy,
    ToolNotFoundBehavior,
)

AgentRunner = Runner

__all__ = [
    "DEFAULT_MAX_TURNS",
    "AgentRunner",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "RunContextWrapper",
    "RunOptions",
    "RunState",
    "Runner",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
]

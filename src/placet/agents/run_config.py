"""Settings of runs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from placet import CallModelData, ModelInputData, RunConfig, ToolErrorFormatterArgs
from placet.declare.run_config import DEFAULT_MAX_TURNS, CallModelInputFilter, ToolErrorFormatter, ToolExecutionConfig
from placet.runtime.runner import RunOptions

ReasoningItemIdPolicy: TypeAlias = Literal["preserve", "omit"]
ToolNotFoundBehavior: TypeAlias = Literal["raise_error", "return_error_to_model"]
ToolNameCollisionPolicy: TypeAlias = Literal["warn", "error"]

__all__ = [
    "DEFAULT_MAX_TURNS",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "RunOptions",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
]

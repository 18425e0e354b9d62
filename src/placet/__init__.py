"""Placet: an agent runtime whose heart is a person's yes."""

from __future__ import annotations

from placet.agent import Agent, AgentTool, FunctionToolResult, StopAtTools, ToolsToFinalOutputResult
from placet.context import RunContextWrapper, ToolContext
from placet.core.approvals import ApprovalRecord
from placet.decisions import Grant
from placet.errors import (
    DeliveryUnknown,
    LimitExceeded,
    MaxTurnsExceeded,
    ModelBehaviorError,
    NotPending,
    PlacetError,
    RequestNotTaken,
    RunConflict,
    RunFinished,
    SealBroken,
    StaleApproval,
    StateRefused,
    StoreError,
    ToolError,
    ToolOutputError,
    ToolTimeoutError,
    UserError,
)
from placet.events import Usage
from placet.handoff import Handoff, HandoffInputData, handoff
from placet.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ModelResponse,
    OtherItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from placet.lifecycle import AgentHooks, RunHooks
from placet.model_settings import ModelSettings
from placet.ports import Model, ModelRequest, RawEvent, Reconciled, Store, ToolSpec
from placet.run_config import Limits, RunConfig, ToolErrorFormatterArgs
from placet.run_state import RunState
from placet.runtime.defaults import default_store, set_default_store
from placet.runtime.result import RunResult, RunResultStreaming
from placet.runtime.runner import Runner
from placet.runtime.stream import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent
from placet.secrets import Secret
from placet.stores.memory import MemoryStore
from placet.tool import CannotTell, DidNotHappen, FunctionTool, Happened, Tool, function_tool
from placet.tracker import OpenAIServerConversationTracker

__version__ = "0.1.0"

set_default_store(MemoryStore())

__all__ = [
    "Agent",
    "AgentHooks",
    "AgentTool",
    "AgentUpdatedStreamEvent",
    "ApprovalRecord",
    "CannotTell",
    "DeliveryUnknown",
    "DidNotHappen",
    "FunctionTool",
    "FunctionToolResult",
    "Grant",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffOutputItem",
    "Happened",
    "LimitExceeded",
    "Limits",
    "MaxTurnsExceeded",
    "MemoryStore",
    "MessageOutputItem",
    "Model",
    "ModelBehaviorError",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "NotPending",
    "OpenAIServerConversationTracker",
    "OtherItem",
    "PlacetError",
    "RawEvent",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "Reconciled",
    "RequestNotTaken",
    "RunConfig",
    "RunConflict",
    "RunContextWrapper",
    "RunFinished",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SealBroken",
    "Secret",
    "StaleApproval",
    "StateRefused",
    "StopAtTools",
    "Store",
    "StoreError",
    "StreamEvent",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolError",
    "ToolErrorFormatterArgs",
    "ToolOutputError",
    "ToolSpec",
    "ToolTimeoutError",
    "ToolsToFinalOutputResult",
    "Usage",
    "UserError",
    "default_store",
    "function_tool",
    "handoff",
    "set_default_store",
]

"""Placet: an agent runtime whose heart is a person's yes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from placet.core.approvals import ApprovalRecord
from placet.declare.agent import Agent, AgentTool, FunctionToolResult, MCPConfig, StopAtTools, ToolsToFinalOutputResult
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.decisions import Grant
from placet.declare.guardrail import (
    GuardrailFunctionOutput,
    GuardrailResult,
    InputGuardrail,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from placet.declare.handoff import Handoff, HandoffInputData, handoff
from placet.declare.hosted_tools import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    HostedTool,
    ImageGenerationTool,
    MCPToolApprovalFunction,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    WebSearchTool,
)
from placet.declare.lifecycle import AgentHooks, RunHooks
from placet.declare.run_config import CallModelData, Limits, ModelInputData, RunConfig, ToolErrorFormatterArgs
from placet.declare.tool import (
    CannotTell,
    DidNotHappen,
    Failed,
    FunctionTool,
    Happened,
    NeedsInput,
    Tool,
    function_tool,
)
from placet.facts.errors import (
    AccessDenied,
    DeliveryUnknown,
    GuardrailTripped,
    IndexAltered,
    InputGuardrailTripwireTriggered,
    LimitExceeded,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    ModelTimeoutError,
    NotPending,
    OutputGuardrailTripwireTriggered,
    PlacetError,
    ProviderError,
    RequestNotTaken,
    RunConflict,
    RunFinished,
    SealBroken,
    ServerHistoryNotFound,
    SessionBusy,
    StaleApproval,
    StateRefused,
    StoreError,
    ToolError,
    ToolInputGuardrailTripwireTriggered,
    ToolOutcomeUnknown,
    ToolOutputError,
    ToolOutputGuardrailTripwireTriggered,
    ToolRaised,
    ToolsetUnavailable,
    ToolTimeoutError,
    UserError,
)
from placet.facts.events import Usage
from placet.facts.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MessageOutputItem,
    ModelResponse,
    OtherItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from placet.facts.model_settings import ModelRetryBackoffSettings, ModelRetrySettings, ModelSettings
from placet.facts.requirements import Needs
from placet.ports import Model, ModelRequest, RawEvent, Reconciled, Session, Store, Toolset, ToolSpec
from placet.runtime.defaults import default_store, set_default_settings, set_default_store, set_model_names
from placet.runtime.error_handlers import RunErrorData, RunErrorHandlerInput, RunErrorHandlerResult, RunErrorHandlers
from placet.runtime.result import RunResult, RunResultStreaming
from placet.runtime.runner import Runner
from placet.runtime.stream import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent
from placet.sessions.memory import InMemorySession
from placet.states.run_state import RunState
from placet.states.secrets import Secret
from placet.stores.memory import MemoryStore

if TYPE_CHECKING:
    from placet.desk import Desk
    from placet.models import AnthropicModel, OpenAIChatCompletionsModel, OpenAIResponsesModel
    from placet.sessions.openai_conversations import OpenAIConversationsSession
    from placet.sessions.sqlite import SQLiteSession
    from placet.states.tracker import OpenAIServerConversationTracker
    from placet.stores.opening import open_store

__version__ = "0.1.0"

set_default_store(MemoryStore())


def _model_named(name: str | None) -> Model:
    if name is None:
        from placet.models.providers import OpenAIProvider

        return OpenAIProvider().get_model(None)
    from placet.models.naming import resolve

    return resolve(name)


set_model_names(_model_named)


def _default_settings() -> ModelSettings:
    from placet.models.default_models import get_default_model_settings

    return get_default_model_settings()


set_default_settings(_default_settings)


_LOADED_WHEN_USED = {
    "AnthropicModel": "placet.models",
    "Desk": "placet.desk",
    "OpenAIChatCompletionsModel": "placet.models",
    "OpenAIConversationsSession": "placet.sessions.openai_conversations",
    "OpenAIResponsesModel": "placet.models",
    "OpenAIServerConversationTracker": "placet.states.tracker",
    "SQLiteSession": "placet.sessions.sqlite",
    "open_store": "placet.stores.opening",
}
"""What needs a database driver or an SDK, or what few programs use: where it lives."""


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_USED:
        return getattr(importlib.import_module(_LOADED_WHEN_USED[name]), name)
    raise AttributeError(f"module 'placet' has no attribute {name!r}")


__all__ = [
    "AccessDenied",
    "Agent",
    "AgentHooks",
    "AgentTool",
    "AgentUpdatedStreamEvent",
    "AnthropicModel",
    "ApprovalRecord",
    "CallModelData",
    "CannotTell",
    "CodeInterpreterTool",
    "DeliveryUnknown",
    "Desk",
    "DidNotHappen",
    "Failed",
    "FileSearchTool",
    "FunctionTool",
    "FunctionToolResult",
    "Grant",
    "GuardrailFunctionOutput",
    "GuardrailResult",
    "GuardrailTripped",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffOutputItem",
    "Happened",
    "HostedMCPTool",
    "HostedTool",
    "ImageGenerationTool",
    "InMemorySession",
    "IndexAltered",
    "InputGuardrail",
    "InputGuardrailTripwireTriggered",
    "LimitExceeded",
    "Limits",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPConfig",
    "MCPToolApprovalFunction",
    "MCPToolApprovalFunctionResult",
    "MCPToolApprovalRequest",
    "MaxTurnsExceeded",
    "MemoryStore",
    "MessageOutputItem",
    "Model",
    "ModelBehaviorError",
    "ModelInputData",
    "ModelRefusalError",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryBackoffSettings",
    "ModelRetrySettings",
    "ModelSettings",
    "ModelTimeoutError",
    "Needs",
    "NeedsInput",
    "NotPending",
    "OpenAIChatCompletionsModel",
    "OpenAIConversationsSession",
    "OpenAIResponsesModel",
    "OpenAIServerConversationTracker",
    "OtherItem",
    "OutputGuardrail",
    "OutputGuardrailTripwireTriggered",
    "PlacetError",
    "ProviderError",
    "RawEvent",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "Reconciled",
    "RequestNotTaken",
    "RunConfig",
    "RunConflict",
    "RunContextWrapper",
    "RunErrorData",
    "RunErrorHandlerInput",
    "RunErrorHandlerResult",
    "RunErrorHandlers",
    "RunFinished",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SQLiteSession",
    "SealBroken",
    "Secret",
    "ServerHistoryNotFound",
    "Session",
    "SessionBusy",
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
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutcomeUnknown",
    "ToolOutputError",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolRaised",
    "ToolSpec",
    "ToolTimeoutError",
    "ToolsToFinalOutputResult",
    "Toolset",
    "ToolsetUnavailable",
    "Usage",
    "UserError",
    "WebSearchTool",
    "default_store",
    "function_tool",
    "handoff",
    "input_guardrail",
    "open_store",
    "output_guardrail",
    "set_default_store",
    "tool_input_guardrail",
    "tool_output_guardrail",
]

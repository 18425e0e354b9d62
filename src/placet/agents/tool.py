"""Tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from placet import (
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    FunctionToolResult,
    HostedMCPTool,
    ImageGenerationTool,
    MCPToolApprovalFunction,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    RunContextWrapper,
    Tool,
    ToolApprovalItem,
    WebSearchTool,
    function_tool,
)
from placet.agents._native_tools import (
    ApplyPatchTool,
    ComputerTool,
    ComputerToolSafetyCheckData,
    ProgrammaticToolCallingTool,
    ShellTool,
    ToolSearchTool,
)
from placet.declare.namespaces import tool_namespace
from placet.declare.tool import default_tool_error_function
from placet.declare.tool_outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from placet.facts.items import ToolOrigin, ToolOriginType
from placet.runtime.execute import NOT_APPROVED as DEFAULT_APPROVAL_REJECTION_MESSAGE
from placet.tools import (
    CustomTool,
    LocalShellCommandRequest,
    LocalShellExecutor,
    LocalShellTool,
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellExecutor,
    ShellResult,
)


class _OnApprovalResult(TypedDict):
    """What a function that is asked when a call needs approval answers."""

    approve: bool
    reason: NotRequired[str]


ShellOnApprovalFunctionResult = ApplyPatchOnApprovalFunctionResult = _OnApprovalResult
CustomToolOnApprovalFunctionResult = _OnApprovalResult
_OnApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], ToolApprovalItem], _OnApprovalResult | Awaitable[_OnApprovalResult]
]
ShellOnApprovalFunction = ApplyPatchOnApprovalFunction = CustomToolOnApprovalFunction = _OnApproval
_NeedsApproval: TypeAlias = Callable[[RunContextWrapper[Any], Any, str], bool | Awaitable[bool]]
ShellApprovalFunction = ApplyPatchApprovalFunction = CustomToolApprovalFunction = _NeedsApproval
ToolErrorFunction: TypeAlias = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]
ToolTimeoutBehavior: TypeAlias = Literal["error_as_result", "raise_exception"]

ToolCaller: TypeAlias = Literal["direct", "programmatic"]
_Declared: TypeAlias = dict[str, Any]
ImageGenerationToolConfig = WebSearchToolImageSettings = _Declared
ShellToolContainerAutoEnvironment = ShellToolContainerReferenceEnvironment = ShellToolLocalEnvironment = _Declared
ShellToolEnvironment = ShellToolHostedEnvironment = ShellToolContainerNetworkPolicy = _Declared
ShellToolContainerNetworkPolicyAllowlist = ShellToolContainerNetworkPolicyDisabled = _Declared
ShellToolContainerNetworkPolicyDomainSecret = ShellToolContainerSkill = ShellToolInlineSkill = _Declared
ShellToolInlineSkillSource = ShellToolLocalSkill = ShellToolSkillReference = _Declared
ToolOutputTextDict = ToolOutputImageDict = ToolOutputFileContentDict = dict[str, object]

__all__ = [
    "DEFAULT_APPROVAL_REJECTION_MESSAGE",
    "ApplyPatchApprovalFunction",
    "ApplyPatchOnApprovalFunction",
    "ApplyPatchOnApprovalFunctionResult",
    "ApplyPatchTool",
    "CodeInterpreterTool",
    "ComputerTool",
    "ComputerToolSafetyCheckData",
    "CustomTool",
    "CustomToolApprovalFunction",
    "CustomToolOnApprovalFunction",
    "CustomToolOnApprovalFunctionResult",
    "FileSearchTool",
    "FunctionTool",
    "FunctionToolResult",
    "HostedMCPTool",
    "ImageGenerationTool",
    "ImageGenerationToolConfig",
    "LocalShellCommandRequest",
    "LocalShellExecutor",
    "LocalShellTool",
    "MCPToolApprovalFunction",
    "MCPToolApprovalFunctionResult",
    "MCPToolApprovalRequest",
    "ProgrammaticToolCallingTool",
    "ShellActionRequest",
    "ShellApprovalFunction",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
    "ShellOnApprovalFunction",
    "ShellOnApprovalFunctionResult",
    "ShellResult",
    "ShellTool",
    "ShellToolContainerAutoEnvironment",
    "ShellToolContainerNetworkPolicy",
    "ShellToolContainerNetworkPolicyAllowlist",
    "ShellToolContainerNetworkPolicyDisabled",
    "ShellToolContainerNetworkPolicyDomainSecret",
    "ShellToolContainerReferenceEnvironment",
    "ShellToolContainerSkill",
    "ShellToolEnvironment",
    "ShellToolHostedEnvironment",
    "ShellToolInlineSkill",
    "ShellToolInlineSkillSource",
    "ShellToolLocalEnvironment",
    "ShellToolLocalSkill",
    "ShellToolSkillReference",
    "Tool",
    "ToolCaller",
    "ToolErrorFunction",
    "ToolOrigin",
    "ToolOriginType",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "ToolSearchTool",
    "ToolTimeoutBehavior",
    "WebSearchTool",
    "WebSearchToolImageSettings",
    "default_tool_error_function",
    "function_tool",
    "tool_namespace",
]

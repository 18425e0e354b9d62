"""Tools."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

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
    Tool,
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
    "ApplyPatchTool",
    "CodeInterpreterTool",
    "ComputerTool",
    "ComputerToolSafetyCheckData",
    "CustomTool",
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
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
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
    "ToolOrigin",
    "ToolOriginType",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "ToolSearchTool",
    "WebSearchTool",
    "WebSearchToolImageSettings",
    "default_tool_error_function",
    "function_tool",
    "tool_namespace",
]

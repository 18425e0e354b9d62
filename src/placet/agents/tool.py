"""Tools."""

from __future__ import annotations

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
from placet.declare.tool import default_tool_error_function
from placet.declare.tool_outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from placet.runtime.execute import NOT_APPROVED as DEFAULT_APPROVAL_REJECTION_MESSAGE
from placet.tools import (
    ApplyPatchTool,
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellExecutor,
    ShellResult,
    ShellTool,
)

ToolOutputTextDict = ToolOutputImageDict = ToolOutputFileContentDict = dict[str, object]

__all__ = [
    "DEFAULT_APPROVAL_REJECTION_MESSAGE",
    "ApplyPatchTool",
    "CodeInterpreterTool",
    "FileSearchTool",
    "FunctionTool",
    "FunctionToolResult",
    "HostedMCPTool",
    "ImageGenerationTool",
    "MCPToolApprovalFunction",
    "MCPToolApprovalFunctionResult",
    "MCPToolApprovalRequest",
    "ShellActionRequest",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
    "ShellResult",
    "ShellTool",
    "Tool",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "WebSearchTool",
    "default_tool_error_function",
    "function_tool",
]

"""What the SDK ships beside its core."""

from __future__ import annotations

from placet.agents.extensions.tool_output_trimmer import ToolOutputTrimmer

__all__ = ["ToolOutputTrimmer"]

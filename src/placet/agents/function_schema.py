"""From functions to schemas."""

from __future__ import annotations

from placet.declare.tool_schema import FunctionSchema as FuncSchema
from placet.declare.tool_schema import function_schema

__all__ = ["FuncSchema", "function_schema"]

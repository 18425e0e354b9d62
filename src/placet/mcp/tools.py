"""A tool of a server, as an agent has it: its identity is the server's name, its own, and its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from placet.declare.tool import FunctionTool, escaped, fingerprint_of
from placet.facts.codec import JsonObject


@dataclass(eq=False)
class MCPTool(FunctionTool):
    """A tool that a server runs. `name` is what the model calls it, `tool_name` what the server does."""

    server_name: str = ""
    tool_name: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)
    """What the server says of its nature (`readOnlyHint`, `destructiveHint`, …)."""

    kind = "mcp"

    @property
    def identity(self) -> str:
        return f"mcp:{escaped(self.server_name)}:{escaped(self.tool_name)}"

    @property
    def name_at_home(self) -> str:
        return self.tool_name

    @property
    def first_fingerprint(self) -> str:
        """The schema without its prose, the declared version, and what the server says of the tool's nature: one that
        was harmless when it was approved, and is not any more, is another tool."""
        return fingerprint_of(self.params_json_schema, self.version, dict(self.hints))


def as_parameters(schema: Mapping[str, Any]) -> JsonObject:
    """The server's input schema, as models take it: an object that names its properties, if it has none too."""
    return {**schema, "type": "object", "properties": dict(schema.get("properties") or {})}

"""How a final output is asked for and read."""

from __future__ import annotations

from placet.declare.output_schema import OutputSchema as AgentOutputSchemaBase
from placet.declare.output_schema import TypedOutputSchema as AgentOutputSchema

__all__ = ["AgentOutputSchema", "AgentOutputSchemaBase"]

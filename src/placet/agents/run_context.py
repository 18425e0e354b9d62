"""The context of a run."""

from __future__ import annotations

from placet import RunContextWrapper
from placet.declare.context import T as TContext

AgentHookContext = RunContextWrapper

__all__ = ["AgentHookContext", "RunContextWrapper", "TContext"]

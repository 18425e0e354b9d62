"""Tools that a provider has of its own: whether one may be offered as such, and whether a call came as such."""

from __future__ import annotations

from typing import Any

from placet.declare.context import ToolContext
from placet.facts.errors import UserError
from placet.facts.native_items import NATIVE


def check_native(kind: str, name: str, native: object) -> None:
    """A provider's own tool has the provider's name for it: its calls come without one."""
    if not isinstance(native, bool):
        raise UserError(f"Tool '{name}': native is True or False, not {native!r}.")
    if native and name != kind:
        raise UserError(f"Tool '{name}': a native tool of this kind has the name '{kind}'. Leave name= out.")


def is_native(ctx: ToolContext[Any]) -> bool:
    """Whether the provider wrote this call as an item of its own kind."""
    return isinstance(ctx.tool_call, dict) and ctx.tool_call.get("type") in NATIVE

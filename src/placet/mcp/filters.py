"""Which of a server's tools an agent gets to see: by name, or by a function. One that fails shows nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from placet.declare.context import RunContextWrapper
from placet.facts.errors import UserError
from placet.facts.items import Named
from placet.runtime.frame import awaited

if TYPE_CHECKING:
    from mcp.types import Tool as ServerTool

logger = logging.getLogger("placet.mcp")


class ToolFilterStatic(TypedDict, total=False):
    """By name: only these, and none of those."""

    allowed_tool_names: list[str]
    blocked_tool_names: list[str]


@dataclass(frozen=True, slots=True)
class ToolFilterContext:
    """What a filter gets."""

    run_context: RunContextWrapper[Any]
    agent: Named
    server_name: str


ToolFilterFunction: TypeAlias = Callable[[ToolFilterContext, Any], bool | Awaitable[bool]]
ToolFilterCallable = ToolFilterFunction
ToolFilter: TypeAlias = ToolFilterStatic | ToolFilterFunction
"""Names, or a function `(context, tool)`: only the tools of which it says True are shown."""


def create_static_tool_filter(
    allowed_tool_names: Sequence[str] | None = None, blocked_tool_names: Sequence[str] | None = None
) -> ToolFilterStatic | None:
    """A filter by name; None when neither is given."""
    found = ToolFilterStatic()
    if allowed_tool_names is not None:
        found["allowed_tool_names"] = list(allowed_tool_names)
    if blocked_tool_names is not None:
        found["blocked_tool_names"] = list(blocked_tool_names)
    return found or None


def check_filter(server: str, given: object) -> None:
    """UserError for what is no filter: a misspelt key would show everything."""
    if given is None or callable(given):
        return
    known = set(ToolFilterStatic.__annotations__)
    if not isinstance(given, dict) or not set(given) <= known:
        raise UserError(
            f"MCP server '{server}': tool_filter is a function (context, tool), or a dict with {sorted(known)}, "
            f"not {given!r}."
        )
    for key, names in given.items():
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
            raise UserError(f"MCP server '{server}': tool_filter[{key!r}] is a list of names, not {names!r}.")


async def passes(chosen: ToolFilter | None, context: ToolFilterContext, tool: ServerTool) -> bool:
    if chosen is None:
        return True
    if not callable(chosen):
        allowed = chosen.get("allowed_tool_names")
        return (allowed is None or tool.name in allowed) and tool.name not in chosen.get("blocked_tool_names", ())
    try:
        return await awaited(chosen(context, tool)) is True
    except Exception as error:  # noqa: BLE001  # a tool of which nobody can say that it may be seen is not seen
        logger.warning(
            "tool filter failed",
            extra={"action": "tool_filter_failed", "server": context.server_name, "error": type(error).__name__},
        )
        return False

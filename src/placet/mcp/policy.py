"""`require_approval`: which tools of a server wait for a person. What is not understood is refused where it is written.

Rule of this file: hints of the server may make a person be asked who would not have been, never the reverse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from placet.declare.context import RunContextWrapper
from placet.declare.tool import ApprovalRule
from placet.facts.errors import UserError
from placet.facts.items import Named

if TYPE_CHECKING:
    from mcp.types import Tool as ServerTool

ApprovalSetting: TypeAlias = Literal["always", "never"] | bool
AskFunction: TypeAlias = Callable[[RunContextWrapper[Any], Named, Any], bool | Awaitable[bool]]
"""`(ctx, agent, tool)`, the tool as its server describes it: whatever it answers but `False` asks a person."""
RequireApproval: TypeAlias = (
    ApprovalSetting | Mapping[str, ApprovalSetting] | Mapping[str, Mapping[str, list[str]]] | AskFunction
)
"""«always» or «never» (or True, False) for all tools; for each by name, with "*" for those that are not named; by
lists, `{"always": {"tool_names": […]}, "never": {"tool_names": […]}}`; or a function."""

OTHERS = "*"
_FORMS = (
    'it is "always", "never", True or False; a mapping of tool names to these ("*" for all others); '
    '{"always": {"tool_names": […]}, "never": {"tool_names": […]}}; or a function (ctx, agent, tool)'
)


class Policy:
    """What a server's `require_approval` says of each of its tools."""

    def __init__(self, server: str, given: RequireApproval | None, *, heed_hints: bool | None) -> None:
        self._server = server
        self._rule: AskFunction | None = None
        self._by_tool: dict[str, bool] = {}
        """By name: whether a person is asked."""
        self._others = False
        self._heeds_hints = given is None if heed_hints is None else heed_hints
        raw: object = given
        if isinstance(raw, Mapping):
            self._by_tool = dict(self._of_lists(raw) if _is_by_lists(raw) else self._of_names(raw))
            self._others = self._by_tool.pop(OTHERS, True)  # silence asks
        elif raw is not None and callable(raw):
            self._rule = given  # type: ignore[assignment]  # a given function is of this kind
        elif raw is not None:
            self._others = self._is_asked(raw, "require_approval")

    @property
    def names(self) -> set[str]:
        """The tools that it names."""
        return set(self._by_tool)

    def rule_for(self, tool: ServerTool, agent: Named) -> ApprovalRule:
        is_marked = self._heeds_hints and is_destructive(tool)
        if self._rule is None:
            return is_marked or self._by_tool.get(tool.name, self._others)
        if is_marked:
            return True
        ask = self._rule

        def judge(ctx: RunContextWrapper[Any], _arguments: object, _call_id: str) -> bool | Awaitable[bool]:
            return ask(ctx, agent, tool)

        return judge

    def _of_names(self, given: Mapping[Any, Any]) -> Iterator[tuple[str, bool]]:
        for name, setting in given.items():
            if not isinstance(name, str) or not name:
                raise self._refused(f"a tool's name is a text, not {name!r}")
            yield name, self._is_asked(setting, f"require_approval[{name!r}]")

    def _of_lists(self, given: Mapping[Any, Any]) -> Iterator[tuple[str, bool]]:
        seen: dict[str, str] = {}
        for setting, chosen in given.items():
            names = chosen.get("tool_names")
            if set(chosen) != {"tool_names"} or not _is_list_of_names(names):
                raise self._refused(f"under {setting!r} stands {chosen!r} and not {{'tool_names': […]}}")
            for name in names:
                if seen.setdefault(name, setting) != setting:
                    raise self._refused(f"the tool {name!r} stands under «always» and under «never»")
                yield name, setting == "always"

    def _is_asked(self, given: object, where: str) -> bool:
        """Whether a person is asked."""
        if isinstance(given, bool):
            return given
        if given == "always":
            return True
        if given == "never":
            return False
        raise self._refused(f"{where} is {given!r}")

    def _refused(self, problem: str) -> UserError:
        return UserError(f"MCP server '{self._server}': {problem}; {_FORMS}.")


def _is_by_lists(given: Mapping[Any, Any]) -> bool:
    return bool(given) and set(given) <= {"always", "never"} and all(isinstance(v, Mapping) for v in given.values())


def _is_list_of_names(names: object) -> bool:
    return isinstance(names, list | tuple | set | frozenset) and all(isinstance(each, str) and each for each in names)


def is_destructive(tool: ServerTool) -> bool:
    """Whether the server says of the tool, explicitly, that it may destroy something or changes the world."""
    hints = tool.annotations
    if hints is None:
        return False
    return hints.destructive_hint is True or (hints.read_only_hint is False and hints.destructive_hint is not False)

"""Tools of the Responses API with the SDK's arguments: there they are the provider's own kinds of tools by default."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from placet import HostedTool, RunContextWrapper, ToolApprovalItem, UserError
from placet.facts.codec import JsonObject, plain_item
from placet.facts.items import RawItem
from placet.tools import ApplyPatchTool as PatchTool
from placet.tools import ComputerTool as Screen
from placet.tools import ShellTool as Shell
from placet.tools.patch import ApplyPatchEditor
from placet.tools.shell import ShellExecutor

_ELSEWHERE = ("container_auto", "container_reference")


class ShellTool(Shell):
    """A shell. Unlike the SDK's it asks a person unless it is told otherwise. In an `environment` of the provider's it
    is a tool that the provider runs."""

    def __new__(cls, executor: ShellExecutor | None = None, *given: Any, **options: Any) -> Any:
        environment = options.get("environment") or (given[3] if len(given) > 3 else None)  # the SDK's fifth
        if not isinstance(environment, Mapping) or environment.get("type") not in _ELSEWHERE:
            return super().__new__(cls)
        if executor is not None:
            raise UserError("A shell in an environment of the provider's does not accept an executor.")
        if options.get("needs_approval") or options.get("on_approval") or any(given[1:3]):
            raise UserError(
                "A shell in an environment of the provider's does not support needs_approval or on_approval: the "
                "provider does not ask before it runs a command."
            )
        return HostedTool({"type": "shell", "environment": dict(environment)})

    def __init__(
        self,
        executor: ShellExecutor | None = None,
        name: str = "shell",
        needs_approval: Any = True,  # Any: as the tool itself checks it
        on_approval: Any = None,
        environment: Mapping[str, Any] | None = None,
        *,
        allowed_callers: Sequence[str] | None = None,
    ) -> None:
        if executor is None:
            raise UserError("A shell on this machine needs an executor: ShellTool(executor=…).")
        self.environment = dict(environment) if environment else {"type": "local"}
        self._callers = allowed_callers
        super().__init__(
            executor, name=name, needs_approval=needs_approval, on_approval=on_approval, native=name == self.kind
        )

    @property
    def native_declaration(self) -> JsonObject | None:
        callers: JsonObject = {} if self._callers is None else {"allowed_callers": list(self._callers)}
        return {"type": "shell", "environment": self.environment, **callers} if self.native else None


class ApplyPatchTool(PatchTool):
    """Patches. Unlike the SDK's it asks a person unless it is told otherwise."""

    def __init__(
        self,
        editor: ApplyPatchEditor,
        name: str = "apply_patch",
        needs_approval: Any = True,  # Any: as the tool itself checks it
        on_approval: Any = None,
        *,
        allowed_callers: Sequence[str] | None = None,
    ) -> None:
        self._callers = allowed_callers
        super().__init__(
            editor, name=name, needs_approval=needs_approval, on_approval=on_approval, native=name == self.kind
        )

    @property
    def native_declaration(self) -> JsonObject | None:
        callers: JsonObject = {} if self._callers is None else {"allowed_callers": list(self._callers)}
        return {"type": "apply_patch", **callers} if self.native else None


@dataclass
class ComputerToolSafetyCheckData:
    """What an `on_safety_check` function is told."""

    ctx_wrapper: RunContextWrapper[Any]
    agent: Any
    tool_call: Any
    safety_check: Any


OnSafetyCheck: TypeAlias = Callable[[ComputerToolSafetyCheckData], bool | Awaitable[bool]]


class ComputerTool(Screen):
    """A computer. Its calls wait for a person. `on_safety_check` decides those that the provider has checks for: it
    acknowledges all of them, or the call is rejected."""

    def __init__(self, computer: Any, on_safety_check: OnSafetyCheck | None = None, **options: Any) -> None:
        self.on_safety_check = on_safety_check
        if on_safety_check is not None:
            options.setdefault("on_approval", self._acknowledged)
        super().__init__(computer, **options)

    async def _acknowledged(self, ctx: RunContextWrapper[Any], item: ToolApprovalItem) -> Mapping[str, Any]:
        assert self.on_safety_check is not None
        checks = plain_item(item.raw_item).get("pending_safety_checks")
        if not isinstance(checks, list) or not checks:
            return {}
        for check in checks:
            data = ComputerToolSafetyCheckData(ctx, item.agent, item.raw_item, RawItem(dict(check)))
            answer = self.on_safety_check(data)
            if (await answer if inspect.isawaitable(answer) else answer) is not True:
                return {"approve": False, "reason": "A safety check was not acknowledged."}
        return {"approve": True}


class ToolSearchTool(HostedTool):
    """The model searches for tools that are loaded later (`defer_loading=True`)."""

    def __init__(self, description: str | None = None, execution: str | None = None, parameters: Any = None) -> None:
        if execution == "client":
            raise UserError("Tools are searched for by the provider here: leave execution='client' out.")
        given = {"description": description, "execution": execution, "parameters": parameters}
        super().__init__({"type": "tool_search", **{name: each for name, each in given.items() if each is not None}})


class ProgrammaticToolCallingTool(HostedTool):
    """The model writes programs that call the tools whose `allowed_callers` say so. Each such call is decided like any
    other."""

    def __init__(self) -> None:
        super().__init__({"type": "programmatic_tool_calling"})

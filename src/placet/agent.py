"""Agents: declarations that hold no run state. The same agent may be in any number of runs at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

from placet.context import RunContextWrapper
from placet.errors import UserError
from placet.lifecycle import RunHooks
from placet.model_settings import ModelSettings
from placet.ports import Model
from placet.tool import Tool

T = TypeVar("T")


class StopAtTools(TypedDict):
    """The run ends with the output of the first of these tools that the model called."""

    stop_at_tool_names: list[str]


@dataclass(frozen=True, slots=True)
class FunctionToolResult:
    """A call of the turn and its output, for a `tool_use_behavior` function."""

    tool: Tool | None
    tool_name: str
    output: Any
    was_run: bool
    """False for a call that was rejected, answered, denied, expired or superseded: its body never ran."""


@dataclass(frozen=True, slots=True)
class ToolsToFinalOutputResult:
    is_final_output: bool
    final_output: Any = None


ToolUseBehavior: TypeAlias = (
    Literal["run_llm_again", "stop_on_first_tool"]
    | StopAtTools
    | Callable[
        [RunContextWrapper[Any], list[FunctionToolResult]],
        ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
    ]
)


@dataclass(eq=False, kw_only=False)
class Agent(Generic[T]):
    """A model with instructions and tools."""

    name: str
    instructions: str | Callable[[RunContextWrapper[T], Agent[T]], str | Awaitable[str]] | None = None
    tools: list[Tool] = field(default_factory=list)
    model: str | Model | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    output_type: type[Any] | None = None
    """A type that pydantic knows: the final output is parsed into it. None: the final output is text."""
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    hooks: RunHooks[T] | None = None
    key: str | None = None
    """Tells this agent apart where its name does not; stored states find their agent by it."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UserError(f"An agent's name is a text, not {self.name!r}.")
        behavior = self.tool_use_behavior
        if behavior not in ("run_llm_again", "stop_on_first_tool") and not callable(behavior):
            names = behavior.get("stop_at_tool_names") if isinstance(behavior, dict) else None
            if not isinstance(names, list):
                raise UserError(
                    f"Agent '{self.name}': tool_use_behavior is 'run_llm_again', 'stop_on_first_tool', "
                    f"{{'stop_at_tool_names': […]}} or a function, not {behavior!r}."
                )
        seen: set[str] = set()
        for tool in self.tools:
            if tool.name in seen:
                raise UserError(f"Agent '{self.name}' has two tools named '{tool.name}': rename one (name_override=…).")
            seen.add(tool.name)

    @property
    def address(self) -> str:
        return self.key or self.name

    def tool_named(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def clone(self, **changes: Any) -> Agent[T]:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

"""Guardrails: rules in code that look at what goes in and comes out, and can stop a run (a tripwire) or one call.

When they run: input guardrails once, at the start of a run, beside the first model call or before it; output guardrails
on the final output, before the run ends; a tool's input guardrails before a person is asked and again right before the
tool function runs; a tool's output guardrails on what the tool function returned. None of them erases what has
happened: a tripwire ends the drive, and the log stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import msgspec

from placet.declare.context import RunContextWrapper, ToolContext
from placet.facts.items import Named


class GuardrailFunctionOutput(msgspec.Struct, frozen=True):
    """What a guardrail of a run says."""

    output_info: Any = None
    tripwire_triggered: bool = False


GuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
]


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", "guardrail"))


@dataclass(eq=False, slots=True)
class InputGuardrail:
    """Looks at a run's input: `(ctx, agent, input)`."""

    guardrail_function: GuardrailFunction
    name: str | None = None
    run_in_parallel: bool = True
    """Beside the first model call; False: before it. No tool runs before it has spoken, either way."""

    def get_name(self) -> str:
        return self.name or _name_of(self.guardrail_function)


@dataclass(eq=False, slots=True)
class OutputGuardrail:
    """Looks at a run's final output: `(ctx, agent, output)`."""

    guardrail_function: GuardrailFunction
    name: str | None = None

    def get_name(self) -> str:
        return self.name or _name_of(self.guardrail_function)


class GuardrailResult(msgspec.Struct, frozen=True):
    """What a guardrail said, as it stands in the log."""

    name: str
    output: GuardrailFunctionOutput
    call: str | None = None
    """Our id of the call, for a tool's guardrail."""
    source: Any = None
    """The guardrail itself, where the process that reads this is the one that asked it."""
    agent: Any = None
    agent_output: Any = None
    """Of an output guardrail: whose output it looked at, and which."""

    @property
    def guardrail(self) -> Any:
        """The guardrail; read from a log, one that knows its name and no more."""
        return self.source if self.source is not None else GuardrailName(self.name)


class GuardrailName(msgspec.Struct, frozen=True):
    """Stands for a guardrail of which a log knows the name."""

    name: str

    def get_name(self) -> str:
        return self.name


InputGuardrailResult = OutputGuardrailResult = ToolInputGuardrailResult = ToolOutputGuardrailResult = GuardrailResult


class ToolGuardrailFunctionOutput(msgspec.Struct, frozen=True):
    """What a guardrail of a tool says: let it be, put a message in its place, or stop the run."""

    output_info: Any = None
    behavior: Literal["allow", "reject_content", "raise_exception"] = "allow"
    message: str | None = None

    @classmethod
    def allow(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        return cls(output_info)

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        return cls(output_info, "reject_content", message)

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        return cls(output_info, "raise_exception")


class ToolInputGuardrailData(msgspec.Struct, frozen=True):
    """What a tool's input guardrail looks at."""

    context: ToolContext[Any]
    agent: Named


class ToolOutputGuardrailData(ToolInputGuardrailData, frozen=True):
    """What a tool's output guardrail looks at."""

    output: Any = None


ToolGuardrailFunction: TypeAlias = Callable[[Any], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]]


@dataclass(eq=False, slots=True)
class ToolInputGuardrail:
    """Looks at a call before a person is asked about it and before it runs."""

    guardrail_function: ToolGuardrailFunction
    name: str | None = None

    def get_name(self) -> str:
        return self.name or _name_of(self.guardrail_function)


class ToolOutputGuardrail(ToolInputGuardrail):
    """Looks at what a tool function returned."""

    __slots__ = ()


@overload
def input_guardrail(function: GuardrailFunction, /) -> InputGuardrail: ...
@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[GuardrailFunction], InputGuardrail]: ...
def input_guardrail(
    function: GuardrailFunction | None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail | Callable[[GuardrailFunction], InputGuardrail]:
    """Make an input guardrail of a function `(ctx, agent, input)`."""

    def make(function: GuardrailFunction) -> InputGuardrail:
        return InputGuardrail(function, name, run_in_parallel)

    return make if function is None else make(function)


def output_guardrail(function: GuardrailFunction) -> OutputGuardrail:
    """Make an output guardrail of a function `(ctx, agent, output)`."""
    return OutputGuardrail(function)


def tool_input_guardrail(function: ToolGuardrailFunction) -> ToolInputGuardrail:
    """Make a guardrail of a function that looks at a call before it is asked about and before it runs."""
    return ToolInputGuardrail(function)


def tool_output_guardrail(function: ToolGuardrailFunction) -> ToolOutputGuardrail:
    """Make a guardrail of a function that looks at what a tool function returned."""
    return ToolOutputGuardrail(function)

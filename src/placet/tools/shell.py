"""`ShellTool`: the model proposes commands, a person sees them, an executor runs them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import EnabledRule, FunctionTool, OnApproval, Recovery, check_rule
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, refuse_unknown
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import UserError
from placet.tools.native import check_native, is_native

DESCRIPTION = (
    "Run shell commands, one after the other, and read what they print. A command that fails does not stop the next."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "commands": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "timeout_ms": {"type": ["integer", "null"], "description": "For each command; null for the usual limit."},
        "max_output_length": {"type": ["integer", "null"], "description": "Characters; null for the usual limit."},
    },
    "required": ["commands", "timeout_ms", "max_output_length"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ShellActionRequest:
    """What the model asks for."""

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass(frozen=True, slots=True)
class ShellCallData:
    call_id: str
    action: ShellActionRequest


@dataclass(frozen=True, slots=True)
class ShellCommandRequest:
    """What an executor is given."""

    ctx_wrapper: RunContextWrapper[Any]
    data: ShellCallData


@dataclass(frozen=True, slots=True)
class ShellCallOutcome:
    type: Literal["exit", "timeout"]
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ShellCommandOutput:
    """What one command printed, and how it ended."""

    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=lambda: ShellCallOutcome("exit", 0))
    command: str | None = None

    @property
    def exit_code(self) -> int | None:
        return self.outcome.exit_code


@dataclass(frozen=True, slots=True)
class ShellResult:
    output: list[ShellCommandOutput]
    max_output_length: int | None = None


ShellExecutor: TypeAlias = Callable[[ShellCommandRequest], str | ShellResult | Awaitable[str | ShellResult]]
ShellRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]]
"""True, False, or a predicate. Whatever it answers but `False` asks a person."""


class ShellTool(FunctionTool):
    """Runs commands by `executor`: your own, or a `LocalShell(folder)`. Unlike other tools it asks a person unless it
    is told otherwise. `native=True`: a model of OpenAI's Responses API is offered its own shell tool; any other model,
    a function."""

    kind = "shell"

    def __init__(
        self,
        executor: ShellExecutor,
        *,
        name: str = "shell",
        description: str = DESCRIPTION,
        needs_approval: ShellRule = True,
        on_approval: OnApproval | None = None,
        is_enabled: EnabledRule = True,
        recovery: Recovery = "ask",
        version: str | None = None,
        timeout: float | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
        native: bool = False,
    ) -> None:
        if not callable(executor):
            raise UserError(f"A shell tool needs an executor that can be called with a request, not {executor!r}.")
        check_rule(name, needs_approval, "(ctx, action, call_id)")
        check_native(self.kind, name, native)
        self.executor, self.native = executor, native
        super().__init__(
            name=name,
            description=description,
            params_json_schema=SCHEMA,
            on_invoke_tool=self._run,
            needs_approval=needs_approval if isinstance(needs_approval, bool) else _about_action(needs_approval),
            validate_arguments=_validated,
            on_approval=on_approval,
            is_enabled=is_enabled,
            recovery=recovery,
            version=version,
            timeout=timeout,
            decide_within=decide_within,
            at_deadline=at_deadline,
            approval_valid_for=approval_valid_for,
        )

    @property
    def native_declaration(self) -> JsonObject | None:
        return {"type": "shell", "environment": {"type": "local"}} if self.native else None

    async def _run(self, ctx: ToolContext[Any], text: str) -> str | ShellResult:
        action = action_of(parse_arguments(text))
        found = self.executor(ShellCommandRequest(ctx, ShellCallData(ctx.tool_call_id, action)))
        result = await found if inspect.isawaitable(found) else found
        if isinstance(result, str) or (is_native(ctx) and result.output):
            return result  # the provider of a native call is told command by command
        return readable(result.output)


def action_of(arguments: JsonObject | None) -> ShellActionRequest:
    """The action of a call's arguments, or InvalidArguments."""
    given = arguments or {}
    commands = given.get("commands")
    if not isinstance(commands, list) or not commands or not all(isinstance(each, str) for each in commands):
        raise InvalidArguments("commands: a list of texts is needed")
    if any("\0" in each for each in commands):
        raise InvalidArguments("commands: a command holds a NUL character")
    return ShellActionRequest(
        [str(each) for each in commands], _number(given, "timeout_ms"), _number(given, "max_output_length")
    )


def _validated(arguments: JsonObject) -> ValidatedArguments:
    """What is shown is what runs: an argument that no executor would be told of is refused."""
    action_of(arguments)
    refuse_unknown(arguments, SCHEMA)
    return ValidatedArguments(arguments)


def _number(given: JsonObject, name: str) -> int | None:
    found = given.get(name)
    if found is None or (isinstance(found, int) and not isinstance(found, bool) and found > 0):
        return found
    raise InvalidArguments(f"{name}: a whole number above 0, or null")


def _about_action(
    rule: Callable[[RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]],
) -> Callable[[RunContextWrapper[Any], JsonObject, str], Awaitable[bool]]:
    async def ask(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        answer = rule(ctx, action_of(arguments), call_id)
        return (await answer if inspect.isawaitable(answer) else answer) is not False

    return ask


def readable(outputs: Sequence[ShellCommandOutput]) -> str:
    """What the model reads: each command, what it printed, and how it ended."""
    return "\n".join(map(_one_readable, outputs))


def _one_readable(output: ShellCommandOutput) -> str:
    parts = [f"$ {output.command}"] if output.command is not None else []
    parts += [output.stdout.rstrip("\n")] if output.stdout else []
    parts += ["[stderr]", output.stderr.rstrip("\n")] if output.stderr else []
    match output.outcome:
        case ShellCallOutcome("timeout"):
            parts.append("[stopped: it took too long]")
        case ShellCallOutcome(exit_code=code) if code is not None and code < 0:
            parts.append(f"[ended by signal {-code}]")
        case ShellCallOutcome(exit_code=code):
            parts.append(f"[exit code {code}]")
    return "\n".join(parts)

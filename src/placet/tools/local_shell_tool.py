"""`LocalShellTool`: the older native shell of the Responses API: one program with its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import EnabledRule, FunctionTool, OnApproval, Recovery, check_rule
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, refuse_unknown
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import UserError
from placet.facts.items import RawItem

DESCRIPTION = "Run one program with its arguments, without a shell in between, and read what it prints."

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables of the environment.",
        },
        "timeout_ms": {"type": ["integer", "null"]},
        "user": {"type": ["string", "null"]},
        "working_directory": {"type": ["string", "null"]},
    },
    "required": ["command"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class LocalShellAction:
    """What the model asks for."""

    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


@dataclass(frozen=True, slots=True)
class LocalShellCommandRequest:
    """What an executor is given. `data` reads like the provider's item, with the action that was approved."""

    ctx_wrapper: RunContextWrapper[Any]
    data: Any  # Any: a raw item, which is a dict and an object at once

    @property
    def action(self) -> LocalShellAction:
        """What is to be run, as it was approved."""
        return action_of(dict(self.data["action"]))


LocalShellExecutor: TypeAlias = Callable[[LocalShellCommandRequest], str | Awaitable[str]]
LocalShellRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], LocalShellAction, str], bool | Awaitable[bool]]
"""True, False, or a predicate. Whatever it answers but `False` asks a person."""


class LocalShellTool(FunctionTool):
    """Runs programs by `executor`, a function of your own. It asks a person unless it is told otherwise. A model of the
    Responses API is offered its own tool `local_shell`; any other model, a function."""

    kind = "local_shell"

    def __init__(
        self,
        executor: LocalShellExecutor,
        *,
        needs_approval: LocalShellRule = True,
        on_approval: OnApproval | None = None,
        is_enabled: EnabledRule = True,
        recovery: Recovery = "ask",
        version: str | None = None,
        timeout: float | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
    ) -> None:
        if not callable(executor):
            raise UserError(f"A shell tool needs an executor that can be called with a request, not {executor!r}.")
        check_rule(self.kind, needs_approval, "(ctx, action, call_id)")
        self.executor = executor
        super().__init__(
            name=self.kind,
            description=DESCRIPTION,
            params_json_schema=SCHEMA,
            strict_json_schema=False,
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
        return {"type": "local_shell"}

    async def _run(self, ctx: ToolContext[Any], text: str) -> str:
        action = {"type": "exec", "env": {}, **(parse_arguments(text) or {})}
        data = RawItem({"type": "local_shell_call", "call_id": ctx.tool_call_id, "action": action})
        found = self.executor(LocalShellCommandRequest(ctx, data))
        return await found if inspect.isawaitable(found) else found


def action_of(given: JsonObject) -> LocalShellAction:
    """The action of a call's arguments, or InvalidArguments."""
    command, env = given.get("command"), given.get("env") or {}
    if not isinstance(command, list) or not command or not all(isinstance(each, str) for each in command):
        raise InvalidArguments("command: a list of texts is needed")
    if not isinstance(env, dict) or not all(isinstance(each, str) for each in env.values()):
        raise InvalidArguments("env: an object of texts is needed")
    timeout = _milliseconds(given.get("timeout_ms"))
    strings = [str(each) for each in command]
    variables = {name: str(value) for name, value in env.items()}
    return LocalShellAction(strings, variables, timeout, _text(given, "user"), _text(given, "working_directory"))


def _milliseconds(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidArguments("timeout_ms: a whole number above 0, or null")
    return value


def _text(given: JsonObject, name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArguments(f"{name}: a text, or null")
    return value


def _validated(arguments: JsonObject) -> ValidatedArguments:
    """What is shown is what runs: an argument that no executor would be told of is refused."""
    action_of(arguments)
    refuse_unknown({**arguments, "env": None}, SCHEMA)  # its variables may have any name
    return ValidatedArguments(arguments)


def _about_action(
    rule: Callable[[RunContextWrapper[Any], LocalShellAction, str], bool | Awaitable[bool]],
) -> Callable[[RunContextWrapper[Any], JsonObject, str], Awaitable[bool]]:
    async def ask(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        answer = rule(ctx, action_of(arguments), call_id)
        return (await answer if inspect.isawaitable(answer) else answer) is not False

    return ask

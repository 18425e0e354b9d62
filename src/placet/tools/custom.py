"""`CustomTool`: the model writes free text (a patch, a query, a program) instead of JSON, and a function gets it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import (
    EnabledRule,
    FailureText,
    FunctionTool,
    OnApproval,
    Recovery,
    check_rule,
    default_tool_error_function,
)
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, refuse_unknown
from placet.facts.codec import JsonObject, NotPlain, parse_arguments, plain
from placet.facts.errors import UserError

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The text that the tool gets."}},
    "required": ["input"],
    "additionalProperties": False,
}

CustomToolExecutor: TypeAlias = Callable[[ToolContext[Any], str], object | Awaitable[object]]
CustomRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], str, str], bool | Awaitable[bool]]
"""True, False, or a predicate about the text. Whatever it answers but `False` asks a person."""


class CustomTool(FunctionTool):
    """Takes free text. A model of OpenAI's Responses API is offered a custom tool, whose `format` may be a grammar
    (`{"type": "grammar", "syntax": "lark", "definition": "…"}`); any other model, a function with one text."""

    kind = "custom"

    def __init__(
        self,
        name: str,
        description: str,
        on_invoke_tool: CustomToolExecutor,
        format: Mapping[str, Any] | None = None,
        needs_approval: CustomRule = False,
        on_approval: OnApproval | None = None,
        *,
        is_enabled: EnabledRule = True,
        failure_error_function: FailureText | None = default_tool_error_function,
        recovery: Recovery = "ask",
        version: str | None = None,
        timeout: float | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
    ) -> None:
        if not callable(on_invoke_tool):
            raise UserError(f"Tool '{name}': on_invoke_tool is a function (ctx, text), not {on_invoke_tool!r}.")
        check_rule(name, needs_approval, "(ctx, text, call_id)")
        self.format = _plain_format(name, format)
        self.execute = on_invoke_tool
        super().__init__(
            name=name,
            description=description,
            params_json_schema=SCHEMA,
            on_invoke_tool=self._run,
            needs_approval=needs_approval if isinstance(needs_approval, bool) else _about_text(needs_approval),
            validate_arguments=_validated,
            on_approval=on_approval,
            is_enabled=is_enabled,
            failure_error_function=failure_error_function,
            recovery=recovery,
            version=version,
            timeout=timeout,
            decide_within=decide_within,
            at_deadline=at_deadline,
            approval_valid_for=approval_valid_for,
        )

    @property
    def native_declaration(self) -> JsonObject | None:
        told: JsonObject = {"type": "custom", "name": self.name, "description": self.description}
        return told if self.format is None else {**told, "format": self.format}

    async def _run(self, ctx: ToolContext[Any], text: str) -> object:
        found = self.execute(ctx, text_of(parse_arguments(text)))
        return await found if inspect.isawaitable(found) else found


def text_of(arguments: JsonObject | None) -> str:
    """The text of a call's arguments, or InvalidArguments."""
    found = (arguments or {}).get("input")
    if not isinstance(found, str):
        raise InvalidArguments("input: a text is needed")
    return found


def _validated(arguments: JsonObject) -> ValidatedArguments:
    text_of(arguments)
    refuse_unknown(arguments, SCHEMA)
    return ValidatedArguments(arguments)


def _plain_format(name: str, format: object) -> JsonObject | None:
    if format is None:
        return None
    try:
        found = plain(format, "format")
    except NotPlain as error:
        raise UserError(f"Tool '{name}': its format must be plain JSON: {error}.") from error
    if not isinstance(found, dict) or found.get("type") not in ("text", "grammar"):
        raise UserError(f"Tool '{name}': its format has a 'type', which is 'text' or 'grammar', not {format!r}.")
    return found


def _about_text(
    rule: Callable[[RunContextWrapper[Any], str, str], bool | Awaitable[bool]],
) -> Callable[[RunContextWrapper[Any], JsonObject, str], Awaitable[bool]]:
    async def ask(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        answer = rule(ctx, text_of(arguments), call_id)
        return (await answer if inspect.isawaitable(answer) else answer) is not False

    return ask

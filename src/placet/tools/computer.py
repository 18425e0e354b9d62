"""`ComputerTool`: the model sees a screen and proposes actions, a person decides, a computer carries them out."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import EnabledRule, FunctionTool, OnApproval, Recovery, check_rule
from placet.declare.tool_outputs import ToolOutputImage
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, refuse_unknown
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import ToolError, UserError

Environment: TypeAlias = Literal["mac", "windows", "ubuntu", "linux", "browser"]
Button: TypeAlias = Literal["left", "right", "wheel", "back", "forward"]

DESCRIPTION = "Use a computer: a list of actions with mouse and keyboard, carried out in order. You get a screenshot."

FIELDS: dict[str, tuple[str, ...]] = {
    "click": ("x", "y", "button"),
    "double_click": ("x", "y"),
    "drag": ("path",),
    "keypress": ("keys",),
    "move": ("x", "y"),
    "screenshot": (),
    "scroll": ("x", "y", "scroll_x", "scroll_y"),
    "type": ("text",),
    "wait": (),
}
"""The kinds of actions, and what each of them needs."""


def _object(**types: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "actions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": list(FIELDS)},
                    **{name: {"type": "integer"} for name in ("x", "y", "scroll_x", "scroll_y")},
                    "button": {"type": "string"},
                    "text": {"type": "string"},
                    "keys": {"type": ["array", "null"], "items": {"type": "string"}},
                    "path": {"type": "array", "items": _object(x="integer", y="integer")},
                },
                "required": ["type"],
                "additionalProperties": False,
            },
        },
        "safety_checks": {"type": "array", "items": _object(id="string", code="string", message="string")},
    },
    "required": ["actions"],
    "additionalProperties": False,
}


class Computer(Protocol):
    """A screen, a mouse and a keyboard. Methods may be plain or `async`. Those of the mouse may take `keys=`, the keys
    that are held meanwhile."""

    def screenshot(self) -> str | Awaitable[str]:
        """A PNG in base64."""
        ...

    def click(self, x: int, y: int, button: Button) -> Any: ...  # Any: nothing, or an awaitable of nothing

    def double_click(self, x: int, y: int) -> Any: ...

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> Any: ...

    def type(self, text: str) -> Any: ...

    def wait(self) -> Any: ...

    def move(self, x: int, y: int) -> Any: ...

    def keypress(self, keys: list[str]) -> Any: ...

    def drag(self, path: list[tuple[int, int]]) -> Any: ...


AsyncComputer: TypeAlias = Computer
ComputerRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], list[JsonObject], str], bool | Awaitable[bool]]
"""True, False, or a predicate over the actions. Whatever it answers but `False` asks a person."""


class ComputerTool(FunctionTool):
    """Uses `computer`, an object of your own. It asks a person unless it is told otherwise, and always where the
    provider raises a safety check: to approve such a call is to acknowledge it. A model of the Responses API is
    offered its own tool; any other model, a function whose output is an image."""

    kind = "computer"

    def __init__(
        self,
        computer: Computer,
        *,
        needs_approval: ComputerRule = True,
        on_approval: OnApproval | None = None,
        is_enabled: EnabledRule = True,
        recovery: Recovery = "ask",
        version: str | None = None,
        timeout: float | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
    ) -> None:
        for method in FIELDS:
            if not callable(getattr(computer, method, None)):
                raise UserError(f"A computer has a method {method}(…); {computer!r} has none.")
        check_rule(self.kind, needs_approval, "(ctx, actions, call_id)")
        self.computer = computer
        super().__init__(
            name=self.kind,
            description=DESCRIPTION,
            params_json_schema=SCHEMA,
            strict_json_schema=False,
            on_invoke_tool=self._act,
            needs_approval=True if needs_approval is True else _about_actions(needs_approval),
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
        """The older tool needs to know the screen; where the computer does not say, it is the newer one."""
        screen, system = (getattr(self.computer, name, None) for name in ("dimensions", "environment"))
        if screen is None or system is None:
            return {"type": "computer"}
        width, height = screen
        return {
            "type": "computer_use_preview",
            "environment": str(system),
            "display_width": int(width),
            "display_height": int(height),
        }

    async def _act(self, _ctx: ToolContext[Any], text: str) -> ToolOutputImage:
        for action in actions_of(parse_arguments(text)):
            if action["type"] != "screenshot":
                await _awaited(self._begin(action))
        return ToolOutputImage(image_url=_as_url(await _awaited(self.computer.screenshot())), detail="auto")

    def _begin(self, action: JsonObject) -> Any:
        kind = str(action["type"])
        method = getattr(self.computer, kind)
        given = {name: action[name] for name in FIELDS[kind]}
        path = action.get("path")
        if kind == "drag" and isinstance(path, list):
            given["path"] = [(step["x"], step["y"]) for step in path]
        if kind != "keypress" and action.get("keys"):
            if "keys" not in inspect.signature(method).parameters:
                raise ToolError(f"This computer cannot hold keys during '{kind}': its method takes no keys.")
            given["keys"] = action["keys"]
        return method(**given)


def actions_of(arguments: JsonObject | None) -> list[JsonObject]:
    """The actions of a call's arguments, or InvalidArguments."""
    given = (arguments or {}).get("actions")
    if not isinstance(given, list) or not given:
        raise InvalidArguments("actions: a list of actions is needed")
    found = [each for each in given if isinstance(each, dict)]
    if len(found) != len(given):
        raise InvalidArguments("actions: each is an object")
    for place, action in enumerate(found):
        _check_action(action, f"actions.{place}")
    return found


_KINDS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("x", "y", "scroll_x", "scroll_y"), lambda value: type(value) is int),
    **dict.fromkeys(("button", "text"), lambda value: isinstance(value, str)),
    "keys": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "path": lambda value: isinstance(value, list) and len(value) > 0 and all(map(_is_step, value)),
}


def _is_step(value: object) -> bool:
    return isinstance(value, Mapping) and type(value.get("x")) is int and type(value.get("y")) is int


def _check_action(action: JsonObject, where: str) -> None:
    kind = action.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise InvalidArguments(f"{where}.type: one of {', '.join(FIELDS)}")
    for name in FIELDS[kind]:
        if not _KINDS[name](action.get(name)):
            raise InvalidArguments(f"{where}.{name}: it is missing, or not of its kind")
    for name in action:
        if name not in (*FIELDS[kind], "type", "keys"):
            raise InvalidArguments(f"{where}.{name}: '{kind}' has no such field")
    if action.get("keys") is not None and not _KINDS["keys"](action["keys"]):
        raise InvalidArguments(f"{where}.keys: a list of texts, or null")


def _validated(arguments: JsonObject) -> ValidatedArguments:
    """What is shown is what runs: an argument that no computer would be told of is refused."""
    actions_of(arguments)
    refuse_unknown(arguments, SCHEMA)
    return ValidatedArguments(arguments)


def _about_actions(rule: ComputerRule) -> Callable[[RunContextWrapper[Any], JsonObject, str], Awaitable[bool]]:
    async def ask(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        if arguments.get("safety_checks"):
            return True  # a person has to acknowledge it
        answer = rule if isinstance(rule, bool) else await _awaited(rule(ctx, actions_of(arguments), call_id))
        return answer is not False

    return ask


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _as_url(picture: object) -> str:
    if isinstance(picture, str) and picture.startswith(("data:", "https://", "http://")):
        return picture
    try:
        base64.b64decode(str(picture) if isinstance(picture, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("A computer's screenshot is a PNG in base64, or an address of one.") from None
    return f"data:image/png;base64,{picture}"

"""Handoffs: one agent gives the conversation to another. To the model a handoff is a tool; here it is what ends a
turn."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from placet.declare.context import RunContextWrapper
from placet.declare.tool import EnabledRule
from placet.declare.tool_schema import strict_schema
from placet.declare.tool_values import ValidatedArguments, WholeType
from placet.facts.checks import FUNCTION, NAME, RULE, TEXT, TYPE, check, having, optional
from placet.facts.codec import JsonObject, encode, plain_item
from placet.facts.errors import UserError
from placet.facts.items import Item, ToolApprovalItem

if TYPE_CHECKING:
    from placet.facts.items import Named


HandoffItem: TypeAlias = Item | JsonObject
"""An item of the run, which reads like its raw item too (`item["type"]`), or a raw item that a filter made."""


@dataclass(frozen=True, slots=True)
class HandoffInputData:
    """What the next agent would read: a filter gives back another one."""

    input_history: str | tuple[JsonObject, ...]
    """The input of the run."""
    pre_handoff_items: tuple[HandoffItem, ...]
    """What was said and done before the turn of the handoff."""
    new_items: tuple[HandoffItem, ...]
    """The turn of the handoff: its calls, their outputs, the handoff itself."""
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[HandoffItem, ...] | None = None
    """What the next agent reads of the turn, where that is not all of `new_items`."""

    def clone(self, **changes: Any) -> HandoffInputData:
        return dataclasses.replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[[HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]]
HandoffHistoryMapper: TypeAlias = Callable[[list[JsonObject]], list[JsonObject]]
OnHandoff: TypeAlias = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Handoff:
    """An agent that the conversation may go to, and how the model asks for it."""

    agent: Any  # Any: an Agent; that class is declared on top of this one
    tool_name: str
    tool_description: str
    input_json_schema: JsonObject
    input_type: Any = None  # Any: whatever pydantic takes for a type
    on_handoff: OnHandoff | None = None
    input_filter: HandoffInputFilter | None = None
    is_enabled: EnabledRule = True
    nest_handoff_history: bool | None = None
    """Whether the next agent reads a story of the conversation so far; None: as the run's configuration says."""

    @property
    def agent_name(self) -> str:
        return str(self.agent.name)

    def validated(self, arguments: JsonObject) -> ValidatedArguments:
        """What the callback would get: complete, and in its types. Raises InvalidArguments."""
        return WholeType(self.input_type)(arguments)

    @classmethod
    def default_tool_name(cls, agent: Named) -> str:
        """What a handoff to this agent is called, by default."""
        return default_tool_name(agent.name)

    @classmethod
    def default_tool_description(cls, agent: Any) -> str:
        """What a model reads of a handoff to this agent, by default."""
        return default_tool_description(agent)

    def get_transfer_message(self, agent: Named) -> str:
        """The output of the call that hands over."""
        return encode({"assistant": agent.name}).decode()

    async def is_on(self, ctx: RunContextWrapper[Any], agent: Named) -> bool:
        if isinstance(self.is_enabled, bool):
            return self.is_enabled
        found = self.is_enabled(ctx, agent)
        return (await found if inspect.isawaitable(found) else found) is True


def handoff(
    agent: Any,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: Any = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: EnabledRule = True,
    nest_handoff_history: bool | None = None,
) -> Handoff:
    """A handoff to an agent.

    With `input_type` the model gives a reason or data along, and `on_handoff(ctx, data)` gets it.
    """
    check("handoff: ", agent=(agent, having("as_tool", "an Agent")))
    check(
        f"handoff to '{agent.name}': ",
        tool_name_override=(tool_name_override, optional(NAME)),
        tool_description_override=(tool_description_override, optional(TEXT)),
        on_handoff=(on_handoff, optional(FUNCTION)),
        input_type=(input_type, optional(TYPE)),
        input_filter=(input_filter, optional(FUNCTION)),
        is_enabled=(is_enabled, RULE),
    )
    _check_callback(agent.name, on_handoff, input_type)
    schema: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    if input_type is not None:
        import pydantic

        schema = strict_schema(pydantic.TypeAdapter(input_type).json_schema(), f"handoff to '{agent.name}': input_type")
    return Handoff(
        agent=agent,
        tool_name=tool_name_override or default_tool_name(agent.name),
        tool_description=tool_description_override or default_tool_description(agent),
        input_json_schema=schema,
        input_type=input_type,
        on_handoff=on_handoff,
        input_filter=input_filter,
        is_enabled=is_enabled,
        nest_handoff_history=nest_handoff_history,
    )


def default_tool_description(agent: Any) -> str:
    return f"Handoff to the {agent.name} agent to handle the request. {agent.handoff_description or ''}".strip()


def default_tool_name(agent_name: str) -> str:
    return "transfer_to_" + re.sub(r"[^a-z0-9_]", "_", agent_name.lower())


def _check_callback(agent_name: str, on_handoff: OnHandoff | None, input_type: Any) -> None:
    if on_handoff is None:
        if input_type is not None:
            raise UserError(
                f"handoff to '{agent_name}': input_type needs an on_handoff(ctx, data) that takes the data."
            )
        return
    wanted = 1 if input_type is None else 2
    if len(inspect.signature(on_handoff).parameters) != wanted:
        raise UserError(
            f"handoff to '{agent_name}': on_handoff takes {'(ctx)' if wanted == 1 else '(ctx, data)'} "
            + ("without input_type." if wanted == 1 else "with input_type.")
        )


# -- what the next agent reads ----------------------------------------------------------------------------------------

_START, _END = "<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>"
_INTRODUCTION = "The conversation so far, between the user and the agent before you:"

_TOOL_TYPES = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "file_search_call",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "reasoning",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)


class _Wrappers:
    """The marks around the story, for the whole process."""

    start: str = _START
    end: str = _END


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Put other marks around the story of a conversation."""
    _Wrappers.start = start if start is not None else _Wrappers.start
    _Wrappers.end = end if end is not None else _Wrappers.end


def reset_conversation_history_wrappers() -> None:
    _Wrappers.start, _Wrappers.end = _START, _END


def get_conversation_history_wrappers() -> tuple[str, str]:
    return _Wrappers.start, _Wrappers.end


def default_handoff_history_mapper(transcript: list[JsonObject]) -> list[JsonObject]:
    """The conversation as one message that tells of it, item by item."""
    lines = [f"{number}. {_text_of(item)}" for number, item in enumerate(transcript, 1)] or ["(nothing was said)"]
    content = "\n".join([_INTRODUCTION, _Wrappers.start, *lines, _Wrappers.end])
    return [{"role": "assistant", "content": content}]


def _text_of(item: JsonObject) -> str:
    content = item.get("content")
    if isinstance(item.get("role"), str) and isinstance(content, str) and "\n" not in content:  # a line is an item
        name = f" ({item['name']})" if isinstance(item.get("name"), str) else ""
        return f"{item['role']}{name}: {content}"
    shown = {key: value for key, value in item.items() if key != "provider_data"}
    return json.dumps(shown, ensure_ascii=False)


def nest_handoff_history(
    handoff_input_data: HandoffInputData, *, history_mapper: HandoffHistoryMapper | None = None
) -> HandoffInputData:
    """What came before the handoff as one message. A story that is in it already is told on, not wrapped again."""
    data = handoff_input_data
    everything = [*_history(data), *_plain(data.pre_handoff_items), *_plain(data.new_items)]
    transcript = [each for item in everything for each in _unfolded(item)]
    history = (history_mapper or default_handoff_history_mapper)(transcript)
    return data.clone(input_history=tuple(plain_item(item) for item in history), pre_handoff_items=(), input_items=())


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """The conversation without tools: no calls, no outputs, and no thoughts, which belong to calls."""
    data = handoff_input_data
    kept = tuple(item for item in _history(data) if item.get("type") not in _TOOL_TYPES)
    given = data.input_history
    return data.clone(
        input_history=given if isinstance(given, str) else kept,
        pre_handoff_items=_without_tools(data.pre_handoff_items),
        new_items=_without_tools(data.new_items),
    )


def _without_tools(items: Sequence[HandoffItem]) -> tuple[HandoffItem, ...]:
    return tuple(item for item in items if not _is_of_tools(item))


def _is_of_tools(item: HandoffItem) -> bool:
    if isinstance(item, ToolApprovalItem):
        return True
    plain = item.to_input_item() if isinstance(item, Item) else item
    return plain.get("type") in _TOOL_TYPES


def _history(data: HandoffInputData) -> list[JsonObject]:
    given = data.input_history
    return [{"role": "user", "content": given}] if isinstance(given, str) else [plain_item(item) for item in given]


def _plain(items: Sequence[HandoffItem]) -> list[JsonObject]:
    kept = [item for item in items if not isinstance(item, ToolApprovalItem)]
    return [item.to_input_item() if isinstance(item, Item) else plain_item(item) for item in kept]


def _unfolded(item: JsonObject) -> list[JsonObject]:
    """The items that a story in this message tells of, as far as they can be read back; else the message itself."""
    content = item.get("content")
    start, end = get_conversation_history_wrappers()
    if item.get("role") != "assistant" or not isinstance(content, str) or start not in content or end not in content:
        return [item]
    body = content.partition(start)[2].rpartition(end)[0]
    return [found for line in body.strip().splitlines() if (found := _read_back(line)) is not None]


def _read_back(line: str) -> JsonObject | None:
    text = line.partition(". ")[2] or line
    try:
        found = json.loads(text)
    except ValueError:
        role, colon, content_text = text.partition(": ")
        return {"role": role, "content": content_text} if colon and role else None
    return found if isinstance(found, dict) else None

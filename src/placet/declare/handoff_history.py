"""What the next agent reads after a handoff, where it is not simply everything: a story of what was said, or all of it
without tools."""

from __future__ import annotations

import json
from collections.abc import Sequence

from placet.declare.handoff import HandoffInputData, HandoffItem
from placet.declare.run_config import HandoffHistoryMapper
from placet.facts.codec import JsonObject, plain_item
from placet.facts.items import Item, ToolApprovalItem

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

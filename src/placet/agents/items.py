"""Items, and small helpers that read and write them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from placet import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MessageOutputItem,
    ModelResponse,
    OtherItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from placet.facts.codec import plain_item
from placet.facts.items import (
    CompactionItem,
    MCPListToolsItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
    field_of,
    refusal_of,
    text_of,
)
from placet.facts.items import Item as RunItemBase
from placet.runtime.output import as_tool_output

T = TypeVar("T")
TResponseInputItem: TypeAlias = dict[str, Any]
TResponseOutputItem: TypeAlias = Any
TResponseStreamEvent: TypeAlias = Any
TResponse: TypeAlias = Any
InputItem: TypeAlias = dict[str, Any]
_NO_LIMIT = 1 << 62


class ItemHelpers:
    """What programs ask of items most often."""

    @classmethod
    def extract_last_content(cls, message: Any) -> str:
        """The last part of a message: its text, or the words of a refusal."""
        part = _last_part(message)
        if part is None:
            return ""
        return str(field_of(part, "text" if field_of(part, "type") == "output_text" else "refusal") or "")

    @classmethod
    def extract_last_text(cls, message: Any) -> str | None:
        """The text of the last part of a message; None if that is something else."""
        part = _last_part(message)
        is_text = part is not None and field_of(part, "type") == "output_text"
        return str(field_of(part, "text")) if is_text else None

    @classmethod
    def extract_text(cls, message: Any) -> str | None:
        """All text of a message; None if it has none."""
        if field_of(message, "type") != "message":
            return None
        item = plain_item(message)
        return (text_of(item) or None) if refusal_of(item) is None else None

    @classmethod
    def extract_refusal(cls, message: Any) -> str | None:
        """What the model said instead of answering; None if it did not refuse."""
        return refusal_of(plain_item(message)) if field_of(message, "type") == "message" else None

    @classmethod
    def input_to_new_input_list(cls, input: str | Sequence[Any]) -> list[TResponseInputItem]:
        """A new list of items: a text becomes a message of the user."""
        if isinstance(input, str):
            return [{"content": input, "role": "user"}]
        return copy.deepcopy(list(input))

    @classmethod
    def text_message_outputs(cls, items: Sequence[RunItem]) -> str:
        """The texts of all messages among the items, joined."""
        return "".join(cls.text_message_output(item) for item in items if isinstance(item, MessageOutputItem))

    @classmethod
    def text_message_output(cls, message: MessageOutputItem) -> str:
        """All text of one message."""
        return message.text if message.refusal is None else ""

    @classmethod
    def tool_call_output_item(cls, tool_call: Any, output: Any) -> TResponseInputItem:
        """The item that tells a model what a call gave."""
        name, label = str(field_of(tool_call, "name") or ""), field_of(tool_call, "call_id")
        return {"call_id": label, "output": as_tool_output(name, output, _NO_LIMIT), "type": "function_call_output"}


def _last_part(message: Any) -> Any:
    content = field_of(message, "content") if field_of(message, "type") == "message" else None
    return content[-1] if isinstance(content, list) and content else None


__all__ = [
    "CompactionItem",
    "HandoffCallItem",
    "HandoffOutputItem",
    "InputItem",
    "ItemHelpers",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MessageOutputItem",
    "ModelResponse",
    "OtherItem",
    "ReasoningItem",
    "RunItem",
    "RunItemBase",
    "T",
    "TResponse",
    "TResponseInputItem",
    "TResponseOutputItem",
    "TResponseStreamEvent",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolSearchCallItem",
    "ToolSearchOutputItem",
]

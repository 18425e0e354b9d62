"""What was said, in the shape that the GenAI conventions give to messages. Used only where content is captured."""

from __future__ import annotations

from collections.abc import Sequence

from placet.facts.codec import Json, JsonObject, encode, parse_arguments
from placet.facts.items import text_of
from placet.facts.native_items import as_function_item


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def input_messages(given: str | Sequence[JsonObject]) -> str:
    if isinstance(given, str):
        return as_text([{"role": "user", "parts": [_text(given)]}])
    return as_text([{"role": str(item.get("role") or _role_of(item)), "parts": [_part(item)]} for item in given])


def output_messages(output: Sequence[JsonObject]) -> str:
    """A response is one message, whatever it is made of."""
    reason = "tool_call" if any(as_function_item(item).get("type") == "function_call" for item in output) else "stop"
    return as_text([{"role": "assistant", "parts": [_part(item) for item in output], "finish_reason": reason}])


def final_message(output: Json) -> str:
    return as_text([{"role": "assistant", "parts": [_text(as_text(output))], "finish_reason": "stop"}])


def _role_of(item: JsonObject) -> str:
    return "tool" if as_function_item(item).get("type") == "function_call_output" else "assistant"


def _text(text: str) -> JsonObject:
    return {"type": "text", "content": text}


def _part(given: JsonObject) -> JsonObject:
    item = as_function_item(given)
    match item.get("type"):
        case "function_call":
            arguments = str(item.get("arguments") or "")
            parsed = parse_arguments(arguments)
            return {
                "type": "tool_call",
                "id": item.get("call_id"),
                "name": item.get("name"),
                "arguments": arguments if parsed is None else parsed,
            }
        case "function_call_output":
            return {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}
        case "message" | None:
            content = item.get("content")
            return _text(content if isinstance(content, str) else text_of(item))
        case other:
            return {"type": str(other), "content": as_text(item)}

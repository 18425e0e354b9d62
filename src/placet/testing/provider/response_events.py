"""A response of the Responses API as a stream: the events that lead up to the finished response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placet.testing.provider.response_items import Item

Event = dict[str, Any]

_ENDINGS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def response_events(response: Item) -> list[Event]:
    """All events of a response, numbered."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "error": None}
    begun.update(incomplete_details=None, completed_at=None)
    events: list[Event] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(response["output"]):
        events.extend(_item_events(item, index))
    events.append({"type": _ENDINGS[response["status"]], "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def error_event(code: str | None, message: str, number: int) -> Event:
    return {"type": "error", "code": code, "message": message, "param": None, "sequence_number": number}


def _item_events(item: Item, index: int) -> Iterator[Event]:
    yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
    yield from _inner_events(item, {"output_index": index, "item_id": item["id"]})
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _inner_events(item: Item, place: Item) -> Iterator[Event]:
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                yield from _part_events(part, {**place, "content_index": number})
        case "reasoning":
            for number, part in enumerate(item.get("summary") or ()):
                yield from _summary_events(part, {**place, "summary_index": number})
        case "function_call":
            yield from _text_events("response.function_call_arguments", item["arguments"], "arguments", place)
        case "shell_call":
            for number, command in enumerate(item["action"]["commands"]):
                yield from _command_events(command, {"output_index": place["output_index"], "command_index": number})
        case "custom_tool_call":
            yield from _text_events("response.custom_tool_call_input", item["input"], "input", place)
        case _:
            yield from _server_events(item, place)


def _server_events(item: Item, place: Item) -> Iterator[Event]:
    """Events of what the provider does itself."""
    match item["type"]:
        case "mcp_call":
            yield {"type": "response.mcp_call.in_progress", **place}
            yield from _text_events("response.mcp_call_arguments", item["arguments"], "arguments", place)
            ending = "failed" if item.get("error") else "completed"
            yield {"type": f"response.mcp_call.{ending}", **place}
        case "mcp_list_tools":
            yield {"type": "response.mcp_list_tools.in_progress", **place}
            yield {"type": "response.mcp_list_tools.completed", **place}
        case "web_search_call" | "file_search_call":
            for stage in ("in_progress", "searching", "completed"):
                yield {"type": f"response.{item['type']}.{stage}", **place}
        case _:
            pass


def _part_events(part: Item, place: Item) -> Iterator[Event]:
    field = "refusal" if part["type"] == "refusal" else "text"
    yield {"type": "response.content_part.added", **place, "part": {**part, field: ""}}
    if field == "refusal":
        yield from _text_events("response.refusal", part["refusal"], "refusal", place)
    else:
        yield from _text_events("response.output_text", part["text"], "text", {**place, "logprobs": []})
    yield {"type": "response.content_part.done", **place, "part": part}


def _command_events(command: str, place: Item) -> Iterator[Event]:
    yield {"type": "response.shell_call_command.added", **place, "command": ""}
    yield from _text_events("response.shell_call_command", command, "command", place)


def _summary_events(part: Item, place: Item) -> Iterator[Event]:
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
    yield from _text_events("response.reasoning_summary_text", part["text"], "text", place)
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _text_events(name: str, text: str, field: str, place: Item) -> Iterator[Event]:
    for delta in pieces_of(text):
        yield {"type": f"{name}.delta", **place, "delta": delta}
    yield {"type": f"{name}.done", **place, field: text}


def pieces_of(text: str, size: int = 8) -> list[str]:
    """A text as it comes from a model: in pieces that respect neither words nor JSON."""
    return [text[start : start + size] for start in range(0, len(text), size)]


_UNFINISHED: dict[str, Item] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "mcp_call": {"arguments": "", "output": None},
    "mcp_list_tools": {"tools": []},
}


def _begun(item: Item) -> Item:
    """The item as it is announced, before its content came."""
    begun = {**item, **_UNFINISHED.get(item["type"], {})}
    if "status" in item:
        begun["status"] = "in_progress"
    return begun

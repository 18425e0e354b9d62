"""From a message of Anthropic's API to the items of a run: whole, or put together from the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import ProviderError
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.models.anthropic_messages_request import API, BLOCK
from placet.models.provider_data import with_more_provider_data, with_provider_data

PAUSED = "pause_turn"
_CUT_OFF = {
    "max_tokens": "it reached its limit of output tokens (ModelSettings.max_tokens)",
    "model_context_window_exceeded": "it reached the end of the model's context window",
}


def as_response(message: Mapping[str, Any], mark: str, request_id: str | None = None) -> ModelResponse:
    """The message as the runtime takes it. One that was cut short says why."""
    identity = message.get("id")
    output = as_items(message, mark)
    if output and message.get("container"):  # where the API's own tools worked: they go on there
        output[0] = with_more_provider_data(output[0], API, {"container": message["container"]})
    return ModelResponse(
        output=output,
        usage=as_usage(message.get("usage")),
        response_id=identity if isinstance(identity, str) else None,
        request_id=request_id,
        incomplete=_CUT_OFF.get(str(message.get("stop_reason"))),
    )


def as_message(body: object, request_id: str | None = None) -> JsonObject:
    """What the API answered, if it is a message."""
    if not isinstance(body, dict) or not isinstance(body.get("content"), list):
        raise ProviderError(
            "Anthropic answered something that is no message: it has no list of content blocks.", request_id=request_id
        )
    return body


def as_items(message: Mapping[str, Any], mark: str) -> list[JsonObject]:
    """The message's blocks as items. `mark` stands for all that the request said: thinking goes back only behind the
    same words."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if message.get("stop_reason") == "refusal":
        return _refused(message, blocks)
    items: list[JsonObject] = []
    texts: list[JsonObject] = []
    for block in blocks:
        if block.get("type") == "text":
            texts.append(block)  # an answer with citations is many blocks, and one text
            continue
        items += _message_items(texts)
        texts = []
        items.append(_item(block, mark))
    return items + _message_items(texts)


def _message_items(texts: Sequence[JsonObject]) -> list[JsonObject]:
    parts: list[JsonObject] = [
        {"type": "output_text", "text": block.get("text") or "", "annotations": []} for block in texts
    ]
    if not any(part["text"] for part in parts):
        return []
    beyond = [{name: value for name, value in block.items() if name not in ("type", "text")} for block in texts]
    item: JsonObject = {"type": "message", "role": "assistant", "content": parts, "status": "completed"}
    has_more = any(value is not None for each in beyond for value in each.values())
    return [with_provider_data(item, API, {"blocks": beyond} if has_more else {})]


def _refused(message: Mapping[str, Any], blocks: Sequence[JsonObject]) -> list[JsonObject]:
    """A refusal that can be read as one. Calls that stood before it are not made: the model did not finish them."""
    parts: list[JsonObject] = [
        {"type": "output_text", "text": block["text"], "annotations": []}
        for block in blocks
        if block.get("type") == "text" and block.get("text")
    ]
    details = message.get("stop_details")
    found = details if isinstance(details, dict) else {}
    category = found.get("category")
    text = found.get("explanation") or "The model refused to answer" + (f" ({category})." if category else ".")
    parts.append({"type": "refusal", "refusal": str(text)})
    item: JsonObject = {"type": "message", "role": "assistant", "content": parts, "status": "completed"}
    return [with_provider_data(item, API, {"stop_details": details} if details else {})]


def _item(block: JsonObject, mark: str) -> JsonObject:
    match block.get("type"):
        case "thinking":
            text = block.get("thinking")
            summary = [{"type": "summary_text", "text": text}] if text else []
            kept = {name: value for name, value in block.items() if name != "thinking"}
            return with_provider_data({"type": "reasoning", "summary": summary}, API, {"block": kept, "mark": mark})
        case "redacted_thinking":
            return with_provider_data({"type": "reasoning", "summary": []}, API, {"block": block, "mark": mark})
        case "tool_use":
            return _call(block)
        case kind:
            return with_provider_data({"type": f"{BLOCK}{kind}"}, API, {"block": block})


def _call(block: JsonObject) -> JsonObject:
    item: JsonObject = {
        "type": "function_call",
        "name": block.get("name") or "",
        "arguments": as_arguments(block.get("input")),
        "status": "completed",
    }
    if block.get("id"):
        item["call_id"] = block["id"]
    beyond = {
        name: value
        for name, value in block.items()
        if name not in ("type", "id", "name", "input") and value is not None
    }
    return with_provider_data(item, API, {"block": beyond} if beyond else {})


def as_arguments(given: object) -> str:
    """The input of a call as a JSON text. Text that is no object (of a stream) stays as the model wrote it."""
    if isinstance(given, str):
        found = parse_arguments(given)
        return given if found is None else json.dumps(found, ensure_ascii=False)
    return json.dumps({} if given is None else given, ensure_ascii=False)


def as_usage(given: object) -> Usage:
    """The API counts what came out of its cache and went into it beside the other input: here all is input."""
    usage = given if isinstance(given, dict) else {}
    cached, kept = _figure(usage, "cache_read_input_tokens"), _figure(usage, "cache_creation_input_tokens")
    read = _figure(usage, "input_tokens") + kept + cached
    written = _figure(usage, "output_tokens")
    return Usage(
        requests=1,
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        cached_tokens=cached,
        reasoning_tokens=_figure(usage.get("output_tokens_details"), "thinking_tokens"),
        cache_write_tokens=kept,
    )


def _figure(given: object, name: str) -> int:
    found = given.get(name) if isinstance(given, dict) else None
    return found if isinstance(found, int) else 0


# -- a stream ----------------------------------------------------------------------------------------------------------


class MessageAssembly:
    """Puts a message together from its events. Events and deltas that are not known change nothing, or are kept."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._inputs: dict[int, str] = {}
        self._open: JsonObject | None = None
        self._is_over = False
        self.is_begun = False

    def add(self, event: Mapping[str, Any]) -> None:
        self.is_begun = True
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), dict):
                self._message = dict(event["message"])
                given = self._message.get("content")
                for index, block in enumerate(given if isinstance(given, list) else []):
                    self._blocks[index] = dict(block)
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                self._blocks[_index(event)] = self._open = dict(event["content_block"])
            case "content_block_delta" if isinstance(event.get("delta"), dict):
                self._extend(_index(event), event["delta"])
            case "content_block_stop":
                self._finish(_index(event))
            case "message_delta":
                self._update(event)
            case "message_stop":
                self._is_over = True
            case _:
                pass

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "input_json_delta":
                self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
            case "citations_delta":
                known = block.get("citations")
                block["citations"] = [*(known if isinstance(known, list) else []), delta.get("citation")]
            case "signature_delta":
                block["signature"] = delta.get("signature")
            case _:  # text_delta, thinking_delta, and what a newer API has: each field goes on
                for name, piece in delta.items():
                    if name != "type" and piece is not None:
                        before = block.get(name)
                        is_text = isinstance(before, str) and isinstance(piece, str)
                        block[name] = f"{before}{piece}" if is_text else piece

    def _finish(self, index: int) -> None:
        self._open = None
        text = self._inputs.pop(index, "")
        if text.strip() and index in self._blocks:
            found = parse_arguments(text)
            self._blocks[index]["input"] = text if found is None else found

    def _update(self, event: Mapping[str, Any]) -> None:
        for name, value in _fields(event.get("delta")).items():
            if value is not None:
                self._message[name] = value
        known = _fields(self._message.get("usage"))
        figures = {name: value for name, value in _fields(event.get("usage")).items() if value is not None}
        self._message["usage"] = {**known, **figures}  # the figures are totals so far

    def whole(self) -> JsonObject:
        """The message, as the API gives it without a stream; ProviderError where the stream ended too early."""
        if not self._is_over:
            raise ProviderError(
                f"The model's stream ended {self._where()}, before the answer was complete.", is_transient=True
            )
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}

    def _where(self) -> str:
        if self._open is None:
            return "between two blocks" if self._blocks else "before it said anything"
        if self._open.get("type") == "tool_use":
            return f"in the middle of a call of '{self._open.get('name')}'"
        return f"in the middle of a block '{self._open.get('type')}'"


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _fields(found: object) -> JsonObject:
    return found if isinstance(found, dict) else {}

"""From the items of a run to the messages of Anthropic's API: pure, and the same messages for the same items.

Users and the model take turns there: what follows one another from one side is one message, the results of calls stand
first in the message after them, and what the model thought goes back unchanged where it stood.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from placet.facts.codec import Json, JsonObject, canonical, encode
from placet.facts.errors import UserError
from placet.facts.native_items import as_function_item
from placet.models.provider_data import provider_data_of

API = "anthropic"
MALFORMED = "malformed_arguments"
BLOCK = "anthropic:"
"""Items of this kind are blocks that only this API knows: `anthropic:server_tool_use`, …"""
_BAD_IN_LABELS = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)
_BEGINNING = "(The conversation begins here.)"
_GO_ON = "(Please go on.)"


def as_system(items: Iterable[JsonObject], instructions: str | None) -> str | list[JsonObject] | None:
    """The system prompt: the agent's instructions, then what stands in the input as a system's or developer's word."""
    blocks: list[JsonObject] = [{"type": "text", "text": instructions}] if instructions else []
    for item in items:
        if _is_for_the_system(item):
            blocks += _text_blocks(item)
    if len(blocks) == 1 and set(blocks[0]) == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks or None


def _is_for_the_system(item: Mapping[str, object]) -> bool:
    return item.get("type", "message") == "message" and item.get("role") in ("system", "developer")


def as_messages(items: Iterable[JsonObject], prefix: str, *, must_think: bool) -> tuple[list[JsonObject], str]:
    """The messages of one request, and the mark of all that stands in them.

    `prefix` is the mark of what stands before the messages (system prompt and tools). The API takes a thinking block
    back only behind the very words behind which it was thought: one whose mark differs (another agent's, after a
    handoff) is left out. `must_think`: the request uses a mode of thinking that wants the block in any case.
    """
    writer = _Writer(prefix, must_think=must_think)
    for item in items:
        if not _is_for_the_system(item):
            writer.add(item)
    writer.end()
    return writer.messages, writer.mark


def mark_of(*values: object) -> str:
    """A short digest of JSON values. What they say about caching does not count, for the API neither."""
    return hashlib.blake2b(canonical(_without_cache_marks(values)), digest_size=12).hexdigest()


def _without_cache_marks(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_cache_marks(each) for name, each in value.items() if name != "cache_control"}
    return [_without_cache_marks(each) for each in value] if isinstance(value, list | tuple) else value


class _Writer:
    def __init__(self, prefix: str, *, must_think: bool) -> None:
        self.messages: list[JsonObject] = []
        self.mark = prefix
        self._must_think = must_think
        self._role = ""
        self._results: list[JsonObject] = []
        self._blocks: list[JsonObject] = []
        self._labels: dict[str, str] = {}
        self._taken_labels: set[str] = set()

    def add(self, given: JsonObject) -> None:
        item = as_function_item(given)
        kind = item.get("type", "message")
        match kind:
            case "message":
                self._turn("assistant" if item.get("role") == "assistant" else "user")
                self._blocks += _answered(item) if self._role == "assistant" else _text_blocks(item)
            case "function_call":
                self._turn("assistant")
                self._blocks.append(self._use(item))
            case "function_call_output":
                self._turn("user")
                self._results.append(self._result(item))
            case "reasoning":
                self._think(item)
            case "item_reference":
                raise UserError(
                    "An item_reference names something that OpenAI's server keeps; Anthropic's API keeps nothing: give "
                    "the item itself."
                )
            case str() if kind.startswith(BLOCK) and (block := provider_data_of(item, API).get("block")):
                self._turn("assistant")
                self._blocks.append(_fields(block))
            case _:
                pass  # made by another API for itself (a hosted tool's call, say): nobody here could read it

    def end(self) -> None:
        """The API wants a user to have the last word: one who says nothing new lets the model go on."""
        self.close()
        if self.messages and self._role == "assistant":
            self._role, self._blocks = "user", [{"type": "text", "text": _GO_ON}]
            self.close()

    def close(self) -> None:
        blocks = [*self._results, *self._blocks]
        if self._role and blocks:
            message: JsonObject = {"role": self._role, "content": blocks}
            self.messages.append(message)
            self.mark = mark_of(self.mark, message)
        self._results, self._blocks = [], []

    def _turn(self, role: str) -> None:
        if role == self._role:
            return
        self.close()
        if role == "assistant" and not self.messages:
            self._role, self._blocks = "user", [{"type": "text", "text": _BEGINNING}]  # the API begins with a user
            self.close()
        self._role = role

    def _think(self, item: JsonObject) -> None:
        data = provider_data_of(item, API)
        block = data.get("block")
        if not isinstance(block, dict):
            return
        self._turn("assistant")
        if data.get("mark") in (None, self.mark) or self._must_think:
            self._blocks.append(_thought(item, block))

    def _label(self, given: object) -> str:
        """The id under which a call goes out: the API takes letters, digits, _ and - only; two stay two."""
        text = given if isinstance(given, str) else ""
        if text not in self._labels:
            safe = _BAD_IN_LABELS.sub("_", text) or "call"
            while safe in self._taken_labels:
                safe = f"{safe}_{mark_of(text)[:8]}"
            self._labels[text] = safe
            self._taken_labels.add(safe)
        return self._labels[text]

    def _use(self, item: JsonObject) -> JsonObject:
        beyond = _fields(provider_data_of(item, API).get("block"))
        return {
            **beyond,
            "type": "tool_use",
            "id": self._label(item.get("call_id")),
            "name": item.get("name"),
            "input": _input(item.get("arguments")),
        }

    def _result(self, item: JsonObject) -> JsonObject:
        found: JsonObject = {"type": "tool_result", "tool_use_id": self._label(item.get("call_id"))}
        content = _result_content(item.get("output"))
        if content:
            found["content"] = content
        if item.get("status") == "incomplete" or item.get("is_error") is True:
            found["is_error"] = True
        return found


def _fields(found: object) -> JsonObject:
    return dict(found) if isinstance(found, dict) else {}


def _thought(item: JsonObject, block: JsonObject) -> JsonObject:
    """The thinking block as the API gave it: its words stand in the item, its signature beside them."""
    if block.get("type") != "thinking":
        return dict(block)
    summary = item.get("summary")
    texts = [str(part.get("text") or "") for part in summary if isinstance(part, dict)] if summary else []  # type: ignore[attr-defined]  # a list, if a reasoning item has one
    return {**block, "thinking": "".join(texts)}


def _input(arguments: object) -> JsonObject:
    """The arguments as an object: the API takes nothing else, whatever a model wrote."""
    text = arguments if isinstance(arguments, str) and arguments.strip() else "{}"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {MALFORMED: text}


def _result_content(output: Json) -> str | list[JsonObject]:
    if isinstance(output, list):
        return _blocks_of(output)
    return output if isinstance(output, str) else encode(output).decode()


def _text_blocks(item: JsonObject) -> list[JsonObject]:
    """What a user (or the system) said, as blocks. The API refuses an empty text."""
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return _blocks_of(content if isinstance(content, list) else [])


def _answered(item: JsonObject) -> list[JsonObject]:
    """What the model said before, with what this API had added to its texts (citations, say)."""
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if isinstance(content, str):
        parts = [{"type": "output_text", "text": content}]
    texts = [str(part.get("text") or part.get("refusal") or "") for part in parts]
    beyond = provider_data_of(item, API).get("blocks")
    added = [_fields(each) for each in beyond] if isinstance(beyond, list) and len(beyond) == len(texts) else []
    return [
        {**(added[index] if added else {}), "type": "text", "text": text}
        for index, text in enumerate(texts)
        if text.strip()
    ]


def _blocks_of(parts: Sequence[object]) -> list[JsonObject]:
    found = [_block(part) for part in parts if isinstance(part, dict)]
    return [block for block in found if block.get("type") != "text" or str(block.get("text") or "").strip()]


def _block(part: JsonObject) -> JsonObject:
    """A part of a message as a block. What has no common shape goes as it is."""
    match part.get("type"):
        case "input_text" | "output_text":
            return {"type": "text", "text": part.get("text"), **_beyond(part, "text", "annotations", "logprobs")}
        case "refusal":
            return {"type": "text", "text": part.get("refusal")}
        case "input_image":
            return {
                "type": "image",
                "source": _image_source(part),
                **_beyond(part, "image_url", "file_id", "detail"),
            }
        case "input_file":
            return _document(part)
        case "input_audio":
            raise UserError("Anthropic's API takes no audio: leave the input_audio out, or give its text.")
        case _:
            return part


def _beyond(part: JsonObject, *known: str) -> JsonObject:
    """Fields that are this API's own, such as cache_control."""
    return {name: value for name, value in part.items() if name not in (*known, "type")}


def _image_source(part: JsonObject) -> JsonObject:
    url = part.get("image_url")
    if isinstance(part.get("file_id"), str):
        return {"type": "file", "file_id": part["file_id"]}
    if not isinstance(url, str):
        raise UserError("An input_image has an image_url (an address, or 'data:image/png;base64,…') or a file_id.")
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    kind, data = _data_of(url, "an input_image")
    return {"type": "base64", "media_type": kind, "data": data}


def _document(part: JsonObject) -> JsonObject:
    found: JsonObject = {"type": "document", "source": _document_source(part)}
    if isinstance(part.get("filename"), str):
        found["title"] = part["filename"]
    return {**found, **_beyond(part, "file_data", "file_url", "file_id", "filename", "detail")}


def _document_source(part: JsonObject) -> JsonObject:
    if isinstance(part.get("file_id"), str):
        return {"type": "file", "file_id": part["file_id"]}
    if isinstance(part.get("file_url"), str):
        return {"type": "url", "url": part["file_url"]}
    data = part.get("file_data")
    if not isinstance(data, str):
        raise UserError("An input_file has file_data ('data:application/pdf;base64,…'), a file_url or a file_id.")
    if not data.startswith("data:"):
        return {"type": "base64", "media_type": "application/pdf", "data": data}
    kind, content = _data_of(data, "an input_file")
    if kind.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _text_of(content, kind)}
    return {"type": "base64", "media_type": kind, "data": content}


def _data_of(url: str, where: str) -> tuple[str, str]:
    found = _DATA_URL.fullmatch(url)
    if found is None or not found["base64"]:
        raise UserError(f"The data of {where} must be base64: 'data:<media type>;base64,…'.")
    return found["kind"] or "application/octet-stream", found["data"]


def _text_of(data: str, kind: str) -> str:
    import base64
    import binascii

    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UserError(f"An input_file of the kind {kind} does not hold base64 of a UTF-8 text.") from error
